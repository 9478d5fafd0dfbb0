"""Answers and choices, read from the words of a model."""

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.answer import Answer, Searched, compose
from briefcontext.chains.citation import assign_keys, document_key
from briefcontext.chains.extract import ground_all
from briefcontext.chains.model.usage import summarise
from briefcontext.chains.parsing.answer_parser import (
    before_quotes,
    named_option,
    parse_choice,
    parse_draft,
    read_reply,
)
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Draft, Extraction
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
def test_any_words_of_a_model_give_an_answer(text: str) -> None:
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
        (
            "It is.\n**Conflict:**\nX says no. Y says yes.\nChoice: A",
            "It is.",
            "X says no. Y says yes.",
        ),
        ("It is.\nConflict: none\n\nMore.", "It is.\n\nMore.", None),
        (
            "It is.\nConflict: no benefit in X; a benefit in Y.",
            "It is.",
            "no benefit in X; a benefit in Y.",
        ),
        ("It is.\nA conflict: X says no.", "It is.\nA conflict: X says no.", None),
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
        ("**NO ANSWER**\n\nit is missing.", "it is missing."),
        ("NO ANSWER: it is missing.\nChoice: none", "it is missing."),
    ],
)
def test_a_refusal_is_known_by_its_label(text: str, reason: str) -> None:
    draft = draft_of(text)
    assert (draft["abstained"], draft["text"], draft["choice"]) == (True, reason, None)


@pytest.mark.parametrize(
    "text", ["No answer was better.", "There is NO ANSWER: sorry.", "The documents do not say."]
)
def test_other_words_are_not_a_refusal(text: str) -> None:
    assert not draft_of(text)["abstained"]


@pytest.mark.parametrize(
    "reply",
    [
        "It is [2B3C].\nNot answered: the dose",
        "Not answered: the dose\n\nIt is [2B3C].",
        'It is [2B3C].\nNOT ANSWERED: the dose\nQuotes:\n[2B3C] "It is"',
    ],
)
def test_the_part_that_is_not_answered_ends_the_text(reply: str) -> None:
    draft = draft_of(reply, check_question("Is it so?"))
    assert (draft["text"], draft["abstained"]) == ("It is [2B3C].\n\nNot answered: the dose", False)


