"""What kind of evidence a source is, and what an answer's sources are together."""

import json

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.context import render_documents
from briefcontext.chains.references import summarise_evidence
from briefcontext.commands.report import print_answer
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.tool import cited_text
from briefcontext.knowledge.study_type import StudyType, source_notes, species, study_type
from tests.conftest import QUESTION, SHARED_DATA, FixedRetriever
from tests.notes import messages
from tests.openai_server import OpenAIServer

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


def test_without_publication_types_trials_are_known_by_their_text_and_nothing_is_taken_for_another() -> (
    None
):
    found = [
        (label, study_type(_document(document.page_content, title=document.metadata["title"])))
        for document, label in _labelled()
        if label
    ]
    assert all(kind in (label, None) for label, kind in found)
    trials = [kind for label, kind in found if label == "randomized trial"]
    assert trials.count("randomized trial") == len(trials) == 13


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (_document(publication_types="Journal Article; Review"), "review"),
        (
            _document(publication_types=["Review"], title="Aspirin: a systematic review"),
            "systematic review or meta-analysis",
        ),
        (
            _document(publication_types="Journal Article", mesh="Humans; Case-Control Studies"),
            "case-control study",
        ),
        (
            _document(publication_types="Journal Article", mesh="Humans; Cohort Studies; Aspirin"),
            "cohort study",
        ),
        (_document(mesh="Animals; Rats; Aspirin"), "animal or laboratory study"),
        (_document(mesh="Animals; Rats; Humans"), None),
        (_document(title="Aspirin in mice"), "animal or laboratory study"),
        (
            _document("Ten male beagles were randomly allocated to three groups."),
            "animal or laboratory study",
        ),
        (
            _document(
                "In mice it harms. Forty women were randomized to it.", title="Rats and women"
            ),
            "randomized trial",
        ),
        (_document(title="Triggers of ovulation for in vitro fertilization"), None),
        (_document(title="Swine flu vaccination and hospital admission"), None),
        (_document("A cohort study.", title="Dog ownership and mortality"), "cohort study"),
        (_document(title="Rat bite fever"), None),
        (
            _document(
                "It helped.", publication_types="Clinical Trial, Phase II", mesh="Follow-Up Studies"
            ),
            None,
        ),
        (_document("Patients gave samples.", title="Aspirin in human cell lines"), None),
        (_document("Forty adults were randomly assigned to aspirin."), "randomized trial"),
        (_document("This was a non-randomized trial."), None),
        (_document("In this non randomized observational cohort study it helped."), "cohort study"),
        (
            _document(
                "It helped. A large randomized trial is now needed.", mesh="Retrospective Studies"
            ),
            "cohort study",
        ),
        (
            _document(
                "It helped. A randomised controlled trial in more centres would be warranted."
            ),
            None,
        ),
        (_document("These are to be confirmed in a future randomized trial."), None),
        (_document("We report a rare case of stroke."), "case report"),
        (
            _document("We randomized 42 patients to either group.", mesh="Prospective Studies"),
            "randomized trial",
        ),
        (
            _document("In a retrospective review, films were randomly assigned to two readers."),
            None,
        ),
        (
            _document("In 820 volunteers.", mesh="Cross-Sectional Studies; Retrospective Studies"),
            None,
        ),
        (
            _document(
                "We looked at them in a cross-sectional study.", mesh="Retrospective Studies"
            ),
            None,
        ),
        (
            _document("Earlier retrospective data were few.", title="Aspirin: a randomized trial"),
            "randomized trial",
        ),
        (_document("Muscle cross-sectional area grew.", mesh="Cohort Studies"), "cohort study"),
        (
            _document("We systematically searched for trials that randomized patients to either."),
            STRONGEST[0],
        ),
        (_document("Electronic databases were searched for trials."), STRONGEST[0]),
        (
            _document(publication_types="Letter", title="A systematic review, and what it missed"),
            "systematic review or meta-analysis",
        ),
        (_document("They were randomized to aspirin.", publication_types="Editorial"), None),
        (
            _document(
                "They will be randomized to aspirin.",
                title="Aspirin: study protocol for a randomized trial",
            ),
            None,
        ),
        (_document(title="Protocol for a systematic review of aspirin"), None),
        (
            _document(
                "They will be randomized.", title="Design of the BEES trial: aspirin in stroke"
            ),
            None,
        ),
        (
            _document(
                "We used data of a randomized trial.",
                title="Observational study of digoxin in women",
            ),
            None,
        ),
        (
            _document(
                "We used data of a randomized trial.", title="Aspirin and gout: a cohort study"
            ),
            "cohort study",
        ),
        (
            _document(
                "In this observational study it harmed. A randomized trial of it is under way."
            ),
            None,
        ),
        (
            _document(
                "They were in a randomized trial.", title="Staying on aspirin: a qualitative study"
            ),
            None,
        ),
        (
            _document(
                title="Views of aspirin: a qualitative study within a randomised controlled trial"
            ),
            None,
        ),
        (
            _document(
                "In a randomized trial it helped.", title="A randomised trial and qualitative study"
            ),
            "randomized trial",
        ),
        (
            _document(
                "It protects patients, too, as a randomized trial shows.", title="Aspirin in rats"
            ),
            "animal or laboratory study",
        ),
        (_document(publication_types="Clinical Trial Protocol; Randomized Controlled Trial"), None),
        (
            _document(title="A meta-analysis of the Bruce protocol of exercise"),
            "systematic review or meta-analysis",
        ),
        (_document(), None),
    ],
)
def test_headings_and_texts_tell_where_types_do_not(
    document: Document, kind: StudyType | None
) -> None:
    assert study_type(document) == kind


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


@pytest.mark.parametrize("kind", ["article", "pdf"])
def test_all_passages_of_an_article_are_of_one_kind_and_those_of_a_book_are_not(
    kind: str, chat_model: ChatOpenAI
) -> None:
    texts = ("It helped.", "It was a cohort study.", "They were randomly assigned to aspirin.")
    chunks = [
        Document(
            id=f"7#{place}",
            page_content=text,
            metadata={"source_id": "7", "kind": kind, "start": 900 - 100 * place},
        )
        for place, text in enumerate(texts)
    ]
    retriever = FixedRetriever(documents=[*chunks, Document(id="8", page_content="It harmed.")])
    built = build_graph(model=chat_model, retriever=retriever)
    answer = built.invoke({"question": QUESTION}, context=Settings(route="vanilla"))["answer"]
    own = [None, "cohort study", "randomized trial"]
    told = ["randomized trial"] * 3 if kind == "article" else own
    assert [each["study_type"] for each in answer["citations"]] == [*told, None]
    assert answer["evidence"]["study_types"] == {"randomized trial": 1, "unknown": 1}


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
    told = cited_text(answer)
    assert "Evidence: 1 randomized trial; 1 of other or unknown type; newest 2019" in told
    print_answer({"answer": answer, "ranking": []}, verbose=False)
    for text in (told, capsys.readouterr().out):
        assert "Toy J. 2019. 7 · randomized trial" in text
        assert "8 · EXPRESSION OF CONCERN · corrected · humans" in text
