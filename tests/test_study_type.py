"""What kind of evidence a source is, and what an answer's sources are together."""

import json

import pytest
from langchain_core.documents import Document

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.context import render_documents
from briefcontext.chains.references import summarise_evidence
from briefcontext.knowledge.study_type import StudyType, source_notes, species, study_type
from tests.conftest import SHARED_DATA

RECORDS = SHARED_DATA / "pubmed_xml" / "records_lxml.jsonl"
LABELS = {
    **dict.fromkeys(("Meta-Analysis", "Systematic Review"), "systematic review or meta-analysis"),
    **dict.fromkeys(("Guideline", "Practice Guideline"), "guideline"),
    **{"Randomized Controlled Trial": "randomized trial", "Case Reports": "case report"},
}
STRONGEST = list(dict.fromkeys(LABELS.values()))


def _document(text: str = "It was so.", **metadata: object) -> Document:
    return Document(id="1", page_content=text, metadata=metadata)


def _labelled() -> list[tuple[Document, str | None]]:
    """PubMed's records with text, each with what its publication types make it, and these types left out."""
    if not RECORDS.exists():
        pytest.skip("needs pubmed_xml in the shared data")
    rows = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]
    labelled = []
    for row in rows:
        types = [name.strip() for name in row["pubtypes"]]
        named = sorted((LABELS[name] for name in types if name in LABELS), key=STRONGEST.index)
        document = _document(
            row["abstract"] or "", title=row["title"] or "", publication_types="; ".join(types)
        )
        labelled.append((document, named[0] if named else None))
    return labelled


def test_publication_types_decide() -> None:
    labelled = [(document, label) for document, label in _labelled() if label]
    assert len(labelled) > 25
    assert [study_type(document) for document, _ in labelled] == [label for _, label in labelled]


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({"publication_types": "Journal Article; Review"}, "review"),
        ({"publication_types": ["Review", "Systematic Review"]}, STRONGEST[0]),
        ({"publication_types": "Review", "mesh": "Cohort Studies"}, "review"),
        ({"mesh": "Humans; Case-Control Studies"}, "case-control study"),
        ({"mesh": "Humans; Cohort Studies; Aspirin"}, "cohort study"),
        ({"mesh": "Animals; Rats; Aspirin"}, "animal or laboratory study"),
        ({"mesh": "Animals; Rats; Humans"}, None),
        ({"mesh": "Cross-Sectional Studies; Retrospective Studies"}, None),
        ({"publication_types": "Clinical Trial, Phase II", "mesh": "Follow-Up Studies"}, None),
        ({"publication_types": "Letter", "mesh": "Cohort Studies"}, None),
        ({"publication_types": "Clinical Trial Protocol; Randomized Controlled Trial"}, None),
        ({"title": "Aspirin: a randomized trial"}, None),
        ({"study_type": "guideline"}, "guideline"),
        ({}, None),
    ],
)
def test_types_and_headings_state_the_kind_and_texts_do_not(
    metadata: dict[str, object], kind: StudyType | None
) -> None:
    text = "In this cohort study patients were randomly assigned to aspirin."
    assert study_type(_document(text, **metadata)) == kind


def test_species_are_those_of_the_headings() -> None:
    assert species(_document(mesh="Rats; Animals; Humans; Aspirin")) == ["humans", "rats"]
    assert species(_document(mesh="Animals")) == ["animals"]
    assert species(_document("In mice.")) == []


def test_types_that_are_no_kind_of_evidence_are_not_shown() -> None:
    types = "Comment; Journal Article; Research Support, N.I.H., Extramural; English Abstract"
    document = _document(title="Aspirin", publication_types=types, mesh="Humans", retracted=True)
    assert source_notes(document) == ["RETRACTED", "Comment", "humans"]
    assert "\n(Comment, RETRACTED)\nAspirin\n" in render_documents(assign_keys("Q?", [document]))


def test_prompts_name_study_type_and_year_beside_the_title() -> None:
    types = "Journal Article; Randomized Controlled Trial"
    document = _document(
        title="Aspirin", publication_types=types, year=2019, expression_of_concern=True
    )
    rendered = render_documents(assign_keys("Q?", [document]))
    assert "\n(randomized trial, 2019, EXPRESSION OF CONCERN)\nAspirin\n" in rendered


def test_evidence_is_summed_up_the_strongest_first() -> None:
    evidence = summarise_evidence(
        {
            "1": (None, 1990),
            "2": ("cohort study", 2001),
            "3": ("randomized trial", 2019),
            "4": ("cohort study", None),
        },
        conflict=False,
    )
    assert evidence == {
        "study_types": {"randomized trial": 1, "cohort study": 2, "unknown": 1},
        "newest": 2019,
        "conflict": False,
        "summary": "1 randomized trial; 2 cohort studies; 1 of other or unknown type; newest 2019; "
        "no conflict reported",
    }
    assert summarise_evidence({"1": (None, None)}, conflict=False)["summary"] == ""
