"""Support: which sentences of an answer cannot be traced to what they cite."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.citation import MARK, Citation
from briefcontext.chains.figures import find_figures
from briefcontext.chains.names import missing_drugs
from briefcontext.chains.question import languages
from briefcontext.chains.sentence_check import NEGATED, blank_free, check_sentence, plain_text
from briefcontext.sentences import split_sentences

NO_CITATION = "no citation"
"""The reason of a sentence that cites nothing."""


class Doubt(TypedDict):
    """A sentence of the answer that cannot be traced as it is."""

    sentence: str
    """The sentence."""
    start: int
    """Where the sentence begins in the answer's text, in characters."""
    end: int
    """Where the sentence ends in the answer's text."""
    missing: list[str]
    """Figures with their units, names and negations that the cited documents do not contain."""
    reason: str
    """What is wrong, in a few words."""


_MARK = re.compile(MARK)
_MARKS = re.compile(rf"(?:[*_\s]*(?:\({MARK}\)|{MARK})\s*)*")
"""The citations behind a sentence, also behind what sets it in bold: `**It is so.** [1]`."""
_MARKS_BEFORE = re.compile(rf"(?:{MARK}\s*)*\Z")
_BREAK_BEFORE_MARKS = re.compile(rf"(?<=\S)[^\S\n]*+\n\s*+(?=(?:{MARK}[ \t]*+)++$)", re.MULTILINE)
"""Before a line of citations alone, which are those of the line above."""
_MARKS_WITHIN = 80
"""Characters in which the citations before a sentence stand."""
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
_TURNS = re.compile(r"[,;]?\s\b(?:but|however|although|though|yet)\b(?!\s+(?:not|no|only|they|it|these|none)\b)", re.I)
"""Behind these a sentence may say something else."""
_SAYS_MORE = re.compile(
    r"\b(?:although|because|besides|beyond|but|despite|except|hence|instead|only|other than|since|so|that|therefore"
    r"|though|thus|unless|whereas|which|while|who|yet|evidence (?:of|for|against)|(?:and|as|or)\b.* (?:is|are|was|were"
    r"|has|have|had|can|could|may|might|must|should|will|would|do|does|did|it|they))\b"
)
_LONGEST_CLAUSE = 500
"""Characters of a sentence that says no more than what is missing; a longer one may take the patterns long."""
_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_TABLE_HEAD = re.compile(r"^[ \t]*\|.*(?=\n[ \t]*\|[ \t:|-]+$)", re.MULTILINE)


def find_doubts(text: str, citations: Sequence[Citation], documents: Sequence[Document]) -> list[Doubt]:
    """Return the sentences of an answer that cite nothing, or say what the documents that they cite do not.

    A sentence that says no more than that the documents at hand do not tell something is none: no document can show it.

    A figure is found where a cited document has it in the same unit, or in one that it can be converted to; a drug by
    its international name; diseases, patients and kinds of studies by their usual words. A negation is looked for in
    the sentences of the documents that are nearly the same, else in all of them; and one that stands in all that are
    the same but for it is missed in the answer. So it is with words that exclude each other, "lowered" and "increased",
    unless a denial or a comparison turns one of the two round; and with who did better, if that is all that differs.

    Of an answer in another language than the documents, only the figures are compared.

    Args:
        text: the answer, with citation numbers.
        citations: those that the numbers stand for.
        documents: those that the citations point at.
    """
    by_id = {str(document.id): document for document in documents}
    translated = languages(text, documents) is not None
    cited = {citation["key"]: by_id[citation["document_id"]] for citation in citations}
    # A sentence that is copied has what it stands under before it.
    quoted = [quote for citation in citations for quote in citation["quotes"]]
    quotes = [blank_free(words) for quote in quoted for words in (quote["section"], quote["text"])]
    doubts = []
    for start, end, introduction in _sentences(text):
        sentence = text[start:end]
        keys = [key for key in _MARK.findall(sentence) or _MARK.findall(introduction) if key in cited]
        words = _MARK.sub(lambda mark: " " * len(mark[0]), sentence)
        missing: list[str] = []
        reason = None
        if _says_what_is_missing(words):
            continue
        if keys:
            missing, reason = check_sentence(
                words, [cited[key] for key in dict.fromkeys(keys)], only_figures=translated
            )
        elif not any(blank_free(words) in quote for quote in quotes):  # split otherwise than in the document
            reason = NO_CITATION
        if reason:
            doubts.append(Doubt(sentence=sentence, start=start, end=end, missing=missing, reason=reason))
    return doubts


def says_only_what_is_missing(text: str, *, or_else: re.Pattern[str]) -> bool:
    """Return whether each sentence only says what the documents do not tell, or begins as the pattern does."""
    sentences = [text[start:end] for start, end, _ in _sentences(text)]
    return bool(sentences) and all(_says_what_is_missing(each) or or_else.match(each) for each in sentences)


def claims_beside_what_is_missing(text: str) -> list[str]:
    """Return the sentences of a refusal to answer that name a figure or a drug and do not speak of the documents."""
    return [
        each.strip()
        for start, end, _ in _sentences(text)
        for each in _TURNS.split(text[start:end])
        if (any(find_figures(plain := plain_text(each), only_counted=True)) or missing_drugs(plain, ""))
        and not (_says_what_is_missing(each) or re.search(_AT_HAND, plain))
    ]


def marked(text: str, doubts: Sequence[Doubt]) -> str:
    """Return an answer's text with each doubt after its sentence."""
    for doubt in sorted(doubts, key=lambda doubt: -doubt["end"]):
        text = f"{text[: doubt['end']]} (! {doubt['reason']}){text[doubt['end'] :]}"
    return text


def _sentences(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the places of the sentences, each with the citations behind it, and the line that introduces their list.

    A line that ends in a colon introduces; it is no sentence.
    """
    for blank in (_TABLE_HEAD, _BREAK_BEFORE_MARKS):
        text = blank.sub(lambda found: " " * len(found[0]), text)
    at, introduction = 0, ""
    for line in text.splitlines(keepends=True):
        begin = item.end() if (item := _ITEM.match(line)) else 0
        if not item and line.strip():
            introduction = line if line.rstrip().endswith(":") else ""
        starts = [begin + start for start, _ in split_sentences(line[begin:])]
        # A citation behind the full stop belongs to the sentence before it, unless the line begins with one.
        leads = _MARK.match(line, begin)
        for place, start in enumerate(starts[1:], 1):
            marks = _MARKS_BEFORE.search(line, max(start - _MARKS_WITHIN, 0), start) if leads else None
            starts[place] = marks.start() if marks else _MARKS.match(line, start).end()  # type: ignore[union-attr]
        for start, end in pairwise([*starts, len(line)]):
            sentence = line[start:end].rstrip()
            if any(letter.isalpha() for letter in sentence) and not sentence.endswith(":"):
                yield at + start, at + start + len(sentence), introduction if item else ""
        at += len(line)


def _says_what_is_missing(sentence: str) -> bool:
    plain = plain_text(sentence).replace("’", "'").strip()
    if len(plain) > _LONGEST_CLAUSE:
        return False
    one_clause = len(NEGATED.findall(plain)) <= 1 and not _SAYS_MORE.search(plain)
    return one_clause and bool(_ON_WHAT_IS_MISSING.fullmatch(plain))
