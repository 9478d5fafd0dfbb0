"""The calls that people try first in Python, each made for real."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext import KnowledgeBase, Settings, build_knowledge_base, graph
from briefcontext.errors import InputError
from briefcontext.knowledge.encoders import register_encoder
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder
from tests.conftest import QUESTION

TEXTS = ["Amlodipine causes swollen ankles.", "ACE inhibitors cause a dry cough."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of text files."""
    folder = tmp_path / "papers"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("form", [str, Path, lambda folder: [folder / "0.txt", folder / "1.txt"]])
def test_a_base_is_built_of_paths(form: Any, folder: Path, tmp_path: Path) -> None:
    assert build_knowledge_base(form(folder), tmp_path / "kb").passages == 2
    with KnowledgeBase(tmp_path / "kb") as base:
        assert base.manifest.encoder.name == "e5"
        [document] = base.search("Why are my ankles swollen?", 1)
    assert document.page_content == TEXTS[0]


@pytest.mark.slow
def test_a_registered_encoder_opens_its_base(tmp_path: Path) -> None:
    encoder = EmbeddingsEncoder(DeterministicFakeEmbedding(size=8), name="first-hour")
    documents = [Document(text, id=str(number)) for number, text in enumerate(TEXTS)]
    build_knowledge_base(documents, tmp_path / "kb", encoder=encoder)
    context = Settings(knowledge_base=str(tmp_path / "kb"))
    with pytest.raises(InputError, match="register_encoder"):
        graph.invoke({"question": TEXTS[0]}, context=context)
    register_encoder(encoder)
    answer = graph.invoke({"question": TEXTS[0]}, context=context)["answer"]
    assert {document["source_id"] for document in answer["documents"]} <= {"0", "1"}


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ({"mesh": ["Astma"]}, "Did you mean 'asthma'"),
        ({"publication_types": ["randomized trail"]}, "Did you mean 'randomized trial'"),
        ({"mesh": ["Zebras"]}, "Known: asthma"),
    ],
)
def test_an_unknown_label_names_the_nearest_of_the_base(
    filters: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    metadata = {
        "mesh": ["Asthma"],
        "languages": ["eng"],
        "journal": "Lancet",
        "publication_types": ["Randomized Controlled Trial"],
    }
    build_knowledge_base([Document(TEXTS[0], id="1", metadata=metadata)], tmp_path / "kb")
    context = Settings(knowledge_base=str(tmp_path / "kb"), **filters)
    with pytest.raises(InputError, match=problem):
        graph.invoke({"question": QUESTION}, context=context)
