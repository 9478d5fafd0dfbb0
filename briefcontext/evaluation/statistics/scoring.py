"""Scores of free answers by exact match and token F1, and of choices as MIRAGE scores them."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """The score of an answer against the nearest accepted one."""

    exact_match: float
    """1.0 if the normalised texts are equal, else 0.0."""
    f1: float
    """The harmonic mean of the precision and recall of tokens, 0 to 1."""


def normalise_answer(text: str) -> str:
    """Return lower case without punctuation and articles, as InfiniteBench's scorer does."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score_answer(output: str, answers: Iterable[str]) -> AnswerScore:
    """Score `output` against the best of the accepted `answers` (Zhang et al. 2024, `qa_f1_score`).

    Both scores are 0 without an accepted answer, or if the normalised output or answer is empty.
    """
    output = normalise_answer(output)
    exact, best = 0.0, 0.0
    for answer in map(normalise_answer, answers):
        exact = max(exact, float(output == answer != ""))
        best = max(best, _token_f1(output.split(), answer.split()))
    return AnswerScore(exact, best)


_CHOICE_LABEL = re.compile(r"\b(?:choice|answer)\b[^\w\n]*:", re.IGNORECASE)


def mirage_choice(reply: str, options: Mapping[str, str], settled: str | None) -> str:
    """Return the letter that MIRAGE's scoring takes from a reply (Xiong et al. 2024).

    The settled choice, if any; else the first separate option letter after the last "Choice:" or
    "Answer:", and A without one. An article ("A trial") and "B cells" are not letters.
    """
    if settled is not None:
        return settled
    labels = list(_CHOICE_LABEL.finditer(reply))
    letters = "|".join(map(re.escape, options))
    match = re.search(
        rf"\b(?:{letters})\b(?!\s+(?!or\b|and\b)[a-z])",
        reply[labels[-1].end() :] if labels else reply,
    )
    return match[0] if match else "A"


def _token_f1(output: list[str], answer: list[str]) -> float:
    common = (Counter(output) & Counter(answer)).total()
    return 2 * common / (len(output) + len(answer)) if common else 0.0
