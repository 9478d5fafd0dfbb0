"""An answer out of a model's words, whatever their shape."""

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.answer import Answer, Searched, compose
from briefcontext.chains.citation import assign_keys, document_key
from briefcontext.chains.extract import ground_all
from briefcontext.chains.model.usage import summarise
from briefcontext.chains.parsing.answer_parser import before_quotes, parse_draft, read_reply
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Draft, Extraction, extraction_of
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.steps import compare_rankings
from tests.notes import kinds

QUESTION = check_question("Is it so?", {"A": "yes", "B": "no"})
DOCUMENTS = assign_keys(
    "Is it so?",
    [
        Document(id=str(n), page_content=f"Text {n}.", metadata={"source_id": f"src-{n}"})
        for n in range(2)
    ],
)
FIRST, SECOND = (document_key(document) for document in DOCUMENTS)


def draft_of(reply: str, question: Question = QUESTION, *, forced: bool = False) -> Draft:
    """Return the draft that a reply makes."""
    return parse_draft(read_reply(reply), question, [], [], forced=forced)


def _answer(text: str, *extractions: Extraction) -> Answer:
    return compose(
        draft_of(text),
        asked=QUESTION,
        documents=DOCUMENTS,
        route="vanilla",
        preflight=compare_rankings(DOCUMENTS, [2.0, 1.0], Settings()),
        extractions=extractions,
        retracted=[],
        usage=summarise([], seconds=0.0),
        model="scripted",
        searched=Searched(name=None, version=None, updated=None),
    )


@pytest.mark.parametrize(
    ("text", "uncited"),
    [
        (f"One [{FIRST}].\n\nTwo [{SECOND}].", []),
        (f"One [{FIRST}].\n\n\n  \n- Two [{SECOND}].\n* Three.", ["Three."]),
        (f"# Heading\n\n| a | b |\n|---|---|\n| One | [{FIRST}] |\n| Two | |", ["| Two | |"]),
        (f"\n\nOne. [{FIRST}]\n", []),
        (f"These are the ones [{FIRST}]:\n\n- One\n- Two\n\nAnd three.", ["And three."]),
        (f"These are:\n\n1. One [{FIRST}].\n2. Two.", ["Two."]),
    ],
)
def test_answers_come_in_paragraphs_lists_and_tables(text: str, uncited: list[str]) -> None:
    answer = _answer(text)
    places = [
        slice(note["start"], note["end"]) for note in answer["notes"] if note["kind"] == "uncited"
    ]
    assert [answer["text"][place] for place in places] == uncited


@given(
    st.text(alphabet=st.sampled_from(f"[]{FIRST} .:\n\t-*#|Conflict:NO ANSWERQuotes\x00\u2028é?"))
)
def test_no_words_of_a_model_break_the_answer(text: str) -> None:
    assert isinstance(_answer(f"{text} [{FIRST}]")["text"], str)


@pytest.mark.parametrize(
    ("text", "left", "conflict"),
    [
        ("It is.\nConflict: X says no.\nChoice: A", "It is.", "X says no."),
        ("It is.\n\nConflict: X says no.\n\nMore.", "It is.\n\nMore.", "X says no."),
        (
            "It is.\nConflict:\n- X says no.\n- Y says yes.\n\nMore.",
            "It is.\n\nMore.",
            "- X says no.\n- Y says yes.",
        ),
        ("```\nIt is.\n- Conflict: X says no.\nChoice: A\n```", "It is.", "X says no."),
        (
            "It is.\n**Conflict:**\nX says no. Y says yes.\nChoice: A",
            "It is.",
            "X says no. Y says yes.",
        ),
        ("It is.\nConflict: none\n\nMore.", "It is.\n\nMore.", None),
        ("It is.\nConflict:\n\nMore.", "It is.\n\nMore.", None),
        ("It is.\nConflict: None.", "It is.", None),
        ("It is.\nConflict: -", "It is.", None),
        (
            "It is.\nConflict: no benefit in X; a benefit in Y.",
            "It is.",
            "no benefit in X; a benefit in Y.",
        ),
        ("It is.\nA conflict: X says no.", "It is.\nA conflict: X says no.", None),
        (
            "## Answer\nIt is.\n\n### In children:\nIt is not.",
            "Answer:\nIt is.\n\nIn children:\nIt is not.",
            None,
        ),
    ],
)
def test_a_conflict_is_read_with_the_lines_under_it(
    text: str, left: str, conflict: str | None
) -> None:
    draft = draft_of(text)
    assert (draft["text"], draft["conflict"]) == (left, conflict)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NO ANSWER: it is missing.", "it is missing."),
        ('"NO ANSWER:" it is missing.', "it is missing."),
        ("**NO ANSWER**\n\nit is missing.", "it is missing."),
        ("**No answer:** it is missing.", "it is missing."),
        ("NO ANSWER: it is missing.\nChoice: none", "it is missing."),
        ("NO ANSWER: it is missing.\nConflict: none", "it is missing."),
        ("Not answered: it is missing.", "it is missing."),
    ],
)
def test_a_refusal_is_known_by_its_label(text: str, reason: str) -> None:
    draft = draft_of(text)
    assert (draft["abstained"], draft["text"], draft["choice"]) == (True, reason, None)


