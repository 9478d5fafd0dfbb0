"""Score intervals for differences of shares on the same questions: right or wrong by two methods, or at positions."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from scipy.optimize import brentq
from scipy.stats import norm

from briefcontext.errors import InputError
from briefcontext.evaluation.statistics.inference import Interval, spread

__all__ = ["spread_of_shares", "tango"]

_NEAR = 1e-12
_MARGIN = 1e-9
"""How far from the observed difference a bound is looked for, in shares: there the statistic is 0 by definition."""


def tango(win: int, lose: int, n: int, confidence: float = 0.95) -> Interval:
    """Tango's score interval for the difference of two paired shares, (win - lose) / n (Tango 1998).

    `win` of `n` items are right by the first method alone, and `lose` by the second alone. Unlike a bootstrap of the
    differences, which are -1, 0 and 1, it is no point where no item differs: from n ties it follows only that
    differences are rare. It holds 0 exactly where McNemar's asymptotic test does not reject.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design, Statistics in Medicine 17, 1998, 891-908. statsmodels 0.15 has no interval for paired shares.

    Raises:
        InputError: such counts, or such a confidence, are not possible.
    """
    if min(win, lose) < 0 or win + lose > n or n < 1:
        raise InputError(f"{win} wins and {lose} losses among {n} items are not possible.")
    if not 0 < confidence < 1:
        raise InputError(f"A confidence of {confidence} is not possible: it lies between 0 and 1, such as 0.95.")
    return Interval(_lower(win, lose, n, confidence), -_lower(lose, win, n, confidence), n)


@lru_cache(maxsize=4096)
def _lower(win: int, lose: int, n: int, confidence: float) -> float:
    """Find the difference below the observed one that the score test just rejects."""
    if lose == n:
        return -1.0
    squared = float(norm.ppf((1 + confidence) / 2)) ** 2
    return float(brentq(_score(win, lose, n, squared), -1.0, (win - lose) / n - _MARGIN, xtol=_NEAR))


def _score(win: int, lose: int, n: int, squared: float) -> Callable[[float], float]:
    """Return the score statistic's numerator squared less `squared` times its variance, over the true difference."""

    def score(difference: float) -> float:
        # The share that only the second has right, at its likeliest given the difference: the root of a quadratic.
        b = (2 * n - win + lose) * difference - win - lose
        c = -lose * difference * (1 - difference)
        second = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
        variance = n * max(0.0, 2 * second + difference * (1 - difference))
        return (win - lose - n * difference) ** 2 - squared * variance

    return score


def spread_of_shares(right: Sequence[Sequence[float]], *, confidence: float = 0.95) -> Interval:
    """Interval for `spread`, the best position's share less the worst one's; `right` is 0 or 1, `(positions, items)`.

    Tango's intervals of all pairs of positions, each at 1 - (1 - confidence) / pairs (Bonferroni), hold all true
    differences together at least as often as `confidence` says, and so does what follows of the largest: it is no
    less than the highest lower bound, nor less than 0, and no more than the highest upper bound.

    Raises:
        InputError: a score is neither 0 nor 1, or there are not two positions with the same items.
    """
    spread(right)  # checks the shape
    if any(value not in (0, 1) for row in right for value in row):
        raise InputError("Shares are made of items that are right or wrong: 1 or 0.")
    n, each = len(right[0]), 1 - 2 * (1 - confidence) / (len(right) * (len(right) - 1))
    low, high = 0.0, 0.0
    for place, one in enumerate(right):
        for other in right[:place]:
            win = sum(a > b for a, b in zip(one, other, strict=True))
            lose = sum(a < b for a, b in zip(one, other, strict=True))
            found = tango(win, lose, n, each)
            low, high = max(low, found.low, -found.high), max(high, found.high, -found.low)
    return Interval(low, high, n)
