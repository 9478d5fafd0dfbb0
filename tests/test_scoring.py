"""How near a free text comes to the accepted ones."""

import pytest
from hypothesis import given, strategies as st

from briefcontext.evaluation.statistics.scoring import (
    AnswerScore,
    mirage_choice,
    normalise_answer,
    score_answer,
)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The  Eiffel Tower!", "eiffel tower"),
        ("A man, an apple and the tree", "man apple and tree"),
        ("U.S.A.", "usa"),
        ("don't", "dont"),
        ("Theatre", "theatre"),
        ("", ""),
    ],
)
def test_answers_are_normalised_as_in_infinitebench(text: str, normalised: str) -> None:
    assert normalise_answer(text) == normalised


@pytest.mark.parametrize(
    ("output", "answers", "exact_match", "f1"),
    [
        ("The Eiffel tower.", ["Eiffel Tower"], 1.0, 1.0),
        ("Eiffel", ["Eiffel Tower"], 0.0, 2 / 3),
        ("Paris", ["Eiffel Tower", "paris"], 1.0, 1.0),
        ("the tall tower", ["Eiffel Tower"], 0.0, 0.5),
        ("tower tower", ["tower"], 0.0, 2 / 3),
        ("London", ["Eiffel Tower"], 0.0, 0.0),
        ("", ["Eiffel Tower"], 0.0, 0.0),
        ("anything", [], 0.0, 0.0),
        ("the", ["a"], 0.0, 0.0),
    ],
)
def test_free_text_is_scored_against_the_best_accepted_answer(
    output: str, answers: list[str], exact_match: float, f1: float
) -> None:
    score = score_answer(output, answers)
    assert score == AnswerScore(exact_match, pytest.approx(f1))


@given(st.text(), st.lists(st.text(), max_size=4))
def test_scores_lie_between_nothing_and_all_and_an_exact_match_has_all(
    output: str, answers: list[str]
) -> None:
    score = score_answer(output, answers)
    assert 0.0 <= score.f1 <= 1.0
    assert score.exact_match in (0.0, 1.0)
    assert score.exact_match <= score.f1


@given(st.text(), st.text())
def test_token_f1_is_symmetric(one: str, other: str) -> None:
    assert score_answer(one, [other]).f1 == pytest.approx(score_answer(other, [one]).f1)


FOUR = {"A": "aspirin", "B": "heparin", "C": "warfarin", "D": "none of them"}


@pytest.mark.parametrize(
    ("reply", "settled", "letter"),
    [
        ("Choice: B", "B", "B"),
        ("Choice: B or C", None, "B"),
        ("It depends.\nAnswer: C, D", None, "C"),
        ("Choice: N/A", None, "A"),
        ("", None, "A"),
        ("The documents do not say.", None, "A"),
        ("A trial of heparin: C or D", None, "C"),
        ("B cells were counted; D.", None, "D"),
        ("Both A and C are right.", None, "A"),
    ],
)
def test_mirage_takes_the_first_of_several_letters_and_a_for_none(
    reply: str, settled: str | None, letter: str
) -> None:
    assert mirage_choice(reply, FOUR, settled) == letter
