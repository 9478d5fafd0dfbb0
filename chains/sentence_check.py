"""Checking a sentence: whether its figures, names, negations and contrary words stand in what it cites."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from langchain_core.documents import Document

from briefcontext.chains.citation import publication_year
from briefcontext.chains.figures import Figure, find_figures, same_figure
from briefcontext.chains.names import missing_drugs, missing_names
from briefcontext.chains.parsing.grounding import NEGATION, lowered
from briefcontext.chains.place import read_under
from briefcontext.sentences import split_sentences
from briefcontext.study_type import source_notes

_SMALL_AND_PLAIN = str.maketrans("μ·−–—", "µ.---")
NEGATED = re.compile(rf"(?!non?-|not only\b){NEGATION}")
_ANSWERS_NO = re.compile(r"\A\s*no\b")
"""Begins an answer, and denies what was asked, not what the sentence says."""
_DENIED = re.compile(
    rf"{NEGATION}|\b(?:un|dis|contra|anti|ineff|insuff|insign|inadeq|independ)(?=[a-z]{{4}})"
    r"|\b(?:fail(?!ure)|lack|absen|avoid|exclu|reject|refus|stop|instead|rather|rare|negativ|harm|similar|less\b|free\b|only\b)"
)
"""What a source may have where an answer denies."""
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
_FEW_WORDS = 4
_UNLIKE = 0.1
"""Share of a sentence's longer words, of at least as many, below which what it cites is about something else."""
_NEAR = 0.7
"""Share of a sentence's words that another has, if they say the same or the opposite."""
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_NEGATED_WORD = re.compile(rf"(?:{NEGATION})\s+(?!only\b)(?:(?:\w+ly|be|been|have|to)\s+)*([a-z]{{4,}})")


def check_sentence(
    sentence: str, documents: Sequence[Document], *, only_figures: bool = False
) -> tuple[list[str], str | None]:
    """Return what of a sentence stands nowhere in the documents, and what is wrong with the sentence."""
    texts = _texts(documents)
    if any(blank_free(sentence) in blank_free(text) for text in texts):
        return [], None
    known = [figure for text in texts for figure in find_figures(plain_text(text))]
    years = filter(None, map(publication_year, documents))
    known += [Figure(float(year), "", 1, (), "", 0, 0) for year in years]
    missing = [
        sentence[figure.start : figure.end].strip()
        for figure in find_figures(plain_text(sentence), only_counted=True)
        if not any(same_figure(figure, other) for other in known)
    ]
    missing.reverse()
    if only_figures:
        return missing, _not_in(missing)
    said = _ANSWERS_NO.sub("", plain_text(sentence))
    sources = [plain_text(text[start:end]) for text in texts for start, end in split_sentences(text)]
    negations = NEGATED.findall(said)
    near = [source for source in sources if _shares(source, said)]
    if negations and not any(_DENIED.search(source) for source in near or sources):
        missing += negations
    whole = _whole(documents)
    plain_whole = plain_text(whole)
    missing += missing_drugs(said, plain_whole)
    # Two words that exclude each other say more than that one of them is missing.
    if missing or not (exchanged_words := _exchanged(said, sources)):
        missing += missing_names(sentence, whole)
    if missing:
        return list(dict.fromkeys(missing)), _not_in(missing)
    return [], _contradiction(said, near, exchanged_words, plain_whole)


def unmentioned_names(text: str, documents: Sequence[Document]) -> list[str]:
    """Return the drugs, diseases and patients that a text names, and none of the documents."""
    whole = _whole(documents)
    return [*missing_drugs(plain_text(text), plain_text(whole)), *missing_names(text, whole)]


def plain_text(text: str) -> str:
    """Return a text in small letters and plain signs, of the same length."""
    return lowered(text.translate(_SMALL_AND_PLAIN))


def blank_free(text: str) -> str:
    """Return a text without its white space."""
    return "".join(text.split())


def _not_in(missing: Sequence[str]) -> str | None:
    return "not in what it cites: " + ", ".join(dict.fromkeys(missing)) if missing else None


