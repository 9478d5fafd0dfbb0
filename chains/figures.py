"""Figures of a text with their units, and their comparison."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import isclose
from typing import NamedTuple

from briefcontext.chains.parsing.grounding import SIGN

_SCALES: Mapping[str, Mapping[str, float]] = {
    "mass": {"ng": 1e-9, "µg ug mcg microgram": 1e-6, "mg milligram": 1e-3, "g gram": 1.0}
    | {"kg kilogram": 1e3},
    "volume": {"µl": 1e-6, "ml millilitre milliliter": 1e-3, "dl": 0.1, "l litre liter": 1.0},
    "amount": {"pmol": 1e-12, "nmol": 1e-9, "µmol": 1e-6, "mmol": 1e-3, "mol": 1.0},
    "length": {"nm": 1e-9, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "m metre meter": 1.0},
    "time": {"s sec second": 1.0, "min minute": 60.0, "h hr hour": 3600.0, "d day": 86400.0}
    | {"wk week": 604800.0},
    "months": {"mo month": 1.0, "y yr year": 12.0},
    "share": {"% percent": 1.0},
    "times": {"time fold": 1.0},
    "pressure": {"mmhg": 1.0},
    "activity": {"iu unit u": 1.0},
    "charge": {"meq": 1.0},
    "radiation": {"gy": 1.0},
    "pieces": {"tablet pill capsule drop puff dose": 1.0},
}
"""Units by dimension, each with its value in the base unit."""
_UNITS = {
    name: (dimension, factor)
    for dimension, scale in _SCALES.items()
    for names, factor in scale.items()
    for name in names.split()
}
_HOUR, _DAY = _UNITS["hour"][1], _UNITS["day"][1]
_FREQUENCIES = {"once": 1, "twice": 2, "thrice": 3, "b.i.d": 2, "bid": 2, "t.i.d": 3, "tid": 3}
_FREQUENCIES |= {"q.i.d": 4, "qid": 4}
_ONES = "one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS: dict[str, float] = {
    word: number for number, word in enumerate(f"{_ONES} {_TEENS}".split(), 1)
}
for _tens, _word in enumerate(_TENS.split(), 2):
    _WORDS |= {f"{_word}-{one}": 10 * _tens + _WORDS[one] for one in _ONES.split()}
    _WORDS[_word] = 10 * _tens
_WORDS |= {"ii": 2, "iii": 3, "half": 0.5, "quarter": 0.25, **_FREQUENCIES}


def _any(names: Mapping[str, object]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


_THOUSANDS = r"[1-9]\d{0,2}(?:,\d{3})+"
"""Any other comma in a number is a decimal sign."""
_UNIT = rf"(?:{_any(_UNITS)})"
_ADVERBS = {"hourly": "hour", "daily": "day", "nightly": "day"}
_ADVERBS |= {"weekly": "week", "monthly": "month", "yearly": "year"}
_PER = (
    rf"\s?(?:/|per\b)\s?{_UNIT}s?(?![^\W\d_])"
    rf"|\s(?:once )?(?:(?:an?|each|every) (?:hour|day|week|month|year)|{_any(_ADVERBS)})\b"
)
_NUMBER = (
    rf"{_THOUSANDS}(?![\d,])(?:\.\d+)?|(?:0,\d+|\d+,\d{{1,2}})(?![\d,])|\d*+\.\d++|\d++(?!\.\d)"
)
_FIGURE = re.compile(
    rf"(?:(?P<power>(?<=(?<![\d.,])10)[⁰¹²³⁴-⁹]+)"
    # No part of a name: B12, COVID-19.
    rf"|(?P<relation>[<>≤≥]\s?)?(?P<sign>{SIGN})?(?<![\w.])(?<![^\W\d_]-)"
    rf"(?:(?P<digits>{_NUMBER})|(?P<word>{_any(_WORDS)})(?=\b|fold)))"
    rf"(?:[\s-]?(?P<unit>{_UNIT})s?(?![^\W\d_])|(?![^\W\d_⁰-⁹²³¹]))(?P<per>(?:{_PER})*)"
)
_NAME = re.compile(rf"{_any(_ADVERBS)}|{_UNIT}(?=s?(?![^\W\d_]))")
_BETWEEN = re.compile(r"\s*(?:-|to|and|or|,|, ?and|, ?or|/|±|vs\.?|versus)\s*")
_RATIO = re.compile(
    r"(?:\bratios?|\b(?:hr|rr|irr|aor|ahr|auc|kappa|ci)|\b(?:or|p|r)(?=\s*[=:<>])"
    r"|area under the curve)\s*(?:(?:of|was|were|is)\b|[=:,(])?\s*\Z"
)
"""Words before a number that is not a share."""
_LONGEST_RATIO = 32
_CONVENTION = re.compile(
    r"\b10\.\d{4,9}/\S+|\b95 ?%(?= (?:ci|confidence|credible)\b)|(?:/|per )? ?1\.73 "
    r"?m(?:2|²|\^2|\(-?2\))?"
)
"""Figures to ignore: usual confidence levels, body surface, and DOIs."""


_OF = re.compile(r"\s*(?:of|out of|/)\s*(?:the |all |these )?")
"""The words between a part and its whole."""
_MONTH = 30.4375 * _DAY
"""The mean length of a month, in seconds."""
_ABOUT_MONTHS = 0.085
"""Relative difference between months and weeks when a month counts as four weeks."""


class Figure(NamedTuple):
    """A number of a text with its unit."""

    number: float
    dimension: str
    factor: float
    """Its value in the base unit of its dimension."""
    per: tuple[tuple[str, float], ...]
    """Dimensions and factors of the units in the denominator, such as kilograms and minutes."""
    relation: str
    start: int
    end: int


def same_figure(figure: Figure, other: Figure) -> bool:
    """Return whether a figure equals another one, in the same or another unit."""
    # "Fell by 2.5" is -2.5 in a source.
    number = other.number if figure.number < 0 else abs(other.number)
    percent = figure.dimension == "share"
    if percent and other.dimension in ("", "ratio"):  # 0.1 is 10%; a ratio of 0.8 is 20% less.
        number = 100 * number if not other.dimension else abs(100 - 100 * number)
        other = other._replace(dimension="share")
    if {figure.dimension, other.dimension} == {"time", "months"}:
        length, other_length = _seconds(figure), _seconds(other._replace(number=number))
        same = isclose(length, other_length, rel_tol=_ABOUT_MONTHS)
    else:
        scale, other_scale = (figure.factor, other.factor) if figure.dimension else (1.0, 1.0)
        same = isclose(figure.number * scale, number * other_scale, rel_tol=1e-6)
        same |= percent and figure.number in (round(number), round(number, 1), round(number, 2))
        same &= figure.dimension in ("", other.dimension) or (
            figure.dimension == "ratio" and not other.dimension
        )
    return (
        same
        and (figure.per == other.per or not (figure.per and other.per))
        and (figure.relation == other.relation or not (figure.relation and other.relation))
    )


def _seconds(figure: Figure) -> float:
    return figure.number * figure.factor * (_MONTH if figure.dimension == "months" else 1.0)


def find_figures(text: str, *, only_counted: bool = False) -> Iterator[Figure]:
    """Yield the figures of a text, last first: in "5 or 10 mg", both have the unit.

    The text is in lower case with plain signs. `only_counted` leaves out ambiguous figures: number
    words without a unit, "one", and units after a comma.
    """
    plain = _CONVENTION.sub(lambda found: " " * len(found[0]), text)
    following: Figure | None = None
    for found in reversed(list(_FIGURE.finditer(plain))):
        word = found["word"]
        digits = found["digits"] or unicodedata.normalize("NFKC", found["power"] or "")
        digits = digits.replace(",", "" if re.match(_THOUSANDS, digits) else ".")
        number = float(_WORDS[word] if word else digits)
        dimension, factor = _UNITS.get(
            found["unit"] or ("time" if word in _FREQUENCIES else ""), ("", 1.0)
        )
        per = tuple(
            _UNITS[_ADVERBS.get(name, name)]
            for name in _NAME.findall(re.sub(r"\b(?:once|an?|per)\b", "", found["per"]))
        )
        between = (
            following and not dimension and _BETWEEN.fullmatch(plain, found.end(), following.start)
        )
        # In "HR 0.79, 95% CI", the comma separates two figures.
        if following and between and not (only_counted and between[0].strip() == ","):
            dimension, factor, per = following.dimension, following.factor, following.per
        if (
            not dimension
            and not word
            and _RATIO.search(plain, max(0, found.start() - _LONGEST_RATIO), found.start())
        ):
            dimension = "ratio"
        relation = (found["relation"] or "").strip().replace("≤", "<").replace("≥", ">")
        number = -number if found["sign"] else number
        every = plain.endswith("every ", 0, found.start())
        if number and factor == _HOUR and every:  # Every 8 hours is three times a day.
            number, per = _DAY / _HOUR / number, (_UNITS["day"],)
            dimension, factor = _UNITS["time"]
        start = found.start() - len("10") * bool(found["power"])
        following = Figure(number, dimension, factor, per, relation, start, found.end())
        if not (only_counted and word and (not dimension or number < 2)):
            yield following


def find_shares(text: str) -> Iterator[Figure]:
    """Yield the percentages of parts of a whole: 30% for "12 of 40"."""
    for whole, part in pairwise(find_figures(text)):
        counts = not part.dimension and not whole.dimension and 0 <= part.number <= whole.number
        if counts and whole.number and _OF.fullmatch(text, part.end, whole.start):
            yield part._replace(
                number=100 * part.number / whole.number, dimension="share", end=whole.end
            )
