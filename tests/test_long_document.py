"""Answering from one long file."""

from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.chains.passage_reader import PassageReader
from briefcontext.errors import KnowledgeBaseError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.retrievers.long_document import LongDocumentRetriever
from tests.hashing_encoder import HashingEncoder
from tests.openai_server import OpenAIServer

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


@pytest.mark.slow
@pytest.mark.parametrize("route", ["order_preserving", "map_reduce"])
def test_a_long_file_is_answered_with_offsets_that_hold_in_it(route: str, report: Path) -> None:
    encoder = load_encoder("minilm")
    retriever = LongDocumentRetriever.from_file(report, encoder, tokens=64)
    built = build_graph(reader=PassageReader(), retriever=retriever)
    context = Settings(route=route, top_k=8)
    answer = built.invoke({"question": "Did the inhaler lower asthma attacks?"}, context=context)[
        "answer"
    ]
    assert answer["route"] == route
    quotes = [citation["quote"] for citation in answer["citations"]]
    assert any("lowered the number of asthma attacks" in (quote or "") for quote in quotes)
    for citation in answer["citations"]:
        assert TEXT[citation["source_start"] : citation["source_end"]] == citation["quote"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "content"), [("missing.txt", None), ("blank.txt", " \n ")])
def test_a_file_without_text_is_one_clear_error(
    name: str, content: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(KnowledgeBaseError, match=name):
        LongDocumentRetriever.from_file(path, load_encoder("minilm"))


LISTED = (
    "Severe asthma of any age",
    "A stroke in the last six months",
    "Pregnancy, in all of its months",
)
BARRED = {
    "leaflet.md": "# Zincol\n\n## Contraindications\n\nThey are many.\n\n### Adults\n\n- "
    + "\n- ".join(LISTED)
    + "\n\n## Doses\n\n### Adults\n\n- 5 mg a day\n",
    "leaflet.nxml": "<article><front><article-meta><article-id "
    "pub-id-type='pmc'>1</article-id><title-group>"
    "<article-title>Zincol</article-title></title-group></article-meta></front><body><sec>"
    "<title>Contraindications</title><p>They are many.</p><sec><title>Adults</title><list>"
    + "".join(f"<list-item><p>{item}</p></list-item>" for item in LISTED)
    + "</list></sec></sec><sec><title>Doses</title><sec><title>Adults</title><list><list-item>"
    "<p>5 mg a day</p>"
    "</list-item></list></sec></sec></body></article>",
}


@pytest.mark.parametrize("route", ["map_reduce"])
@pytest.mark.parametrize("name", BARRED)
def test_items_of_a_list_are_cited_under_the_outer_heading(
    name: str, route: str, server: OpenAIServer, chat_model: ChatOpenAI, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(BARRED[name])
    retriever = LongDocumentRetriever.from_file(tmp_path / name, HashingEncoder(), tokens=5)
    context = Settings(route=route, top_k=16)
    question = {"question": "May adults with severe asthma or a stroke take zincol in pregnancy?"}
    answer = build_graph(model=chat_model, retriever=retriever).invoke(question, context=context)[
        "answer"
    ]
    listed = [
        text
        for call in server.calls
        for _, text in call.documents
        if any(item in text for item in LISTED)
    ]
    assert len(listed) >= len(LISTED)
    assert all("Contraindications › Adults" in text and "Doses" not in text for text in listed)
    evidence = "".join(call.user for call in server.calls if call.stage == "reduce").splitlines()
    read = [line for line in evidence if any(item in line for item in LISTED)]
    assert len(read) == len(LISTED) * (route == "map_reduce")
    assert all("Contraindications › Adults" in line for line in read)
    quotes = [quote for citation in answer["citations"] for quote in citation["quotes"]]
    cited = [quote["section"] for quote in quotes if quote["text"].removeprefix("- ") in LISTED]
    assert len(cited) == len(LISTED)
    assert all(section.endswith("Contraindications › Adults") for section in cited)

    reader = PassageReader()
    answer = build_graph(reader=reader, retriever=retriever).invoke(question, context=context)[
        "answer"
    ]
    shown = [line for line in answer["text"].splitlines() if any(item in line for item in LISTED)]
    assert shown
    assert all("Contraindications › Adults: " in line for line in shown)
