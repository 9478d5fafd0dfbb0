"""Folders of weights with code, which is not run."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.encoders.sentence_transformer import CrossEncoderScorer
from tests.checkpoints import write_bert, write_sentence_transformer

pytestmark = pytest.mark.slow

LIBRARY = "sentence_transformers.models"
CODE = """
from pathlib import Path
Path({marker!r}).touch()

import torch

class Evil(torch.nn.Module):
    @classmethod
    def load(cls, *arguments, **named):
        return cls()

    from_pretrained = load

    def forward(self, features):
        return features
"""


class Runs:
    """Touches a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (f"from pathlib import Path; Path({str(self.marker)!r}).touch()",)


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")


def _change(file: Path, **content: object) -> None:
    _write(file, {**json.loads(file.read_text(encoding="utf-8")), **content})


def _modules(folder: Path, *types: tuple[str, str]) -> None:
    listing = [
        {"idx": n, "name": str(n), "path": path, "type": kind}
        for n, (path, kind) in enumerate(types)
    ]
    _write(folder / "modules.json", listing)


def _pickle(folder: Path, marker: Path) -> None:
    """Put a pickle in the place of the weights."""
    (folder / "model.safetensors").unlink(missing_ok=True)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Runs(marker), protocol=2))


def _torch_archive(folder: Path, marker: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Runs(marker)}, folder / "pytorch_model.bin")


def foreign_module(folder: Path, marker: Path) -> None:
    _modules(
        folder,
        ("", f"{LIBRARY}.Transformer"),
        ("1_Pooling", f"{LIBRARY}.Pooling"),
        ("", "evil.Evil"),
    )


def pickled(folder: Path, marker: Path) -> None:
    _pickle(folder, marker)


def pickled_in_an_archive(folder: Path, marker: Path) -> None:
    _torch_archive(folder, marker)


def pickled_beside_safetensors(folder: Path, marker: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Runs(marker), protocol=2))


def model_map(folder: Path, marker: Path) -> None:
    names = ("AutoConfig", "AutoModel", "AutoModelForSequenceClassification")
    _change(folder / "config.json", model_type="evil", auto_map=dict.fromkeys(names, "evil.Evil"))


Attack = Callable[[Path, Path], None]
REFUSED: tuple[Attack, ...] = (foreign_module, pickled, pickled_in_an_archive, model_map)
HARMLESS: tuple[Attack, ...] = (pickled_beside_safetensors,)


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists if code of a folder has run; the code can be imported."""
    marker, beside = tmp_path / "ran", tmp_path / "beside"
    beside.mkdir()
    (beside / "evil.py").write_text(CODE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(str(beside))
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return marker


def _load_sentence_model(folder: Path, attack: Attack, marker: Path) -> None:
    write_sentence_transformer(folder, seed=1)
    (folder / "evil.py").write_text(CODE.format(marker=str(marker)))
    attack(folder, marker)
    load_encoder(str(folder)).encode_queries(["stroke"])


@pytest.mark.parametrize("attack", REFUSED)
def test_a_hostile_sentence_model_is_refused_in_one_line(
    attack: Attack, marker: Path, tmp_path: Path
) -> None:
    with pytest.raises(KnowledgeBaseError, match=r"'.*model' cannot be read") as caught:
        _load_sentence_model(tmp_path / "model", attack, marker)
    assert not marker.exists()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("attack", HARMLESS)
def test_a_pickle_next_to_safetensors_is_not_loaded(
    attack: Attack, marker: Path, tmp_path: Path
) -> None:
    _load_sentence_model(tmp_path / "model", attack, marker)
    assert not marker.exists()


@pytest.mark.parametrize("attack", [pickled, model_map])
@pytest.mark.parametrize("kind", ["cross-encoder", "MedCPT"])
def test_a_hostile_cross_encoder_or_article_encoder_is_refused_in_one_line(
    kind: str, attack: Attack, marker: Path, tmp_path: Path
) -> None:
    for name in ("MedCPT-Query-Encoder", "MedCPT-Article-Encoder"):
        folder = write_bert(tmp_path / name, seed=2, labels=1)
        (folder / "evil.py").write_text(CODE.format(marker=str(marker)))
    attack(folder, marker)
    with pytest.raises(KnowledgeBaseError, match=r"'.*Article-Encoder' cannot be read") as caught:
        CrossEncoderScorer(folder) if kind == "cross-encoder" else load_encoder(
            f"medcpt:{tmp_path}"
        )
    assert not marker.exists()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_the_attacks_run_if_they_are_loaded(marker: Path, tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Runs(marker), protocol=2))
    assert marker.exists()
    marker.unlink()
    assert __import__("evil").Evil
    assert marker.exists()
