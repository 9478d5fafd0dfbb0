"""Chunks of a document: complete, in order, without overlap, and of bounded size."""

import json
import re

import pytest
from hypothesis import example, given, strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext.knowledge.chunking import chunk_document
from briefcontext.knowledge.encoders import Encoder
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder

WORDS = EmbeddingsEncoder(DeterministicFakeEmbedding(size=4), name="words")


class NumberTokens(EmbeddingsEncoder):
    """A token for each number and sign."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"[\d\u202f]+|\.", text)]


NUMBERS = NumberTokens(DeterministicFakeEmbedding(size=4), name="numbers")

texts = st.text(alphabet=st.sampled_from("ab1β漢.,- \n\t\u00a0"), max_size=120)


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


@pytest.mark.parametrize(("words", "chunks"), [(19, 1), (20, 2)])
def test_only_a_very_long_sentence_is_cut(words: int, chunks: int) -> None:
    found = chunk_document(source(" ".join(["10\u202f000"] * words) + "."), NUMBERS, tokens=10)
    assert len(found) == chunks
    assert all(chunk.page_content.startswith("10\u202f000") for chunk in found)


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