def _contradiction(said: str, near: Sequence[str], exchanged_words: tuple[str, str] | None, whole: str) -> str | None:
    """Return what the sentences of a source that are nearly the same say otherwise, in words."""
    same = [source for source in near if _shares(said, source)]
    without_denial = (same and all(map(NEGATED.search, same))) or (
        near and all(_stems(said) & _denied(source) for source in near)
    )
    if without_denial and not _DENIED.search(said):
        return "what it cites says the opposite"
    if not _CAUTIOUS.search(said) and near and all(_leaves_open(source, said) for source in near):
        return "what it cites leaves it open, or limits it"
    if exchanged_words:
        return f"what it cites has “{exchanged_words[1]}” for “{exchanged_words[0]}”"
    if same and all(_turned_round(said, source) for source in same):
        return "what it cites compares the other way round"
    directed = _DIRECTIONS & _contrasts(said).keys()
    exchanged = [(_others(said, source), _others(source, said)) for source in same] if directed else []
    # What stands elsewhere in a source is no other word of the answer's for the same.
    if exchanged and all(len(ours) == len(theirs) == 1 and ours[0] in whole for ours, theirs in exchanged):
        (ours, theirs), *_ = exchanged
        return f"what it cites has “{theirs[0]}” for “{ours[0]}”"
    wanted = _stems(said)
    if len(wanted) >= _FEW_WORDS and len(wanted & _stems(whole)) < _UNLIKE * len(wanted):
        return "hardly a word of it is in what it cites"
    return None


def _texts(documents: Sequence[Document]) -> list[str]:
    return [
        text
        for each in documents
        for text in (
            str(each.metadata.get("title") or ""),
            read_under(each, every_heading=True),
            each.page_content,
        )
    ]


def _whole(documents: Sequence[Document]) -> str:
    labels = [label for each in documents for label in (*source_notes(each), str(each.metadata.get("mesh") or ""))]
    return " ".join([*_texts(documents), *labels])


def _leaves_open(source: str, said: str) -> bool:
    """Whether a doubt stands before the words that a source shares with a sentence, or a condition after the first."""
    wanted = _stems(said)
    shared = [word.start() for word in _LONG_WORD.finditer(source) if word[0][:5] in wanted]
    return bool(shared and (_LEFT_OPEN.search(source, 0, shared[0]) or _UP_TO.search(source, shared[0])))


def _exchanged(said: str, sources: Sequence[str]) -> tuple[str, str] | None:
    """Return a word of a sentence, and the one that excludes it of all sources that have nearly all else of it."""
    ours = _contrasts(said)
    theirs = [_contrasts(source) for source in sources if ours and _tell_of_the_same(said, source)]
    for contrast in _CONTRASTS if theirs else ():
        for this in contrast.keys() & ours.keys():
            for that in contrast.keys() - ours.keys():
                if all(that in each and this not in each for each in theirs):
                    return ours[this], theirs[0][that]
    return None


def _contrasts(text: str) -> dict[str | None, str]:
    return {each.lastgroup: each[0] for each in _CONTRAST.finditer(text)}


def _tell_of_the_same(said: str, source: str) -> bool:
    """Whether a source has nearly all of a sentence but for contrasts, and nothing turns one of the two round alone."""
    held = _contrasts(source)
    rest = _CONTRAST.sub(lambda word: word[0] if word.lastgroup in held else " ", said)
    if len(_stems(rest)) < 2 or not _shares(source, rest) or bool(NEGATED.search(said)) != bool(NEGATED.search(source)):
        return False
    return not (_THAN.search(said) or _THAN.search(source)) or _in_order(said, source)


def _in_order(text: str, other: str) -> bool:
    """Whether the longer words that two texts share stand in the same order."""
    words, others = _LONG_WORD.findall(text), _LONG_WORD.findall(other)
    return [word for word in words if word in others] == [word for word in others if word in words]


def _turned_round(said: str, source: str) -> bool:
    """Whether a sentence says of B and A, in the same direction, what its source says of A and B."""
    ours, theirs = _THAN.split(said), _THAN.split(source)
    if len(ours) != 2 or len(theirs) != 2 or _contrasts(said).keys() != _contrasts(source).keys():
        return False
    (first, second), (other_first, other_second) = map(_stems, ours), map(_stems, theirs)
    return bool((first - second) & (other_second - other_first)) and bool(
        (second - first) & (other_first - other_second)
    )


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
