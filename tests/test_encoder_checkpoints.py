"""MedCPT, BGE and other checkpoints, read by the real code from tiny models that the tests make."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.sentence_transformer import (
    BGE_QUERY_INSTRUCTION,
    CrossEncoderScorer,
)
from tests.checkpoints import HIDDEN, write_bert, write_sentence_transformer

pytestmark = pytest.mark.slow

PASSAGES = [
    ("Aspirin and stroke", "Aspirin lowers the risk of stroke in adults."),
    ("", "A text that has no title at all."),
    ("A title alone", ""),
    ("Far over the limit", "stroke risk " * 700),
    *[(f"Case {n}", "the risk " * (n % 9)) for n in range(40)],
]
"""Mixed lengths, with and without titles, more than one batch."""
QUESTIONS = [
    "Does aspirin prevent stroke?",
    "stroke",
    "risk of stroke " * 60,
    *[f"case {n}" for n in range(40)],
]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    write_bert(folder / "MedCPT-Query-Encoder", seed=1)
    write_bert(folder / "MedCPT-Article-Encoder", seed=2)
    write_bert(folder / "MedCPT-Cross-Encoder", seed=3, labels=1)
    write_sentence_transformer(folder / "bge", seed=4)
    return folder


def plain_forward(
    folder: Path, max_tokens: int, *texts: str, architecture: str = "AutoModel"
) -> Any:
    """What the model returns for one text or one pair, by transformers alone."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, architecture).from_pretrained(folder).eval()
    with torch.no_grad():
        return model(
            **tokenizer(
                *([text] for text in texts),
                truncation=True,
                max_length=max_tokens,
                return_tensors="pt",
            )
        )


def tolerance() -> float:
    """On a GPU of CUDA's models run in half precision."""
    import torch

    return 0.05 if torch.cuda.is_available() else 1e-5


def cls_vectors(folder: Path, max_tokens: int, texts: list[tuple[str, ...]]) -> NDArray[np.float32]:
    rows = [
        plain_forward(folder, max_tokens, *text).last_hidden_state[0, 0].numpy() for text in texts
    ]
    return np.stack(rows)


@pytest.fixture(scope="module")
def medcpt(checkpoints: Path) -> Encoder:
    return load_encoder(f"medcpt:{checkpoints}")


def test_medcpt_questions_are_cls_vectors_at_64_tokens(medcpt: Encoder, checkpoints: Path) -> None:
    expected = cls_vectors(
        checkpoints / "MedCPT-Query-Encoder", 64, [(question,) for question in QUESTIONS[:8]]
    )
    vectors = medcpt.encode_queries(QUESTIONS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(QUESTIONS), HIDDEN)
    np.testing.assert_allclose(vectors[:8], expected, atol=tolerance())


def test_medcpt_articles_are_cls_vectors_of_title_and_text_pairs(
    medcpt: Encoder, checkpoints: Path
) -> None:
    expected = cls_vectors(checkpoints / "MedCPT-Article-Encoder", 512, list(PASSAGES[:12]))
    np.testing.assert_allclose(medcpt.encode_passages(PASSAGES)[:12], expected, atol=tolerance())


def test_the_cross_encoder_scores_question_and_joined_passage(checkpoints: Path) -> None:
    folder = checkpoints / "MedCPT-Cross-Encoder"
    scores = CrossEncoderScorer(folder).score(QUESTIONS[0], PASSAGES)
    joined = ["Aspirin and stroke. " + PASSAGES[0][1], PASSAGES[1][1], PASSAGES[2][0]]
    joined.append(f"{PASSAGES[3][0]}. {PASSAGES[3][1]}")
    architecture = "AutoModelForSequenceClassification"
    expected = [
        plain_forward(folder, 512, QUESTIONS[0], text, architecture=architecture).logits.item()
        for text in joined
    ]
    assert (scores.dtype, scores.shape) == (np.float32, (len(PASSAGES),))
    np.testing.assert_allclose(scores[:4], expected, atol=tolerance())


def test_bge_puts_its_instruction_before_questions_only(checkpoints: Path) -> None:
    folder = checkpoints / "bge"
    bge = load_encoder(f"bge:{folder}")
    assert (bge.name, bge.metric, bge.dimension) == (f"bge:{folder}", "cosine", HIDDEN)
    assert BGE_QUERY_INSTRUCTION in bge.text_format
    expected = cls_vectors(
        folder, 128, [(BGE_QUERY_INSTRUCTION + QUESTIONS[0],), ("Case 1. the risk",)]
    )
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(bge.encode_queries(QUESTIONS)[0], expected[0], atol=tolerance())
    np.testing.assert_allclose(
        bge.encode_passages([("Case 1", "the risk")])[0], expected[1], atol=tolerance()
    )
