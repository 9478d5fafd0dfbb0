"""An answer out of a model's words, whatever their shape."""

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.answer import Answer, Searched, compose
from briefcontext.chains.citation import assign_keys, document_key
from briefcontext.chains.extract import ground_all
from briefcontext.chains.model.usage import summarise
from briefcontext.chains.parsing.answer_parser import parse_draft, split_quotes
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Extraction, extraction_of
from briefcontext.graphs.routing import compare_rankings
from briefcontext.graphs.settings import Settings

QUESTION = check_question("Is it so?", {"A": "yes", "B": "no"})
DOCUMENTS = assign_keys(
    "Is it so?", [Document(id=str(n), page_content=f"Text {n}.", metadata={"source_id": f"src-{n}"}) for n in range(2)]
)
FIRST, SECOND = (document_key(document) for document in DOCUMENTS)


def _answer(text: str, *extractions: Extraction) -> Answer:
    return compose(
        parse_draft(text, QUESTION, [], [], forced=False),
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
        (f"One [{FIRST}].\n\nTwo [{SECOND}].", None),
        (f"One [{FIRST}].\n\n\n  \n- Two [{SECOND}].\n* Three.", "One of the answer's sentences carries"),
        (f"# Heading\n\n| a | b |\n|---|---|\n| One | [{FIRST}] |\n| Two | |", "One of the answer's sentences carries"),
        (f"\n\nOne. [{FIRST}]\n", None),
        (f"These are the ones [{FIRST}]:\n\n- One\n- Two\n\nAnd three.", "One of the answer's sentences carries"),
        (f"These are:\n\n1. One [{FIRST}].\n2. Two.", "One of the answer's sentences carries"),
    ],
)
def test_answers_come_in_paragraphs_lists_and_tables(text: str, uncited: str | None) -> None:
    warnings = [warning for warning in _answer(text)["warnings"] if "no citation" in warning]
    assert warnings == ([f"{uncited} no citation."] if uncited else [])


@given(st.text(alphabet=st.sampled_from(f"[]{FIRST} .:\n\t-*#|Conflict:NO ANSWERQuotes\x00\u2028é?")))
def test_no_words_of_a_model_break_the_answer(text: str) -> None:
    assert isinstance(_answer(f"{text} [{FIRST}]")["text"], str)


@pytest.mark.parametrize(
    ("text", "left", "conflict"),
    [
        ("It is.\nConflict: X says no.\nChoice: A", "It is.", "X says no."),
        ("It is.\n\nConflict: X says no.\n\nMore.", "It is.\n\nMore.", "X says no."),
        ("It is.\nConflict:\n- X says no.\n- Y says yes.\n\nMore.", "It is.\n\nMore.", "- X says no.\n- Y says yes."),
        (
            "It is.\nConflict: they differ\n1. X says no.\nMore.",
            "It is.\nMore.",
            "they differ\n1. X says no.",
        ),
        ("```\nIt is.\n- Conflict: X says no.\nChoice: A\n```", "It is.", "X says no."),
        ("It is.\n\n**Conflicting evidence:** X says no.", "It is.", "X says no."),
        ("It is.\n**Conflict:**\nX says no. Y says yes.\nChoice: A", "It is.", "X says no. Y says yes."),
        ("It is.\nConflict: none\nMore.", "It is.\nMore.", None),
        ("It is.\nConflict:\n\nMore.", "It is.\n\nMore.", None),
        ("It is.\nConflict: No conflicts were identified among the documents.", "It is.", None),
        ("It is.\nConflict: There is no direct conflict between [2B3C] and [4D5F].", "It is.", None),
        ("It is.\n**Conflict:** The documents do not contradict each other.", "It is.", None),
        ("It is.\nConflict: None of the documents contradict each other.", "It is.", None),
        *(
            (f"It is.\nConflict: {words}", "It is.", None)
            for words in (
                "The two documents agree.",
                "[2B3C] and [4D5F] are consistent.",
                "Both support the same conclusion.",
                "Not applicable.",
                "-",
            )
        ),
        ("## Answer\nIt is.\n\n### In children:\nIt is not.", "It is.\n\nIn children:\nIt is not.", None),
        *(
            (f"It is.\nConflict: {words}", "It is.", words)
            for words in (
                "The two documents do not agree.",
                "[2B3C] and [4D5F] are inconsistent.",
                "They are not consistent on stroke.",
                "X did not find a benefit, contradicting Y.",
                "There is no conflict on stroke, but X says more bleeding and Y less.",
                "There is no conflict on stroke, X says more bleeding and Y less.",
                "The documents do not contradict each other on stroke. On bleeding, X says more and Y less.",
                "No benefit in X; a benefit in Y.",
            )
        ),
    ],
)
def test_a_conflict_is_read_with_what_stands_under_it(text: str, left: str, conflict: str | None) -> None:
    draft = parse_draft(text, QUESTION, [], [], forced=False)
    assert (draft["text"], draft["conflict"]) == (left, conflict)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NO ANSWER: it is missing.", "it is missing."),
        ("NO ANSWER - it is missing.", "it is missing."),
        ("NO ANSWER — it is missing.", "it is missing."),
        ('"NO ANSWER:" it is missing.', "it is missing."),
        ("**NO ANSWER**\n\nit is missing.", "it is missing."),
        ("NO ANSWER: it is missing.\nChoice: none", "it is missing."),
        ("NO-ANSWER: it is missing.\nConflict: none", "it is missing."),
        ("**Answer:** NO ANSWER: it is missing.", "it is missing."),
    ],
)
def test_a_refusal_is_one_however_it_is_set(text: str, reason: str) -> None:
    draft = parse_draft(text, QUESTION, [], [], forced=False)
    assert (draft["abstained"], draft["text"], draft["choice"]) == (True, reason, None)


