"""Contradiction: what turns a sentence round that is nearly the same as one of its source."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from briefcontext.chains.parsing.grounding import NEGATION

_NEGATED = re.compile(rf"(?!non?-|not only\b){NEGATION}")
_DENIES = re.compile(
    rf"{_NEGATED.pattern}|\b(?:fail(?!ure)|lack|absen|avoid|contra-?indic|exclu|ineffect|insuffic|insignif|inadequ|independ"
    r"|negativ|rare|reject|refus|similar|stop|un(?!der|til|i))"
)
_DENIED_WORD = re.compile(rf"(?:{NEGATION})\s+(?!only\b)(?:(?:\w+ly|been|have|\w{{1,3}})\s+)*([a-z]{{4,}})")
_CONTRASTS: Sequence[Mapping[str, str]] = (
    {
        "more": r"increas|rais(?:e|ing)|rise|rising|rose\b|higher|great|more\b|elevat|prolong|longer|up-?regul|enhanc",
        "less": r"decreas|reduc|lower|fewer|less\b|declin|fell\b|drop|diminish|shorten|shorter|down-?regulat|attenuat",
    },
    # Symptoms that improve become less: what is better opposes what is worse only.
    {"better": "improv|better", "worse": "worse|impair"},
    {
        "safe": r"safe(?:ly)?\b|indicated|recommended|advised|advisable|beneficial|suitable",
        "unsafe": "contra-?indicat|unsafe|harm(?!less)|toxic|dangerous|unsuitable|avoid",
    },
    {"above": r"above\b|exceed", "below": r"below\b"},
    {"included": "includ|eligible", "excluded": "exclud|ineligible"},
    {"superior": "superior", "inferior": "inferior", "noninferior": "non-?inferior"},
    {"positive": "positive", "negative": "negative"},
    {"high": "hyper(?=[a-z]{3})", "low": "hypo(?=[a-z]{3})"},
    {"halved": "halv", "doubled": "doubl", "tripled": "tripl"},
    {"started": "start|initiat|begin|began", "stopped": "stop|discontinu|withdr[ae]w|ceas", "continued": "continu"},
    {"before": r"before\b|prior to\b", "after": r"after\b", "within": r"within\b"},
    {"maximum": r"maxim|at most\b", "minimum": r"minim|at least\b"},
    {"hourly": r"hourly\b", "daily": r"daily\b", "weekly": r"weekly\b", "monthly": r"monthly\b"},
    {
        **{"oral": r"oral|by mouth\b", "intravenous": "intraveno", "intramuscular": "intramusc"},
        **{"intrathecal": "intrathec", "subcutaneous": "subcutan", "topical": "topical", "inhaled": "inhal"},
    },
    {"women": r"wom[ae]n\b|females?\b|girls?\b", "men": r"m[ae]n\b|males?\b|boys?\b"},
    {"adults": "adult", "children": r"child|pa?ediatric", "newborn": "newborn|neonat"},
    {"rare": "rare|uncommon|seldom", "frequent": "frequent|common|often"},
    {"systolic": "systolic", "diastolic": "diastolic"},
    {"sensitivity": "sensitivit", "specificity": "specificit"},
    {"ischaemic": "ischa?emi", "haemorrhagic": "ha?emorrhag"},
    {"absolute": "absolute", "relative": r"relative\b"},
    {"hazard": r"hazard ratio|hr\b", "odds": "odds ratio"},
    {"one": r"type (?:1|i)\b", "two": r"type (?:2|ii)\b"},
    {"acute": r"acute\b", "chronic": r"chronic\b"},
    {"benign": "benign", "malignant": "malignan"},
    {"bacterial": "bacteria", "viral": r"vir(?:al|us)"},
    {"first": r"first\b", "second": r"second\b", "third": r"third\b"},
)
"""Words that exclude each other."""
_GROUPS = "|".join(f"(?P<{name}>{words})" for contrast in _CONTRASTS for name, words in contrast.items())
_CONTRAST = re.compile(rf"\b(?:{_GROUPS})\w*")
_OPEN = r"whether|unknown|unclear|uncertain|not known|hypothes|misconception|myth|claim(?:s|ed)?\b|little evidence"
_LIMITED = r"unless|except (?:if|in|when|for|those|with)\b|only (?:if|in|when|after)\b"
_LEFT_OPEN, _UP_TO = re.compile(rf"\b(?:{_OPEN})"), re.compile(rf"\b(?:{_LIMITED})")
_CAUTIOUS = re.compile(rf"\b(?:{_OPEN}|{_LIMITED}|controvers|if\b|may\b|might\b|could\b|only\b|possib|suggest)")
_DIRECTIONS = {"more", "less", "better", "worse"}
_THAN = re.compile(r"\bthan\b")
_NEAR = 0.7
"""Share of a sentence's words that another has, if they say the same or the opposite."""
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")


