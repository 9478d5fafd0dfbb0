"""The sentences of an answer, their citations and their figures."""

import gzip
import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys, cite, number_citations
from briefcontext.chains.claims import check_claims, find_claims
from briefcontext.chains.notes import Note, with_signs
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.sentences import split_sentences
from tests.conftest import SHARED_DATA, FixedRetriever
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply

METFORMIN = (
    "Metformin is started at 500 mg once or twice daily with meals. The dose may rise to 1, 1.5 or "
    "2 g a day. "
    "Metformin is not recommended in severe kidney failure. Clearance above 60 ml/min/1.73 m2 "
    "needs no change. "
    "In trial B12, 1,204 adults (54.2%) were followed for three weeks; weight changed by −2.5 kg, "
    "p < 0.05."
)
SOURCE = Document(
    id="d", page_content=METFORMIN, metadata={"title": "Metformin in type 2 diabetes", "year": 2019}
)
OTHER = Document(
    id="o", page_content="Aspirin is taken at 75 mg a day.", metadata={"title": "Aspirin"}
)


def notes_on(text: str, *documents: Document) -> list[Note]:
    """Return the notes on a text that cites the documents as [1], [2]…."""
    keyed = assign_keys("Q?", documents or [SOURCE, OTHER])
    _, citations, _ = number_citations(" ".join(map(cite, keyed)), keyed, [])
    return check_claims(find_claims(text, {each["key"] for each in citations}), citations, keyed)


def missing(text: str, *documents: Document) -> list[str]:
    """Return the figures that are not found."""
    found = [
        note["message"] for note in notes_on(text, *documents) if note["kind"] == "figure_not_found"
    ]
    return [
        figure for message in found for figure in message.rstrip(".").partition(": ")[2].split(", ")
    ]


INVENTED = [
    (
        "The starting dose of metformin is 5000 mg six times a day, also in kidney failure [1].",
        ["5000 mg", "six times a day"],
    ),
    ("Metformin is started at 500 g [1].", ["500 g"]),
    ("It is taken four times a day [1].", ["four times a day"]),
    ("Of 1,240 adults, 45.2% stayed [1].", ["1,240", "45.2%"]),
    ("It is p > 0.05 [1].", ["> 0.05"]),
    ("A clearance of 60 ml/h needs no change [1].", ["60 ml/h"]),
    ("Metformin is started at 500 mg [2].", ["500 mg"]),
]


@pytest.mark.parametrize(("text", "figures"), INVENTED)
def test_figures_missing_from_the_cited_document_are_named(text: str, figures: list[str]) -> None:
    (note,) = notes_on(text)
    assert (note["kind"], note["level"]) == ("figure_not_found", "caution")
    assert note["message"] == f"Not found in [{text[-3]}]: {', '.join(figures)}."


@pytest.mark.parametrize(
    ("said", "figures"), [("by 21%", []), ("by 79%", ["79%"]), ("to a hazard ratio of 0.79", [])]
)
def test_a_ratio_is_read_as_a_reduction(said: str, figures: list[str]) -> None:
    assert missing(f"Stroke was lowered {said} [1].", TRIAL) == figures


STANDING = [
    "Metformin is started at 500 mg once or twice daily with meals [1].",
    "Start with 0.5 g, two times a day [1].",
    "Doses of 1 g, 1500 mg and 2 g are usual [1].",
    "A clearance over 60 mL/min needs no change [1].",
    "1204 adults were followed for 3 weeks (21 days) in 2019 [1].",
    "It is contraindicated, and never used, in severe kidney failure [1].",
    "No, metformin and aspirin were two drugs of COVID-19 and B12 [1][2].",
    "It is 500 mg. [1] And 75 mg. [2]",
    "- Metformin is started at 500 mg [1].\n1. Aspirin is taken [2].",
    "Metformin is started at 500 mg (doi:10.1000/xyz.2019) [1].",
]


TRIAL = Document(
    id="t",
    page_content="Of the patients in the trial 1.27% against 1.60% a year had a stroke (hazard "
    "ratio, 0.79; 95% CI, 0.66 to 0.95; P<0.001).",
)


@pytest.mark.parametrize("text", STANDING)
def test_figures_in_other_units_or_spellings_are_found(text: str) -> None:
    assert notes_on(text) == []


