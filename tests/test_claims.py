"""The sentences of an answer, their citations and their figures."""

import gzip
import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys, cite, number_citations
from briefcontext.chains.claims import check_claims, find_claims
from briefcontext.chains.notes import Note, note, note_lines, with_signs
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
    """Return the notes on a text in which [1], [2]… stand for the documents."""
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
    ("Metformin is started at 500 µg [1].", ["500 µg"]),
    ("It is taken four times a day [1].", ["four times a day"]),
    ("They were followed for 3 months [1].", ["3 months"]),
    ("They were followed for 3 years [1].", ["3 years"]),
    ("Of 1,240 adults, 45.2% stayed [1].", ["1,240", "45.2%"]),
    ("It is p > 0.05 [1].", ["> 0.05"]),
    ("A clearance of 60 ml/h needs no change [1].", ["60 ml/h"]),
    ("Metformin is started at 500 mg [2].", ["500 mg"]),
]


@pytest.mark.parametrize(("text", "figures"), INVENTED)
def test_figures_that_the_cited_document_lacks_are_named(text: str, figures: list[str]) -> None:
    (note,) = notes_on(text)
    assert (note["kind"], note["level"]) == ("figure_not_found", "caution")
    assert note["message"] == f"Not found in [{text[-3]}]: {', '.join(figures)}."


@pytest.mark.parametrize(
    ("said", "figures"), [("by 21%", []), ("by 79%", ["79%"]), ("to a hazard ratio of 0.79", [])]
)
def test_a_ratio_is_no_share_of_itself(said: str, figures: list[str]) -> None:
    assert missing(f"Stroke was lowered {said} [1].", TRIAL) == figures


STANDING = [
    "Metformin is started at 500 mg once or twice daily with meals [1].",
    "Start with 0.5 g, two times a day [1].",
    "Doses of 1 g, 1500 mg and 2 g are usual [1].",
    "A clearance over 60 mL/min needs no change [1].",
    "A clearance of 60 ml needs nothing else, in type 2 diabetes [1].",
    "1204 adults were followed for 3 weeks (21 days) in 2019 [1].",
    "Weight fell by 2.5 kg [1].",
    "It is contraindicated, and never used, in severe kidney failure [1].",
    "It isn't recommended in severe kidney failure [1].",
    "No, metformin and aspirin were two drugs of COVID-19 and B12 [1][2].",
    "Of both drugs, 75 mg and 500 mg are taken [1] [2].",
    "It is 500 mg. [1] And 75 mg. [2]",
    "- Metformin is started at 500 mg [1].\n1. Aspirin is taken [2].",
    "These are the doses:\n\n500 mg [1].",
    "[1] Metformin is started at 500 mg. [2] Aspirin is taken at 75 mg a day.",
    "Metformin is started at 500 mg (doi:10.1000/xyz.2019) [1].",
]


TRIAL = Document(
    id="t",
    page_content="Of the patients in the trial 1.27% against 1.60% a year had a stroke (hazard ratio, 0.79; 95% CI, "
    "0.66 to 0.95; P<0.001).",
)


@pytest.mark.parametrize(
    "text",
    [
        "Stroke was rarer (HR 0.79, 95% CI 0.66-0.95) [1].",
        "Schlaganfälle waren mit dem Mittel seltener (1,27 % gegen 1,60 %; HR 0,79; 95-%-KI "
        "0,66–0,95; p < 0,001) [1].",
    ],
)
def test_ratios_before_their_intervals_and_decimal_commas_are_no_doubt(text: str) -> None:
    assert notes_on(text, TRIAL) == []


def test_a_wrong_figure_with_a_decimal_comma_is_named() -> None:
    (note,) = notes_on("Schlaganfälle waren seltener (HR 0,97; 95-%-KI 0,66–0,95) [1].", TRIAL)
    assert note["message"].endswith(": 0,97.")


@pytest.mark.parametrize("text", STANDING)
def test_what_stands_there_in_other_words_units_or_spellings_is_no_doubt(text: str) -> None:
    assert notes_on(text) == []


