"""What kind of evidence a source is, and what an answer's sources are together."""

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.plain_text import answer_text
from briefcontext.commands.report import print_answer
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.study_type import StudyType, species, study_type
from tests.conftest import QUESTION, FixedRetriever
from tests.notes import messages
from tests.openai_server import OpenAIServer

LABELS = {
    **dict.fromkeys(("Meta-Analysis", "Systematic Review"), "systematic review or meta-analysis"),
    **dict.fromkeys(("Guideline", "Practice Guideline"), "guideline"),
    **{"Randomized Controlled Trial": "randomized trial", "Case Reports": "case report"},
}
STRONGEST = list(dict.fromkeys(LABELS.values()))


def _document(text: str = "It was so.", **metadata: object) -> Document:
    return Document(id="1", page_content=text, metadata=metadata)


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ({"publication_types": "Journal Article; Review"}, "review"),
        ({"publication_types": ["Review", "Systematic Review"]}, STRONGEST[0]),
        ({"publication_types": "Review", "mesh": "Cohort Studies"}, "review"),
        ({"mesh": "Humans; Cohort Studies; Aspirin"}, "cohort study"),
        ({"mesh": "Animals; Rats; Aspirin"}, "animal or laboratory study"),
        ({"mesh": "Animals; Rats; Humans"}, None),
        ({"publication_types": "Letter", "mesh": "Cohort Studies"}, None),
        ({"title": "Aspirin: a randomized trial"}, None),
        ({"study_type": "guideline"}, "guideline"),
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


def test_an_answer_shows_what_kinds_of_evidence_it_cites(
    chat_model: ChatOpenAI, server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {
        "source_id": "7",
        "publication_types": "Randomized Controlled Trial",
        "year": 2019,
        "journal": "Toy J",
    }
    chunks = [
        Document(
            id=f"7#{place}", page_content=f"Aspirin helped in part {place}.", metadata=metadata
        )
        for place in range(2)
    ]
    doubtful = Document(
        id="8",
        page_content="Aspirin harmed.",
        metadata={"expression_of_concern": True, "corrected": True, "mesh": "Humans"},
    )
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=[*chunks, doubtful]))
    answer = built.invoke({"question": QUESTION}, context=Settings(route="vanilla"))["answer"]
    shown = [(each["study_type"], each["journal"], each["species"]) for each in answer["citations"]]
    assert shown == [("randomized trial", "Toy J", [])] * 2 + [(None, "", ["humans"])]
    assert answer["evidence"]["study_types"] == {"randomized trial": 1, "unknown": 1}
    assert messages(answer, "concern_cited") == [
        "Articles under an expression of concern are cited: 8."
    ]
    plain = answer_text(answer)
    assert "Evidence: 1 randomized trial; 1 of other or unknown type; newest 2019" in plain
    print_answer({"answer": answer, "ranking": []})
    for text in (plain, capsys.readouterr().out):
        assert "randomized trial · Toy J 2019 · 7" in text
        assert "EXPRESSION OF CONCERN · corrected · humans" in text
