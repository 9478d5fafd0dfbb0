"""Sampling questions: by seed, whatever the order of the file, and balanced over the answers."""

from collections.abc import Iterable, Sequence

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.files import sha256

__all__ = ["PER_CLASS", "balanced_sample", "sample"]

PER_CLASS = 35
"""Questions of each answer in BriefContext's controlled experiments."""


def sample(items: Sequence[Item], limit: int, seed: int = 0) -> list[Item]:
    """Draw `limit` items, or all where there are fewer.

    Which are drawn, and their order, depend on the seed and on the items' ids, not on the order of
    `items` or the name of their file; a larger limit adds to the items of a smaller one.
    """
    if limit < 1:
        raise InputError(f"A sample of {limit} questions cannot be drawn: ask for 1 or more.")
    return sorted(items, key=lambda item: _draw(item, seed))[:limit]


def balanced_sample(items: Iterable[Item], per_class: int = PER_CLASS, seed: int = 0) -> list[Item]:
    """Draw `per_class` items of each right answer of each data set, in an order that mixes the answers.

    Only multiple-choice items with a known answer can be drawn. As with `sample`, the file's order does not
    matter, and a larger `per_class` adds to the items of a smaller one.

    Raises:
        InputError: an answer has fewer items, or no item can be drawn.
    """
    if per_class < 1:
        raise InputError(f"{per_class} questions of each answer cannot be drawn: ask for 1 or more.")
    classes: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        if item.options and item.answers:
            classes.setdefault((item.group, item.answers[0]), []).append(item)
    if not classes:
        raise InputError("A balanced sample needs multiple-choice questions with known answers, and there are none.")
    drawn = []
    for (group, answer), members in sorted(classes.items()):
        if len(members) < per_class:
            words = members[0].options.get(answer, answer)
            fewest = min(map(len, classes.values()))
            raise InputError(
                f"{group or 'The data set'} has {len(members)} questions whose answer is {answer} ({words}), and "
                f"{per_class} of each are asked for: ask for {fewest} or fewer."
            )
        drawn += sample(members, per_class, seed)
    return sample(drawn, len(drawn), seed)


def _draw(item: Item, seed: int) -> tuple[str, str]:
    # A digest of the item itself, where a generator's numbers would fall on items by their place.
    return sha256(f"{seed}\0{item.id}"), item.id