@pytest.mark.parametrize(
    ("told", "text", "figures"),
    [
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 mcg/kg/h", ["5 mcg/kg/h"]),
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 mcg/kg", ["5 mcg/kg"]),
        ("It is infused at 5 mcg/kg/min.", "It is infused at 5 µg per kg per minute", []),
        ("Sodium may rise by 8 mmol/L/day.", "Sodium may rise by 8 mmol/L/h", ["8 mmol/L/h"]),
        ("Methotrexate 15 mg weekly was given.", "They took 15 mg of methotrexate daily", []),
        (
            "Methotrexate 15 mg weekly was given.",
            "They took methotrexate, 15 mg daily",
            ["15 mg daily"],
        ),
        ("Methotrexate 15 mg once weekly was given.", "They took methotrexate, 15 mg a week", []),
        ("It is taken twice daily.", "It is taken twice weekly", ["twice weekly"]),
        ("It is taken twice daily.", "It is taken twice a day, or every 12 hours", []),
        ("It is taken every 8 hours.", "It is taken three times daily", []),
        ("It is taken every 8 hours.", "It is taken four times daily", ["four times daily"]),
        ("Sixty-four took it in a phase III trial.", "In a phase 3 trial 64 took it", []),
        ("Half of them got well.", "50% got well", []),
        ("It was 0.10 versus 0.20.", "It was 10% versus 20%", []),
        ("34.6% survived.", "35% survived", []),
        ("34.6% survived.", "36% survived", ["36%"]),
        ("Give 1.5 mg.", "Give 2 mg", ["2 mg"]),
        ("The ratio was 0·85 (0·75–0·96).", "The ratio was 0.85 (95% CI 0.75 to 0.96)", []),
        ("Stop below 30 mL/min.", "Stop below 30 mL/min/1.73 m²", []),
        ("The cure rate was 30%.", "Of 40 patients 12 got well, that is 30%", ["40", "12"]),
        ("Of 40 patients, 12 of 40 got well.", "30% got well", []),
        ("12/44 patients got well.", "27.3% got well", []),
        ("12 out of the 40 patients got well.", "35% got well", ["35%"]),
        ("They were followed for 12 weeks.", "They were followed for 3 months", []),
        ("They were followed for 12 weeks.", "They were followed for 4 months", ["4 months"]),
        ("They were followed for 3 months.", "They were followed for 12 weeks", []),
        ("They were followed for 1 year.", "They were followed for 52 weeks", []),
        ("They were followed for 1 year.", "They were followed for 50 days", ["50 days"]),
    ],
)
def test_figures_are_compared_with_their_units_and_rates(
    told: str, text: str, figures: list[str]
) -> None:
    assert missing(f"{text} [1].", Document(id="a", page_content=told)) == figures


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("It is taken at .5 mg [1].", []),
        ("It is taken at 0.5 mg [1].", []),
        ("It is taken at .7 mg [1].", [".7 mg"]),
        ("It fell below 3.2 × 10⁹/L [1].", []),
        ("It fell in the 12th week [1].", []),
        ("It fell below 3.3 × 10⁹/L [1].", ["3.3"]),
        ("It fell below 3.2 × 10⁶/L [1].", ["10⁶/L"]),
        ("It fell below 3.2 × 10^6/L [1].", ["6/L"]),
    ],
)
def test_a_figure_is_read_as_a_whole(text: str, figures: list[str]) -> None:
    source = Document(
        id="a", page_content="It is taken at .5 mg. It fell below 3.2 × 10^9/L in week 12."
    )
    assert missing(text, source) == figures


def test_a_zero_is_looked_for_as_any_other_figure() -> None:
    source = Document(id="a", page_content="Of 40 patients 3 died.")
    assert missing("Of 40 patients 0 died [1].", source) == ["0"]


@pytest.mark.parametrize(
    "said",
    [
        "**{}** [1]",
        "*{}* [1]",
        "__{}__[1]",
        "{} ([1])",
        "{}\n[1]",
        "{}\n\n[1] [1]\n",
        "- **{}** [1] It lowers glucose.",
    ],
)
def test_a_citation_behind_a_sentence_that_is_set_in_bold_is_its_own(said: str) -> None:
    kinds = [note["kind"] for note in notes_on(said.format("Metformin is started at 5 g daily."))]
    assert kinds == ["figure_not_found", *["uncited"] * said.endswith("glucose.")]


def test_what_a_copied_sentence_stands_under_is_copied_too() -> None:
    told = "Do not give metformin to all.\n- Kidneys that fail clear it too slowly."
    (document,) = assign_keys("Q?", [Document(id="a", page_content=told)])
    start = told.index("Kidneys")
    quotes: Any = [
        {
            "text": told[start:],
            "document_id": "a",
            "start": start,
            "end": len(told),
            "match": "exact",
        }
    ]
    copied = (
        f"- Do not give metformin to all. Kidneys that fail clear it too slowly. {cite(document)}"
    )
    text, citations, _ = number_citations(copied, [document], quotes)
    assert check_claims(find_claims(text, {"1"}), citations, [document]) == []


def test_sentences_without_a_citation_are_marked_where_they_stand() -> None:
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


def test_the_notes_on_one_sentence_are_one_line_of_the_most_serious_level() -> None:
    text = "It helps [1]. Take 5 g [1]."
    notes = [
        note("caution", "figure_not_found", "Not found in [1]: 5 g.", (14, 27)),
        note("danger", "contradicted", "Contradicted by [1].", (14, 27)),
        note("caution", "partly", "Supported in part by [1].", (0, 13)),
    ]
    assert note_lines(notes, text, "danger") == [
        "“Take 5 g [1].” Contradicted by [1]. Not found in [1]: 5 g."
    ]
    assert note_lines(notes, text, "caution") == ["“It helps [1].” Supported in part by [1]."]


def test_what_is_not_answered_needs_no_citation() -> None:
    assert (
        notes_on(
            "It is started at 500 mg [1].\n\nNot answered: whether it helps. And at which dose."
        )
        == []
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
        said = f"The starting dose of metformin is 5000 mg six times a day, also in kidney failure [{key}]."
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