def missing_negations(said: str, sources: Sequence[str]) -> list[str]:
    """Return the negations of a sentence where nothing in its sources may deny: those nearly the same, else all.

    Args:
        said: a sentence, in small letters and plain signs.
        sources: the sentences of its sources, in the same.
    """
    near = [source for source in sources if _tells_of_the_same(source, said)]
    return [] if any(map(_DENIES.search, near or sources)) else _NEGATED.findall(said)


def contradiction(said: str, sources: Sequence[str]) -> str | None:
    """Say what turns a sentence round in each sentence of its sources that is nearly the same; None where nothing does.

    Those that have nothing else to tell count, or if there are none, those that tell more.
    """
    near = [source for source in sources if _tells_of_the_same(source, said)]
    closest = [source for source in near if _shares(said, source)] or near
    turned = [_turned_round(said, source, sources) for source in closest]
    return turned[0] if turned and all(turned) else None


def _tells_of_the_same(source: str, said: str) -> bool:
    """Whether a source has nearly all of a sentence, but for words that exclude others."""
    held = _contrasts(source)
    return _shares(source, _CONTRAST.sub(lambda word: word[0] if word.lastgroup in held else " ", said))


def _turned_round(said: str, source: str, sources: Sequence[str]) -> str | None:
    fewer_denials = len(_DENIES.findall(said)) < len(_DENIES.findall(source))
    if fewer_denials and stems(said) & _denied(source):
        return "what it cites says the opposite"
    if not _CAUTIOUS.search(said) and _leaves_open(source, said):
        return "what it cites leaves it open, or limits it"
    ours, theirs = _contrasts(said), _contrasts(source)
    if (_THAN.search(said) or _THAN.search(source)) and not _in_order(said, source):
        alike = _THAN.search(said) and _THAN.search(source) and ours.keys() == theirs.keys()
        return "what it cites compares the other way round" if alike else None
    exchanged = [
        (ours[this], theirs[that])
        for contrast in _CONTRASTS
        for this in contrast.keys() & ours.keys() - theirs.keys()
        for that in contrast.keys() & theirs.keys() - ours.keys()
    ]
    word, other = _only_other(said, source), _only_other(source, said)
    # What stands elsewhere in a source is no other word of the answer's for the same.
    if not exchanged and _DIRECTIONS & ours.keys() and word and other and any(word in each for each in sources):
        exchanged = [(word, other)]
    return f"what it cites has “{exchanged[0][1]}” for “{exchanged[0][0]}”" if exchanged else None


def _denied(text: str) -> set[str]:
    """Return the stems of words that stand behind a negation only: `effective` of "is not effective"."""
    words = Counter(word[:5] for word in _LONG_WORD.findall(text))
    return {word[:5] for word in _DENIED_WORD.findall(text) if words[word[:5]] == 1}


def _leaves_open(source: str, said: str) -> bool:
    """Whether a doubt stands before the words that a source shares with a sentence, or a condition after the first."""
    wanted = stems(said)
    shared = [word.start() for word in _LONG_WORD.finditer(source) if word[0][:5] in wanted]
    return bool(shared and (_LEFT_OPEN.search(source, 0, shared[0]) or _UP_TO.search(source, shared[0])))


def _contrasts(text: str) -> dict[str | None, str]:
    return {each.lastgroup: each[0] for each in _CONTRAST.finditer(text)}


def _in_order(text: str, other: str) -> bool:
    """Whether the longer words that two texts share stand in the same order."""
    words, others = dict.fromkeys(_LONG_WORD.findall(text)), dict.fromkeys(_LONG_WORD.findall(other))
    return [word for word in words if word in others] == [word for word in others if word in words]


def _only_other(text: str, source: str) -> str | None:
    """Return the one longer word of a text that a source does not have, but for its ending; None for none or more."""
    held = stems(source)
    others = {word for word in _LONG_WORD.findall(text) if word[:5] not in held}
    return others.pop() if len(others) == 1 else None


def _shares(text: str, words: str) -> bool:
    """Whether a text has nearly all of the longer words, but for their endings."""
    wanted = stems(words)
    return bool(wanted) and len(wanted & stems(text)) >= _NEAR * len(wanted)


def stems(text: str) -> set[str]:
    """Return the beginnings of a text's longer words, without their endings."""
    return {word[:5] for word in _LONG_WORD.findall(text)}
