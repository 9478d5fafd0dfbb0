"""Samples: the same for a seed, whatever the file's order, and balanced where asked."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item, balanced_sample, sample

OPTIONS = {"A": "yes", "B": "no", "C": "maybe"}


def _items(group: str = "toy", **counts: int) -> list[Item]:
    return [
        Item(
            f"{group}-{letter}{number}", f"Question {number}?", OPTIONS, (letter,), (), group=group
        )
        for letter, count in counts.items()
        for number in range(count)
    ]


ITEMS = _items(A=60, B=40, C=20)


@given(st.permutations(ITEMS), st.integers(0, 5))
def test_the_order_of_the_file_does_not_matter(shuffled: list[Item], seed: int) -> None:
    assert sample(shuffled, 10, seed) == sample(ITEMS, 10, seed)
    assert balanced_sample(shuffled, 5, seed) == balanced_sample(ITEMS, 5, seed)


def test_another_seed_draws_others() -> None:
    assert sample(ITEMS, 10, 0) != sample(ITEMS, 10, 1)


def test_a_larger_sample_adds_to_a_smaller_one() -> None:
    assert sample(ITEMS, 30, 3)[:10] == sample(ITEMS, 10, 3)
    assert set(_ids(balanced_sample(ITEMS, 5, 3))) < set(_ids(balanced_sample(ITEMS, 9, 3)))


def _ids(items: list[Item]) -> list[str]:
    return [item.id for item in items]


def test_a_sample_of_more_than_there_are_is_all() -> None:
    assert sorted(_ids(sample(ITEMS, 1000))) == sorted(_ids(ITEMS))


def test_every_answer_is_drawn_equally_often() -> None:
    drawn = balanced_sample(ITEMS, 20)
    assert Counter(item.answers[0] for item in drawn) == {"A": 20, "B": 20, "C": 20}
    assert len({item.answers[0] for item in drawn[:12]}) > 1


def test_every_data_set_is_balanced_by_itself() -> None:
    drawn = balanced_sample(ITEMS + _items("other", A=9, B=9), 7)
    assert Counter((item.group, item.answers[0]) for item in drawn) == {
        ("toy", "A"): 7,
        ("toy", "B"): 7,
        ("toy", "C"): 7,
        ("other", "A"): 7,
        ("other", "B"): 7,
    }


def test_about_every_item_can_be_drawn() -> None:
    drawn = {item.id for seed in range(100) for item in sample(ITEMS, 12, seed)}
    assert len(drawn) == len(ITEMS)


def test_too_few_of_an_answer_are_named() -> None:
    with pytest.raises(InputError, match=r"toy has 20 questions with the answer C.*Ask for 20"):
        balanced_sample(ITEMS, 35)


def test_free_text_questions_cannot_be_balanced() -> None:
    with pytest.raises(InputError, match="multiple-choice"):
        balanced_sample([Item("one", "Why?", {}, ("so",), ())], 1)


@pytest.mark.parametrize("number", [0, -1])
def test_no_sample_is_smaller_than_one(number: int) -> None:
    with pytest.raises(InputError, match="1 or more"):
        sample(ITEMS, number)
    with pytest.raises(InputError, match="1 or more"):
        balanced_sample(ITEMS, number)