@pytest.mark.parametrize(
    "text",
    [
        "No answer was better.",
        "No answers: 5 of 10.",
        "There is NO ANSWER: sorry.",
        "The documents do not say.",
        "I'm sorry, I cannot help.",
    ],
)
def test_other_words_are_not_a_refusal(text: str) -> None:
    assert not draft_of(text)["abstained"]


@pytest.mark.parametrize(
    "reply",
    [
        "It is [2B3C].\nNot answered: the dose",
        "It is [2B3C].\n\n**Not answered:** the\ndose",
        "Not answered: the dose\n\nIt is [2B3C].",
        'It is [2B3C].\nNOT ANSWERED: the dose\nQuotes:\n[2B3C] "It is"',
        "It is [2B3C].\nNO ANSWER: the dose",
    ],
)
def test_the_part_that_is_not_answered_ends_the_text(reply: str) -> None:
    draft = draft_of(reply, check_question("Is it so?"))
    assert (draft["text"], draft["abstained"]) == ("It is [2B3C].\n\nNot answered: the dose", False)


@pytest.mark.parametrize(
    "listed",
    [
        'Quotes:\n[2B3C] "It was so indeed"',
        '### Quotes\n\n- **[2B3C]** "It was so indeed"',
        'Quotes:\n1. [2B3C]: "It was so indeed"\n2. [2B3C]: "It was so indeed"',
        '**Quotes**\n2B3C: "It was so indeed"',
        'Quotes: [2B3C] "It was so indeed"',
        'Quotes:\n- "It was so indeed" [2B3C]',
        'Quotes:\n[2B3C]\n"It was so indeed"\n“It was so indeed”',
    ],
)
def test_quotes_are_read_however_they_are_listed(listed: str) -> None:
    document = Document(id="0", page_content="It was so indeed.", metadata={"key": "2B3C"})
    reply = f"So [2B3C].\n{listed}\n\nChoice: A\nConflict: X says no."
    parts = read_reply(reply)
    assert (parts.text, parts.conflict) == ("So [2B3C].", "X says no.")
    quotes, lost = ground_all(parts.quotes, [document])
    assert ([quote["text"] for quote in quotes], lost) == (["It was so indeed"], 0)
    assert before_quotes(reply) == "So [2B3C]."


@pytest.mark.parametrize("between", ["", '\n[2B3C] "It was so indeed"\n'])
def test_sentences_after_the_quotes_stay_in_the_answer(between: str) -> None:
    after = "Not in children, though [2B3C]."
    parts = read_reply(
        f'So [2B3C].\n\nQuotes:\n[2B3C] "It was so indeed"\n{between}\n---\n\n{after}'
    )
    assert (parts.text.split(), len(parts.quotes)) == (
        f"So [2B3C]. {after}".split(),
        1 + bool(between),
    )


@given(
    st.lists(
        st.sampled_from(
            ["It is so.", "Choice: A", "Conflict: X", "Quotes:", "Not answered: Y", "", "- Z"]
        )
    )
)
def test_no_line_of_a_reply_is_lost(lines: list[str]) -> None:
    parts = read_reply("\n".join(lines))
    kept = f"{parts.text}\n{parts.chosen}\n{parts.conflict}\n{parts.not_answered}"
    for words in ("It is so.", "Choice: A", "X", "Y", "Z"):
        assert any(words in line for line in lines) == (words in kept)


@pytest.mark.parametrize(
    "text", ["So it is.\nQuo", "So it is.\n**Quotes", "So it is.\n- ", "So it is.\nQuotes:"]
)
def test_what_may_begin_the_quotes_is_held_back(text: str) -> None:
    assert before_quotes(text, unfinished=True) == "So it is."
    assert before_quotes("So it is.\nQuite so", unfinished=True) == "So it is.\nQuite so"


def test_a_choice_with_its_reason_in_one_line_keeps_the_reason() -> None:
    draft = draft_of("Choice: [A]. It is so [2B3C].")
    assert (draft["choice"], draft["text"]) == ("A", "Choice: [A]. It is so [2B3C].")


def test_findings_name_sources_as_the_answer_does_and_no_keys() -> None:
    finding = f"As [{FIRST}] and {SECOND} say, it is so [{FIRST}, {SECOND}]."
    answer = _answer(
        f"It is so [{SECOND}].", extraction_of(0, DOCUMENTS, "evidence", finding=finding)
    )
    assert answer["extractions"][0]["finding"] == "As [src-0] and [1] say, it is so [src-0], [1]."
    assert [(citation["key"], citation["source_id"]) for citation in answer["citations"]] == [
        ("1", "src-1")
    ]


@pytest.mark.parametrize(
    "reply",
    ["It is not known.\nNot answered: all\nChoice: A", "NO ANSWER: it is missing.\nChoice: A"],
)
def test_a_forced_choice_without_an_answer_is_unsupported(reply: str) -> None:
    draft = draft_of(reply, forced=True)
    assert (draft["choice"], draft["abstained"]) == ("A", False)
    assert kinds(draft) == ["choice_forced", "choice_unsupported"]
