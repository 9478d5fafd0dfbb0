"""Support: whether a sentence's figures, drugs, negations and direction stand in what it cites."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from math import isclose
from typing import NamedTuple

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.citation import MARK, Citation, publication_year
from briefcontext.chains.drug_names import missing_drugs
from briefcontext.chains.parsing.grounding import NEGATION, SIGN, lowered
from briefcontext.sentences import split_sentences

NO_CITATION = "no citation"
"""The reason of a sentence that cites nothing."""


class Doubt(TypedDict):
    """A sentence of the answer that cannot be traced as it stands."""

    sentence: str
    start: int
    end: int
    """Character offsets of the sentence in the answer's text."""
    missing: list[str]
    """Figures with their units, drugs and negations that stand nowhere in what the sentence cites."""
    reason: str
    """What is wrong, in a few words."""


_UNITS: Mapping[str, tuple[str, float]] = {
    name: (dimension, factor)
    for dimension, scale in {
        "mass": {"ng": 1e-9, "µg ug mcg microgram": 1e-6, "mg milligram": 1e-3, "g gram": 1.0, "kg kilogram": 1e3},
        "volume": {"µl": 1e-6, "ml millilitre milliliter": 1e-3, "dl": 0.1, "l litre liter": 1.0},
        "amount": {"pmol": 1e-12, "nmol": 1e-9, "µmol": 1e-6, "mmol": 1e-3, "mol": 1.0},
        "length": {"nm": 1e-9, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "m metre meter": 1.0},
        "time": {"s sec second": 1.0, "min minute": 60.0, "h hr hour": 3600.0, "d day": 86400.0, "wk week": 604800.0},
        "months": {"mo month": 1.0, "y yr year": 12.0},
        "share": {"% percent": 1.0},
        "times": {"time fold": 1.0},
        "pressure": {"mmhg": 1.0},
        "activity": {"iu unit u": 1.0},
        "charge": {"meq": 1.0},
        "radiation": {"gy": 1.0},
        "pieces": {"tablet pill capsule drop puff dose": 1.0},
    }.items()
    for names, factor in scale.items()
    for name in names.split()
}
_FREQUENCIES = {"once": 1, "twice": 2, "thrice": 3, "b.i.d": 2, "bid": 2, "t.i.d": 3, "tid": 3, "q.i.d": 4, "qid": 4}
_WORDS = {
    **{"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10},
    **{"eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60},
    **_FREQUENCIES,
}


def _any(names: Mapping[str, object]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


_THOUSANDS = r"[1-9]\d{0,2}(?:,\d{3})+"
"""Any other comma in a number is the decimal sign of other languages."""
_UNIT = rf"(?:{_any(_UNITS)})"
_FIGURE = re.compile(
    rf"(?P<relation>[<>≤≥]\s?)?(?P<sign>{SIGN})?(?<![\w.])(?<![^\W\d_]-)"  # no part of a name: B12, COVID-19
    rf"(?:(?P<digits>{_THOUSANDS}(?![\d,])(?:\.\d+)?|(?:0,\d+|\d+,\d{{1,2}})(?![\d,])|\d+(?:\.\d+)?)|(?P<word>{_any(_WORDS)})(?=\b|fold))"
    rf"(?:[\s-]?(?P<unit>{_UNIT})s?(?![^\W\d_])(?:\s?(?:/|per)\s?(?P<per>{_UNIT})(?![^\W\d_]))?|(?![^\W\d_]))"
)
_BETWEEN = re.compile(r"\s*(?:-|to|and|or|,|, ?and|, ?or|/|±|vs\.?|versus)\s*")
_SMALL_AND_PLAIN = str.maketrans("μ·−–—", "µ.---")
_NEGATED = re.compile(rf"(?!non?-|not only\b){NEGATION}")
_ANSWERS_NO = re.compile(r"\A\s*no\b")
"""Begins an answer, and denies what was asked, not what the sentence says."""
_DENIED = re.compile(
    rf"{NEGATION}|\b(?:un|dis|contra|anti|ineff|insuff|insign|inadeq|independ)(?=[a-z]{{4}})"
    r"|\b(?:fail(?!ure)|lack|absen|avoid|exclu|reject|refus|stop|instead|rather|rare|negativ|similar|less\b|free\b|only\b)"
)
"""What a source may have where an answer denies."""
_DIRECTION = re.compile(
    r"\b(?:(?P<more>increas|rais(?:e|ing)|rise|rising|rose\b|higher|greater|more\b|elevat|prolong|longer|up-?regulat|enhanc)"
    r"|(?P<less>decreas|reduc|lower|fewer|less\b|declin|fell\b|drop|diminish|shorten|shorter|down-?regulat|attenuat)"
    r"|(?P<better>improv|better)|(?P<worse>worse|impair)"
    r"|(?P<safe>safe(?:ly)?\b|indicated|recommended|advised|advisable|beneficial|suitable)"
    r"|(?P<unsafe>contra-?indicat|unsafe|harm(?!less)|toxic|dangerous|unsuitable|avoid)"
    r"|(?P<above>above\b|exceed)|(?P<below>below\b)|(?P<included>includ|eligible)|(?P<excluded>exclud|ineligible))"
)
_OPPOSITES = (("more", "less"), ("better", "worse"), ("safe", "unsafe"), ("above", "below"), ("included", "excluded"))
"""Symptoms that improve become less: what is better opposes what is worse only."""
_TURNS = re.compile(rf"\bthan\b|{NEGATION}")
"""What turns a direction round: B is lower than A when A is higher than B."""
_NEAR = 0.7
"""Share of a sentence's words that another has, if they say the same or the opposite."""
_MARK = re.compile(MARK)
_MARKS = re.compile(rf"(?:{MARK}\s*)*")
_GIVEN = "(?:cited|extracted|given|provided|quoted|retrieved|supplied)"
_STUDIES = "(?:stud(?:y|ies)|trials?)"
_AT_HAND = (
    r"(?:(?:the|this|these|those|all)(?: \w+)? (?:documents?|passages?|abstracts?|excerpts?|articles?|sources?)"
    rf"|(?:the|this|these|those) (?:{_GIVEN} {_STUDIES}|{_STUDIES} {_GIVEN}|(?:{_GIVEN} )?evidence))(?: {_GIVEN})?"
)
"""What the answer was written from. Studies and trials are any in the world, unless they were given."""
_TELLS = (
    "(?:address|answer|assess|clarif|compar|cover|describ|discuss|evaluat|examin|explain|investigat|measur|mention|report"
    "|said|say|specif|stat|stud|tell|told)(?:ies|ied|y|e?[sd]|ed|e)?"
)
_HOLDS = rf"(?:{_TELLS}|(?:allow|contain|giv|ha|hav|includ|offer|permit|provid)(?:e?s|ed|e)?)"
_NEWS = r"(?:\w+ ){0,2}(?:comparison|data|detail|evidence|information|stud(?:y|ie)|trial)s?"
_ON_WHAT_IS_MISSING = re.compile(
    r"\W*(?:insufficient evidence\b\W*)?(?:(?:also|however|in addition|moreover|overall),? )?(?:"
    rf"{_AT_HAND} (?:do|does|did)(?: not|n't)(?: \w+ly)? {_HOLDS}\b"
    rf"|{_AT_HAND} {_HOLDS} (?:nothing|no {_NEWS})\b"
    rf"|(?:none|neither) of {_AT_HAND}(?: \w+ly)? {_HOLDS}\b"
    rf"|no (?:\w+ )?(?:document|passage|abstract|excerpt|{_GIVEN} {_STUDIES})s?(?: \w+ly)? {_HOLDS}\b"
    rf"|(?:there (?:is|are|was|were) )?(?:no|not enough|insufficient) {_NEWS}\b(?=.* (?:in|from) {_AT_HAND}\b)"
    rf"|[\w' -]+ (?:is|are|was|were)(?: not|n't)(?: \w+ly)? {_TELLS} (?:in|by) {_AT_HAND}(?=\W*\Z)"
    r"|\Z)[^,;:()–—]*"
)
"""A sentence that says that something is missing in what the answer was written from. That there is none, or that no
trial found it, is a claim about the world."""
_SAYS_MORE = re.compile(
    r"\b(?:although|because|besides|beyond|but|despite|except|hence|instead|only|other than|since|so|that|therefore"
    r"|though|thus|unless|whereas|which|while|who|yet|evidence (?:of|for|against)|(?:and|as|or)\b.* (?:is|are|was|were"
    r"|has|have|had|can|could|may|might|must|should|will|would|do|does|did|it|they))\b"
)
_LONGEST_CLAUSE = 500
"""Characters of a sentence that says no more than what is missing; a longer one may take the patterns long."""
_NEGATED_WORD = re.compile(rf"(?:{NEGATION})\s+(?!only\b)(?:\w+ly\s+)?([a-z]{{4,}})")
_THAN = re.compile(r"\bthan\b")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")


class _Figure(NamedTuple):
    number: float
    dimension: str
    factor: float
    """How much of the dimension's base unit it counts."""
    per: str
    relation: str
    start: int
    end: int


def find_doubts(text: str, citations: Sequence[Citation], documents: Sequence[Document]) -> list[Doubt]:
    """Return the sentences of an answer that cite nothing, or say what the documents that they cite do not.

    A sentence that says no more than that the documents at hand do not tell something is none: no document can show it.

    A figure is found where a cited document has it in the same unit, or in one that it can be converted to; a drug by
    its international name. A negation is looked for in the sentences of the documents that are nearly the same, else in
    all of them; and one that stands in all that are the same but for it is missed in the answer. So it is with
    "lowered" for "increased", unless something is compared or denied, which may turn the direction round; and with
    who did better, if that is all that differs.

    Args:
        text: the answer, with citation numbers.
        citations: those that the numbers stand for.
        documents: those that the citations point at.
    """
    by_id = {str(document.id): document for document in documents}
    cited = {citation["key"]: by_id[citation["document_id"]] for citation in citations}
    quotes = [_blank_free(quote["text"]) for citation in citations for quote in citation["quotes"]]
    doubts = []
    for start, end in _sentences(text):
        sentence = text[start:end]
        keys = [key for key in _MARK.findall(sentence) if key in cited]
        words = _MARK.sub(lambda mark: " " * len(mark[0]), sentence)
        missing: list[str] = []
        reason = None
        if _says_what_is_missing(words):
            continue
        if keys:
            missing, reason = _check(words, [cited[key] for key in dict.fromkeys(keys)])
        elif not any(_blank_free(words) in quote for quote in quotes):  # split otherwise than in the document
            reason = NO_CITATION
        if reason:
            doubts.append(Doubt(sentence=sentence, start=start, end=end, missing=missing, reason=reason))
    return doubts


def says_only_what_is_missing(text: str, *, or_else: re.Pattern[str]) -> bool:
    """Return whether each sentence only says what the documents do not tell, or begins as the pattern does."""
    sentences = [text[start:end] for start, end in _sentences(text)]
    return bool(sentences) and all(_says_what_is_missing(each) or or_else.match(each) for each in sentences)


def marked(text: str, doubts: Sequence[Doubt]) -> str:
    """Return an answer's text with each doubt after its sentence."""
    for doubt in sorted(doubts, key=lambda doubt: -doubt["end"]):
        text = f"{text[: doubt['end']]} (! {doubt['reason']}){text[doubt['end'] :]}"
    return text


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the sentences, each with the citations behind it; a line that ends in a colon introduces."""
    at = 0
    for line in text.splitlines(keepends=True):
        begin = item.end() if (item := _ITEM.match(line)) else 0
        starts = [begin + start for start, _ in split_sentences(line[begin:])]
        # A citation behind the full stop belongs to the sentence before it.
        starts[1:] = [_MARKS.match(line, start).end() for start in starts[1:]]  # type: ignore[union-attr]
        for start, end in pairwise([*starts, len(line)]):
            sentence = line[start:end].rstrip()
            if any(letter.isalpha() for letter in sentence) and not sentence.endswith(":"):
                yield at + start, at + start + len(sentence)
        at += len(line)


def _says_what_is_missing(sentence: str) -> bool:
    plain = _plain(sentence).replace("’", "'").strip()
    if len(plain) > _LONGEST_CLAUSE:
        return False
    one_clause = len(_NEGATED.findall(plain)) <= 1 and not _SAYS_MORE.search(plain)
    return one_clause and bool(_ON_WHAT_IS_MISSING.fullmatch(plain))


def _blank_free(text: str) -> str:
    return "".join(text.split())


def _check(sentence: str, documents: Sequence[Document]) -> tuple[list[str], str | None]:
    """Return what of a sentence stands nowhere in the documents, and what is wrong with the sentence."""
    texts = [text for each in documents for text in (str(each.metadata.get("title") or ""), each.page_content)]
    if any(_blank_free(sentence) in _blank_free(text) for text in texts):
        return [], None
    known = [figure for text in texts for figure in _figures(text)]
    known += [_Figure(float(publication_year(document) or 0), "", 1, "", "", 0, 0) for document in documents]
    missing = [
        sentence[figure.start : figure.end].strip()
        for figure in _figures(sentence, only_counted=True)
        if not any(_same(figure, other) for other in known)
    ]
    missing.reverse()
    said = _ANSWERS_NO.sub("", _plain(sentence))
    sources = [_plain(text[start:end]) for text in texts for start, end in split_sentences(text)]
    negations = _NEGATED.findall(said)
    near = [source for source in sources if _shares(source, said)]
    if negations and not any(_DENIED.search(source) for source in near or sources):
        missing += negations
    whole = _plain(" ".join(texts))
    missing += missing_drugs(said, whole)
    if missing:
        return list(dict.fromkeys(missing)), "not in what it cites: " + ", ".join(dict.fromkeys(missing))
    same = [source for source in near if _shares(said, source)]
    without_denial = (same and all(map(_NEGATED.search, same))) or (
        near and all(_stems(said) & _denied(source) for source in near)
    )
    if (without_denial and not _DENIED.search(said)) or _is_turned(said, sources):
        return [], "what it cites says the opposite"
    exchanged = [(_others(said, source), _others(source, said)) for source in same] if _DIRECTION.search(said) else []
    # What stands elsewhere in a source is no other word of the answer's for the same.
    if exchanged and all(len(ours) == len(theirs) == 1 and ours[0] in whole for ours, theirs in exchanged):
        (ours, theirs), *_ = exchanged
        return [], f"what it cites has “{theirs[0]}” for “{ours[0]}”"
    return [], None


def _is_turned(said: str, sources: Sequence[str]) -> bool:
    """Whether a sentence tells the opposite of all sources that have nearly all else of it."""
    rest = _DIRECTION.sub(" ", said)
    about = [_directions(source) for source in sources if _shares(source, rest)] if len(_stems(rest)) > 1 else []
    told = _directions(said)
    return bool(about) and any(
        this in told and that not in told and all(that in each and this not in each for each in about)
        for pair in _OPPOSITES
        for this, that in permutations(pair)
    )


def _directions(text: str) -> set[str | None]:
    """Return which of `_OPPOSITES` a text tells of; none where it may turn them round."""
    return set() if _TURNS.search(text) else {each.lastgroup for each in _DIRECTION.finditer(text)}


def _shares(text: str, words: str) -> bool:
    """Whether a text has nearly all of the longer words, but for their endings."""
    wanted = _stems(words)
    return bool(wanted) and len(wanted & _stems(text)) >= _NEAR * len(wanted)


def _others(text: str, source: str) -> list[str]:
    """Return the longer words of a text that a source does not have, but for their endings."""
    held = _stems(source)
    return [word for word in dict.fromkeys(_LONG_WORD.findall(text)) if word[:5] not in held]


def _denied(text: str) -> set[str]:
    """Return the words that stand behind a negation only: `effective` of "is not effective"."""
    words = Counter(word[:5] for word in _LONG_WORD.findall(text))
    return set() if _THAN.search(text) else {word[:5] for word in _NEGATED_WORD.findall(text) if words[word[:5]] == 1}


def _stems(text: str) -> set[str]:
    return {word[:5] for word in _LONG_WORD.findall(text)}


def _same(figure: _Figure, other: _Figure) -> bool:
    """Whether a figure of the answer is one of the source: figures, units, and signs as far as both have them."""
    scale, other_scale = (figure.factor, other.factor) if figure.dimension else (1.0, 1.0)
    # "Fell by 2.5" is what a source writes as -2.5.
    number = other.number if figure.number < 0 else abs(other.number)
    same = isclose(figure.number * scale, number * other_scale, rel_tol=1e-6)
    return (
        same
        and figure.dimension in ("", other.dimension)
        and (figure.per == other.per or not (figure.per and other.per))
        and (figure.relation == other.relation or not (figure.relation and other.relation))
    )


def _figures(text: str, *, only_counted: bool = False) -> Iterator[_Figure]:
    """Yield the figures of a text, the last first: in "5 or 10 mg", both have the unit.

    Args:
        only_counted: leave out what may mean something else: number words without a unit, which may count anything,
            "one", and units behind a comma.
    """
    plain = _plain(text)
    following: _Figure | None = None
    for found in reversed(list(_FIGURE.finditer(plain))):
        word = found["word"]
        digits = found["digits"] or ""
        digits = digits.replace(",", "" if re.match(_THOUSANDS, digits) else ".")
        number = float(_WORDS[word] if word else digits)
        dimension, factor = _UNITS.get(found["unit"] or ("time" if word in _FREQUENCIES else ""), ("", 1.0))
        per = found["per"] or ""
        between = following and not dimension and _BETWEEN.fullmatch(plain, found.end(), following.start)
        # "HR 0.79, 95% CI": a comma alone may also end what is said of a figure.
        if following and between and not (only_counted and between[0].strip() == ","):
            dimension, factor, per = following.dimension, following.factor, following.per
        relation = (found["relation"] or "").strip().replace("≤", "<").replace("≥", ">")
        number = -number if found["sign"] else number
        following = _Figure(number, dimension, factor, per, relation, *found.span())
        if not (only_counted and word and (not dimension or number < 2)):
            yield following


def _plain(text: str) -> str:
    """Return a text in small letters and plain signs, of the same length."""
    return lowered(text.translate(_SMALL_AND_PLAIN))