@pytest.mark.parametrize(
    ("reason", "claim"),
    [
        (
            "The documents do not mention children. From general knowledge, 5 g a day is safe.",
            "From general knowledge,",
        ),
        ("Metformin is safe in children [2B3C].", "Metformin is safe"),
        ("The documents do not cover children, but ibuprofen is safe in them.", "ibuprofen is safe"),
        ("The documents are on warfarin, but not on apixaban.", None),
        ("The documents do not compare 5 mg with 10 mg of warfarin.", None),
        ("The documents are on warfarin in adults only.", None),
        ("Nothing was said of children.", None),
    ],
)
def test_what_a_refusal_claims_besides_has_a_caution(reason: str, claim: str | None) -> None:
    draft = parse_draft(f"NO ANSWER: {reason}", QUESTION, [], [], forced=False)
    assert (draft["abstained"], draft["text"]) == (True, reason)
    said = [caution.rpartition("all the same: ")[2] for caution in draft["cautions"]]
    assert [words.startswith(str(claim)) for words in said] == [True] * bool(claim)


@pytest.mark.parametrize("text", ["No answer was better.", "No answers: 5 of 10.", "There is NO ANSWER: sorry."])
def test_what_only_mentions_one_is_no_refusal(text: str) -> None:
    assert not parse_draft(text, QUESTION, [], [], forced=False)["abstained"]


@pytest.mark.parametrize(
    "listed",
    [
        'Quotes:\n[2B3C] "It was so indeed"',
        '### Quotes\n\n- **[2B3C]** "It was so indeed"',
        'Quotes:\n1. [2B3C]: "It was so indeed"\n2. [2B3C]: "It was so indeed"',
        '**Quotes**\n2B3C: "It was so indeed"',
        'Quotes:\n- "It was so indeed" [2B3C]',
        'Quotes:\n[2B3C]\n"It was so indeed"\n“It was so indeed”',
    ],
)
def test_quotes_are_read_however_they_are_listed(listed: str) -> None:
    document = Document(id="0", page_content="It was so indeed.", metadata={"key": "2B3C"})
    body, given = split_quotes(f"So [2B3C].\n{listed}\n\nChoice: A\nConflict: X says no.")
    assert body == "So [2B3C].\nChoice: A\nConflict: X says no."
    quotes, lost = ground_all(given, [document], 90.0)
    assert ([quote["text"] for quote in quotes], lost) == (["It was so indeed"], 0)


@pytest.mark.parametrize("between", ["", '\n[2B3C] "It was so indeed"\n'])
def test_what_follows_the_quotes_stays_in_the_answer(between: str) -> None:
    after = "Not in children, though [2B3C]."
    body, given = split_quotes(f'So [2B3C].\n\nQuotes:\n[2B3C] "It was so indeed"\n{between}\n---\n\n{after}')
    assert (body.split(), len(given)) == (f"So [2B3C]. {after}".split(), 1 + bool(between))


def test_a_choice_with_its_reason_in_one_line_keeps_the_reason() -> None:
    draft = parse_draft("Choice: [A]. It is so [2B3C].", QUESTION, [], [], forced=False)
    assert (draft["choice"], draft["text"]) == ("A", "Choice: [A]. It is so [2B3C].")


def test_findings_name_sources_as_the_answer_does_and_no_keys() -> None:
    finding = f"As [{FIRST}] and {SECOND} say, it is so [{FIRST}, {SECOND}]."
    answer = _answer(f"It is so [{SECOND}].", extraction_of(0, DOCUMENTS, "evidence", finding=finding))
    assert answer["extractions"][0]["finding"] == "As [src-0] and [1] say, it is so [src-0], [1]."
    assert [(citation["key"], citation["source_id"]) for citation in answer["citations"]] == [("1", "src-1")]


@pytest.mark.parametrize(
    ("reply", "caution"),
    [
        ("No. It is unknown [2B3C].\nChoice: A", "The answer begins with No, and chooses A (yes)."),
        ("**Yes**, it is [2B3C].\nChoice: B", "The answer begins with Yes, and chooses B (no)."),
        ("The documents do not say whether it is safe.\nChoice: A", "The choice A is unsupported: the answer says"),
        ("Yes, it is [2B3C].\nChoice: A", None),
        ("No evidence of harm was found [2B3C].\nChoice: A", None),
    ],
)
@pytest.mark.parametrize("forced", [False, True])
def test_a_choice_against_the_words_before_it_has_a_caution(reply: str, caution: str | None, forced: bool) -> None:
    asked = check_question("Is it safe in children?", {"A": "yes", "B": "no"})
    draft = parse_draft(reply, asked, [], [], forced=forced)
    assert [each.startswith(str(caution)) for each in draft["cautions"]] == [True] * bool(caution)
