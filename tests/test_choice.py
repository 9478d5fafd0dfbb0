"""Reading a choice out of a model's words."""

import pytest

from briefcontext.chains.choice import parse_choice

YES_NO = {"A": "yes", "B": "no", "C": "maybe"}
DRUGS = {"A": "Atropine", "B": "A drug (neostigmine)", "C": "Flumazenil", "D": "None of the above"}


@pytest.mark.parametrize(
    ("output", "choice"),
    [
        ("Choice: B", "B"),
        ("Choice: b", "B"),
        ("The answer is (B).", "B"),
        ("**Answer:** C", "C"),
        ('{"choice": "B"}', "B"),
        ("b", "B"),
        ("Yes, it works.", "A"),
        ("No. It does not.", "B"),
        ("The final answer is **no**.", "B"),
        ("Answer: maybe", "C"),
        ("At first I think A. But the answer is B", "B"),
        ("", None),
        ("The answer is a drug.", None),
        ("The answer is no longer valid", None),
        ("The answer is not clear", None),
        ("There is no clear answer", None),
        ("no evidence was found that it works", None),
        ("A patient came.", None),
    ],
)
def test_yes_no_and_maybe(output: str, choice: str | None) -> None:
    assert parse_choice(output, YES_NO) == choice


@pytest.mark.parametrize(
    ("output", "choice"),
    [
        ("The correct answer is option D", "D"),
        ("Choice: A) Atropine", "A"),
        ("Answer: Flumazenil", "C"),
        ("D. None of the above", "D"),
        ("Answer: a drug (neostigmine)", "B"),
        ("Choice: E", None),
        ("A drug was given.", None),
    ],
)
def test_options_in_words(output: str, choice: str | None) -> None:
    assert parse_choice(output, DRUGS) == choice
