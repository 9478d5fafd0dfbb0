"""Sentences of a text, and terms of BM25."""

import gzip
import json

import pytest
from hypothesis import given, strategies as st

from briefcontext.knowledge.sentences import list_lines, split_sentences
from briefcontext.knowledge.store.terms import tokenize
from tests.conftest import SHARED_DATA

WRAPPED = (
    "Scores of the treatment arm at week\n14 of treatment were much higher than those\nunder "
    "placebo."
)
WEEKS = "A dose of 0.5 mg b.i.d. (i.e. >21 wks. vs. <7 wks.) helped."
LISTED = "- Asthma of any degree, in adults and in children"
ANOVA = "Ratings rose (F(1, 33) = 7.14, p = .01), and pulses did not (F(1, 33) = .01, p = .94)."
CASES = {
    "It rose. It fell.": ["It rose.", "It fell."],
    f"  {WEEKS}\n": [WEEKS],
    "A study by Amir et al. [10] found it. So did we.": [
        "A study by Amir et al. [10] found it.",
        "So did we.",
    ],
    "Rates fell in most settings.1–4 Care did (HR 0.8).5 It is so.": [
        "Rates fell in most settings.1–4",
        "Care did (HR 0.8).5",
        "It is so.",
    ],
    ANOVA: [ANOVA],
    f"{WRAPPED} No death occurred.": [WRAPPED, "No death occurred."],
    "METHODS:\nAdults with asthma were enrolled. They gave consent.": [
        "METHODS:",
        "Adults with asthma were enrolled.",
        "They gave consent.",
    ],
    "# Safety\nNo death occurred.": ["# Safety", "No death occurred."],
    f"Contraindications:\n{LISTED}\n- Heart failure": [
        "Contraindications:",
        LISTED,
        "- Heart failure",
    ],
    "| Arm | Smith et al. Trial |\n| A | 0.5. B |\nEnd.": [
        "| Arm | Smith et al. Trial |",
        "| A | 0.5. B |",
        "End.",
    ],
    "Arm: a | Dose: 0.5. B\nand c": ["Arm: a | Dose: 0.5. B", "and c"],
    "Drug\t1.5\t0.03. NS\nPlacebo\t1.2\t0.04": ["Drug\t1.5\t0.03. NS", "Placebo\t1.2\t0.04"],
    "No stop here\n\nA paragraph\r\n\r\nand a third\fA page": [
        "No stop here",
        "A paragraph",
        "and a third",
        "A page",
    ],
    "all is in small letters . nothing else .": ["all is in small letters .", "nothing else ."],
    "Give vitamin D\u00a0. Then wait.": ["Give vitamin D\u00a0.", "Then wait."],
    "": [],
    " \n\f ": [],
}


@pytest.mark.parametrize("text", CASES)
def test_sentences_are_whole(text: str) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == CASES[text]


@given(st.text(alphabet=st.sampled_from("aB1.?| -#\n\t\f\r\u00a0\u2028"), max_size=80))
def test_sentences_cover_the_text_in_order(text: str) -> None:
    spans = split_sentences(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(edges)
    between = [
        text[start:end]
        for start, end in zip([0, *edges[1::2]], [*edges[::2], len(text)], strict=True)
    ]
    assert not any(map(str.strip, between))


NOT_FOR = (
    "Widely used. Do not use in:\n- children\n- adults with:\n  - a fever\n    for days\n\n- "
    "pregnancy"
)
NUMBERED = "1. Risks\nDo not use in:\n* asthma\n2. Uses\n* epilepsy\n\nStop.\n=====\n3. End"
INDENTED = "Avoid in:\n- those who have:\n\n  Most of all:\n  - asthma"


@pytest.mark.parametrize(
    ("text", "words", "lines"),
    [
        (NOT_FOR, "children", ["Do not use in:", "- "]),
        (NOT_FOR, "days", ["Do not use in:", "- adults with:", "  - a fever\n    for "]),
        (NOT_FOR, "pregnancy", ["Do not use in:", "- "]),
        (NOT_FOR, "Do not", []),
        (INDENTED, "asthma", ["Avoid in:", "- those who have:", "  Most of all:", "  - "]),
        (NUMBERED, "asthma", ["Do not use in:", "* "]),
        (NUMBERED, "epilepsy", ["2. Uses", "* "]),
        (NUMBERED, "Stop", []),
        (NUMBERED, "End", ["Stop.", "3. "]),
    ],
)
def test_an_item_is_read_under_the_lines_that_introduce_its_list(
    text: str, words: str, lines: list[str]
) -> None:
    assert list_lines(text, text.index(words)) == lines


@pytest.mark.parametrize(
    "text", ["a", "- ", "- a\n", "a:\n", "1. ", "- a:\n  ", "-" * 9 + "\n", " - a. b"]
)
def test_lists_of_any_length_take_no_longer(text: str) -> None:
    text *= 20_000
    assert len(list_lines(text, len(text) - 2)) <= 2


@pytest.mark.parametrize(
    "spellings",
    [
        ["IL-6", "IL6", "IL 6", "il-6", "IL\u20116"],
        ["TNF-α", "TNFα", "TNF-alpha", "TNF alpha", "tnf α", "TNF-Α"],
        ["β-blocker", "beta-blocker", "beta blockers", "Beta–blockers"],
        ["mortality?", "mortality.", "Mortality", "(MORTALITY)", "mortalities"],
        ["Crohn's disease", "Crohn’s disease", "Crohn disease", "crohn's diseases"],
        ["Sjögren", "Sjogren", "SJÖGREN", "Sjo\u0308gren"],
        ["ﬁbrosis", "fibrosis", "fi\u00adbrosis"],
        ["CD4+", "CD-4", "cd4"],
        ["0·05", "0.05"],
    ],
    ids=lambda spellings: spellings[0],
)
def test_spellings_of_one_name_are_the_same_terms(spellings: list[str]) -> None:
    terms = tokenize(spellings[0])
    assert terms
    assert [tokenize(spelling) for spelling in spellings] == [terms] * len(spellings)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Does IL-6 reduce mortality?", ["il", "6", "reduc", "mortal"]),
        ("p < 0.05 in 1.2.3", ["p", "0.05", "1.2.3"]),
        ("trial.2 of n=40.", ["trial", "2", "n", "40"]),
        ("the WHO of the who", ["who"]),
        ("All with ALL", ["all"]),
        ("Vitamin A", ["vitamin", "a"]),
        ("高血压", ["高血压"]),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert tokenize(text) == terms


def test_only_letters_and_digits_of_real_passages_matter() -> None:
    path = SHARED_DATA / "bioasq" / "corpus.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(500), lines, strict=False)]
    for text in texts:
        assert tokenize(text.replace("-", " ")) == tokenize(text) == tokenize(f"«{text}»")
