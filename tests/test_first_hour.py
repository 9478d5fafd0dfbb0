"""The calls that people try first in Python, each made for real."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from briefcontext import (
    BM25Retriever,
    DenseRetriever,
    KnowledgeBase,
    LongDocumentRetriever,
    RerankingRetriever,
    Settings,
    build_graph,
    build_knowledge_base,
    events,
    graph,
)
from briefcontext.errors import InputError
from briefcontext.knowledge.encoders import register_encoder
from briefcontext.knowledge.encoders.encoder import EmbeddingsEncoder
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import OpenAIServer

TEXTS = ["Amlodipine causes swollen ankles.", "ACE inhibitors cause a dry cough."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of text files."""
    folder = tmp_path / "papers"
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)
    return folder


@pytest.mark.parametrize("name", [None, "model"])
def test_a_models_name_is_enough(
    name: str | None,
    agreeing: FixedRetriever,
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    arguments: Any = {} if name is None else {name: "openai:named"}
    positional = () if name else ("openai:named",)
    built = build_graph(*positional, retriever=agreeing, **arguments)
    assert built.invoke({"question": QUESTION})["answer"]["written_by"] == "openai:named"


@pytest.mark.parametrize("form", [str, Path, lambda folder: [folder / "0.txt", folder / "1.txt"]])
def test_a_base_is_built_of_paths(form: Any, folder: Path, tmp_path: Path) -> None:
    assert build_knowledge_base(form(folder), tmp_path / "kb").passages == 2
    with KnowledgeBase(tmp_path / "kb") as base:
        assert base.manifest.encoder.name == "e5"
        [document] = base.search("Why are my ankles swollen?", 1)
    assert document.page_content == TEXTS[0]


def test_a_document_without_an_id_is_indexed(tmp_path: Path) -> None:
    documents = [Document(text, metadata={"source": "notes.txt"}) for text in TEXTS]
    report = build_knowledge_base([*documents, documents[0]], tmp_path / "kb")
    with KnowledgeBase(tmp_path / "kb") as base:
        assert report.passages == len(base) == 2
        assert all(id.startswith("notes.txt#") for id in base.ids())


def test_a_base_of_own_embeddings_opens_by_its_name_after_registration(tmp_path: Path) -> None:
    encoder = EmbeddingsEncoder(DeterministicFakeEmbedding(size=8), name="first-hour")
    documents = [Document(text, id=str(number)) for number, text in enumerate(TEXTS)]
    build_knowledge_base(documents, tmp_path / "kb", encoder=encoder)
    context = Settings(knowledge_base=str(tmp_path / "kb"))
    with pytest.raises(InputError, match="register_encoder"):
        graph.invoke({"question": TEXTS[0]}, context=context)
    register_encoder(encoder)
    answer = graph.invoke({"question": TEXTS[0]}, context=context)["answer"]
    assert {document["source_id"] for document in answer["documents"]} <= {"0", "1"}


def test_retrievers_take_a_name_or_a_file(folder: Path) -> None:
    for retriever in (
        DenseRetriever("demo"),
        BM25Retriever("demo", k=2),
        DenseRetriever(KnowledgeBase("demo")),
    ):
        assert retriever.invoke("metformin", k=2)
    [document] = LongDocumentRetriever(folder / "0.txt").invoke("ankles")
    assert document.page_content == TEXTS[0]


def test_a_scorer_is_opened_by_its_folder() -> None:
    with pytest.raises(Exception, match="/nowhere"):
        RerankingRetriever(retriever=BM25Retriever("demo"), scorer="/nowhere")


def test_events_are_importable() -> None:
    seen = [event["event"] for event in graph.stream({"question": QUESTION}, stream_mode="custom")]
    assert seen[0] == "retrieved"
    assert events.Retrieved.__annotations__.keys() == {"event", "documents"}


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ({"mesh": ["Astma"]}, "Did you mean 'asthma'"),
        ({"languages": ["english"]}, "Did you mean 'eng'"),
        ({"journals": ["Lancett"]}, "Did you mean 'lancet'"),
        ({"publication_types": ["randomized trail"]}, "Did you mean 'randomized trial'"),
        ({"mesh": ["Zebras"]}, "Known: asthma"),
        ({"mesh": ["Asthma", "Astma"]}, "'Astma'"),
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