@pytest.mark.parametrize(
    "listed",
    [
        'Quotes:\n[2B3C] "It was so indeed"',
        'Quotes:\n1. [2B3C]: "It was so indeed"\n2. [2B3C]: "It was so indeed"',
        'Quotes: [2B3C] "It was so indeed"',
        'Quotes:\n- "It was so indeed" [2B3C]',
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


@pytest.mark.parametrize("reply", ["NO ANSWER: it is missing.\nChoice: A"])
def test_a_forced_choice_without_an_answer_is_unsupported(reply: str) -> None:
    draft = draft_of(reply, forced=True)
    assert (draft["choice"], draft["abstained"]) == ("A", False)
    assert kinds(draft) == ["choice_forced", "choice_unsupported"]


DRUGS = {"A": "Atropine", "B": "Neostigmine", "C": "Flumazenil", "D": "None of the above"}
DECISIONS = {"A": "yes", "B": "no", "C": "maybe"}
CELLS = {"A": "T cell", "B": "NK cell", "C": "B cell", "D": "Mast cell"}
GROUPS = {"A": "B", "B": "A", "C": "AB", "D": "O"}
MOUTH = {"A": "hard palate.", "B": "hard palate and upper lip.", "C": "upper lip.", "D": "tongue."}
RATES = {"A": "197.4", "B": "320", "C": "225", "D": "-80", "E": "80"}
GERMS = {"A": "S. aureus", "B": "E. coli", "C": "K. pneumoniae", "D": "Candida", "E": "Listeria"}
NO_CHOICES = [
    "N/A",
    "none",
    "unknown",
    "-",
    "?",
    "Cannot be determined from the documents",
    "None of these",
    "",
]
SEVERAL = ["A/B", "A, B", "A or B", "(A) or (B)", "A) Atropine, B) Neostigmine"]
FORMS = ["{}", "({})", "**{}**", '"{}"', "{}.", "Option {}"]
LINES = [
    "Choice: {}",
    "**Choice:** {}",
    "Choice: <{}>",
    "Choice:\n{}",
    "Answer: {}",
    "Final answer: {}",
]
SENTENCES = [
    "The answer is {}",
    "The answer is ({}).",
    "The correct answer is {} because it inhibits the enzyme.",
    "The correct answer is:\n\n**{}**",
    "I choose {}.",
    "Thus, option {} is correct.",
]
FIELDS = [
    '{{"answer_choice": "{}"}}',
    '{{"step_by_step_thinking": "The answer is A or C.", "answer_choice": "{}"}}',
    '{{"answer": ["{}"]}}',
    '{{"answer": "{}", "why": "it was cut o',
    "<answer>{}</answer>",
]


@pytest.mark.parametrize("form", [*FORMS, *LINES, *SENTENCES, *FIELDS])
def test_a_written_letter_is_read(form: str) -> None:
    assert parse_choice(form.format("B"), DRUGS) == "B"


@pytest.mark.parametrize("form", [*LINES, *FIELDS])
@pytest.mark.parametrize("words", ["Neostigmine", "B) Neostigmine", "B - Neostigmine"])
def test_the_words_of_an_option_name_it(form: str, words: str) -> None:
    assert parse_choice(form.format(words), DRUGS) == "B"


@pytest.mark.parametrize("words", NO_CHOICES)
@pytest.mark.parametrize("form", ["{}", "Choice: {}", "Answer: {}", *FIELDS])
def test_words_for_no_choice_are_not_a_choice(form: str, words: str) -> None:
    assert parse_choice(form.format(words), DRUGS) is None
    assert parse_choice(form.format(words), DECISIONS) is None


@pytest.mark.parametrize("words", SEVERAL)
@pytest.mark.parametrize("form", ["{}", *LINES, *FIELDS, "The answer is {}."])
def test_several_options_are_not_a_choice(form: str, words: str) -> None:
    assert parse_choice(form.format(words), DRUGS) is None


@pytest.mark.parametrize(
    ("value", "options", "letter"),
    [
        ("b", DRUGS, "B"),
        ("B: because it inhibits the enzyme", DRUGS, "B"),
        ("unknown", {"A": "yes", "B": "unknown"}, "B"),
        ("B cell", CELLS, "C"),
        ("hard palate and upper lip", MOUTH, "B"),
        ("D. -80", RATES, "D"),
    ],
)
def test_a_field_names_an_option_by_its_letter_or_its_words(
    value: str, options: dict[str, str], letter: str
) -> None:
    assert named_option(value, options) == letter


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("Choice: B) Atropine", DRUGS),
        ("Both A and C are plausible, but B is best.", DRUGS),
        ("Choice: A is not supported", DRUGS),
        ("Therefore, A was excluded.", DRUGS),
        ("The answer is not clear.", DRUGS),
        ("No evidence was found.", DECISIONS),
        ("A\nB", DRUGS),
        ("yes\nno\nmaybe", DECISIONS),
        ("<think>The answer is B.", DRUGS),
    ],
)
def test_an_undecided_reply_is_not_a_choice(reply: str, options: dict[str, str]) -> None:
    assert parse_choice(reply, options) is None


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The answer is yes [K1].\nChoice: B", "B"),
        ("It is so [2B3C].\nConflict: 2B3C says that the answer is no.\nChoice: A", "A"),
        ("Choice: A\nWait, that is wrong.\nChoice: B", "B"),
        ("Choice: A\nChoice: N/A", None),
        ('{"answer": "A"}\nWait: {"answer": "B"}', "B"),
        ('The answer is A.\n{"answer": "B"}', "B"),
        ("<think>The answer is A.</think>\nB", "B"),
        ("B. No, because it does not help.", "B"),
    ],
)
def test_a_field_precedes_a_line_and_a_line_precedes_a_letter(
    reply: str, letter: str | None
) -> None:
    assert parse_choice(reply, DECISIONS) == letter


@given(st.text(max_size=200), st.sampled_from([DRUGS, DECISIONS, GROUPS, {}]))
def test_any_text_gives_a_letter_of_the_options_or_none(
    reply: str, options: dict[str, str]
) -> None:
    assert parse_choice(reply, options) in {*options, None}