@pytest.mark.parametrize(
    ("source_text", "text", "figures"),
    [
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 mcg/kg/h", ["5 mcg/kg/h"]),
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 µg per kg per minute", []),
        (
            "Methotrexate 15 mg weekly was given.",
            "They took methotrexate, 15 mg daily",
            ["15 mg daily"],
        ),
        ("It is taken twice daily.", "It is taken twice weekly", ["twice weekly"]),
        ("It is taken every 8 hours.", "It is taken three times daily", []),
        ("It is taken every 8 hours.", "It is taken four times daily", ["four times daily"]),
        ("Sixty-four took it in a phase III trial.", "In a phase 3 trial 64 took it", []),
        ("Half of them got well.", "50% got well", []),
        ("34.6% survived.", "35% survived", []),
        ("34.6% survived.", "36% survived", ["36%"]),
        ("The ratio was 0·85 (0·75–0·96).", "The ratio was 0.85 (95% CI 0.75 to 0.96)", []),
        ("The cure rate was 30%.", "Of 40 patients 12 got well, that is 30%", ["40", "12"]),
        ("Of 40 patients, 12 of 40 got well.", "30% got well", []),
        ("12 out of the 40 patients got well.", "35% got well", ["35%"]),
        ("They were followed for 12 weeks.", "They were followed for 3 months", []),
        ("They were followed for 12 weeks.", "They were followed for 4 months", ["4 months"]),
    ],
)
def test_figures_are_compared_with_their_units_and_rates(
    source_text: str, text: str, figures: list[str]
) -> None:
    assert missing(f"{text} [1].", Document(id="a", page_content=source_text)) == figures


@pytest.mark.parametrize(
    "said", ["**{}** [1]", "{} ([1])", "{}\n[1]", "- **{}** [1] It lowers glucose."]
)
def test_a_citation_after_a_bold_sentence_belongs_to_it(said: str) -> None:
    kinds = [note["kind"] for note in notes_on(said.format("Metformin is started at 5 g daily."))]
    assert kinds == ["figure_not_found", *["uncited"] * said.endswith("glucose.")]


def test_uncited_sentences_are_marked_in_place() -> None:
    text = "Metformin is a drug. It is started at 500 mg [1]. 😀 Take 5 g [1]!"
    notes = notes_on(text)
    assert [(note["kind"], text[note["start"] : note["end"]]) for note in notes] == [
        ("uncited", "Metformin is a drug."),
        ("figure_not_found", "😀 Take 5 g [1]!"),
    ]
    assert with_signs(text, notes) == (
        "Metformin is a drug. (! uncited) It is started at 500 mg [1]. 😀 Take 5 g [1]! (! figure "
        "not found)"
    )


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_an_invented_dose_is_noted(
    route: Any, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    quote = "Metformin is started at 500 mg once or twice daily with meals."

    def script(call: Call) -> Reply:
        if call.stage == "extract":
            key = next(key for key, text in call.documents if quote in text)
            return Reply(
                json.dumps(
                    {"relevant": True, "quotes": [{"key": key, "quote": quote}], "finding": "So."}
                )
            )
        keys = [key for key, text in call.documents if quote in text]
        key = keys[0] if keys else call.user.split("[")[1].split("]")[0]
        said = (
            f"The starting dose of metformin is 5000 mg six times a day, also in kidney failure "
            f"[{key}]."
        )
        return Reply(said + (f'\nQuotes:\n[{key}] "{quote}"' if call.documents else ""))

    server.script = script
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=[SOURCE, OTHER]))
    asked = {"question": "At what dose is metformin started?"}
    answer = built.invoke(asked, context=Settings(route=route, max_retries=0))["answer"]
    assert [citation["quote"] for citation in answer["citations"]] == [quote]
    assert messages(answer, "figure_not_found") == ["Not found in [1]: 5000 mg, six times a day."]


def _abstracts(name: str) -> list[dict[str, Any]]:
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"needs {name} in the shared data")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][:400]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bioasq/corpus.jsonl.gz", "pubmedqa/corpus.jsonl.gz", "distractors/abstracts.jsonl.gz"]
)
def test_copied_sentences_have_no_notes(name: str) -> None:
    for row in _abstracts(name):
        (document,) = assign_keys("Q?", [Document(id=row["id"], page_content=row["text"])])
        quotes: Any = [
            {
                "text": row["text"][start:end],
                "document_id": row["id"],
                "start": start,
                "end": end,
                "match": "exact",
            }
            for start, end in split_sentences(row["text"])
            if end - start >= 25
        ]
        lines = [f"- {quote['text']} {cite(document)}" for quote in quotes]
        text, citations, _ = number_citations(
            "\n".join(["The closest:", *lines]), [document], quotes
        )
        assert check_claims(find_claims(text, {"1"}), citations, [document]) == []
