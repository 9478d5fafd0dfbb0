"""Answering from one long file."""

import json
from pathlib import Path

import pytest

from briefcontext.chains.extractive_reader import ExtractiveReader
from briefcontext.errors import KnowledgeBaseError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.retrievers.long_document import LongDocumentRetriever

SECTIONS = [
    "The trial enrolled adults with mild asthma from several clinics. ",
    "Every participant carried a diary and noted the symptoms of each day. ",
    "The new inhaler lowered the number of asthma attacks by half. ",
    "No serious adverse event of the inhaler was reported during follow-up. ",
    "Funding came from a public agency without any influence on the analysis. ",
]
TEXT = "".join(section * 12 for section in SECTIONS)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A text file of some twenty chunks."""
    path = tmp_path / "report.txt"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("route", ["order_preserving", "map_reduce", "vanilla"])
def test_a_long_file_is_answered_with_offsets_that_hold_in_it(route: str, report: Path) -> None:
    encoder = load_encoder("minilm")
    retriever = LongDocumentRetriever.from_file(report, encoder, tokens=64)
    built = build_graph(reader=ExtractiveReader(encoder), retriever=retriever)
    context = Settings(route=route, top_k=8)  # type: ignore[arg-type]
    answer = built.invoke({"question": "Did the inhaler lower asthma attacks?"}, context=context)["answer"]
    assert answer["route"] == route
    quotes = [citation["quote"] for citation in answer["citations"]]
    assert any("lowered the number of asthma attacks" in (quote or "") for quote in quotes)
    for citation in answer["citations"]:
        assert TEXT[citation["source_start"] : citation["source_end"]] == citation["quote"]


def test_chunks_that_join_to_the_text_are_ranked_by_similarity(report: Path) -> None:
    retriever = LongDocumentRetriever.from_file(report, load_encoder("minilm"), tokens=64)
    assert "".join(chunk.page_content for chunk in retriever.chunks) == TEXT
    found = retriever.invoke("adverse events of the inhaler", k=3)
    assert [document.metadata["rank"] for document in found] == [1, 2, 3]
    assert "No serious adverse event" in found[0].page_content


def test_a_file_of_several_documents_is_to_be_indexed(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    rows = [{"id": str(number), "title": "", "text": f"Text {number}."} for number in range(2)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(KnowledgeBaseError, match="briefcontext index"):
        LongDocumentRetriever.from_file(path, load_encoder("minilm"))


@pytest.mark.parametrize(("name", "content"), [("missing.txt", None), ("blank.txt", " \n ")])
def test_a_file_without_text_is_one_clear_error(name: str, content: str | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(KnowledgeBaseError, match=name):
        LongDocumentRetriever.from_file(path, load_encoder("minilm"))
