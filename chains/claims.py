"""Claims: the sentences of an answer with the passages that they cite and their figures."""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from langchain_core.documents import Document

from briefcontext.chains.citation import MARK, Citation, publication_year
from briefcontext.chains.figures import Figure, find_figures, find_shares, same_figure
from briefcontext.chains.notes import Note, note
from briefcontext.chains.parsing.answer_parser import NOT_ANSWERED
from briefcontext.chains.parsing.grounding import lowered
from briefcontext.chains.place import read_under
from briefcontext.knowledge.sentences import split_sentences

_MARK = re.compile(MARK)
_MARK_WITH_BLANKS = re.compile(rf"\s*(?:\({MARK}\)|{MARK})")
_MARKS = re.compile(rf"(?:[*_\s]*(?:\({MARK}\)|{MARK})\s*)*")
"""The citations after a sentence, also after bold type: `**It is so.** [1]`."""
_MARKS_BEFORE = re.compile(rf"(?:{MARK}\s*)*\Z")
_BREAK_BEFORE_MARKS = re.compile(rf"(?<=\S)[^\S\n]*+\n\s*+(?=(?:{MARK}[ \t]*+)++$)", re.MULTILINE)
"""A line break before a line that has only citations, which belong to the line above."""
_MARKS_WITHIN = 80
"""Characters to search for citations before a sentence."""
_ITEM = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_TABLE_HEAD = re.compile(r"^[ \t]*\|.*(?=\n[ \t]*\|[ \t:|-]+$)", re.MULTILINE)
_PLAIN_SIGNS = str.maketrans("μ·−–—", "µ.---")


class Claim(NamedTuple):
    """A sentence of the answer."""

    start: int
    end: int
    """Offsets in the answer's text."""
    text: str
    """The words, without citations."""
    keys: tuple[str, ...]
    """Keys of its citations."""


def find_claims(text: str, keys: Collection[str]) -> list[Claim]:
    """Return the sentences of an answer with citation numbers.

    List items without a citation use that of the list's introduction. Lines that end in
    a colon and statements of what is not answered are left out.
    """
    claims = []
    for start, end, introduction in _sentences(text):
        sentence = text[start:end]
        marks = _MARK.findall(sentence) or _MARK.findall(introduction)
        words = " ".join(_MARK_WITH_BLANKS.sub("", sentence).split())
        cited = tuple(key for key in dict.fromkeys(marks) if key in keys)
        claims.append(Claim(start, end, words, cited))
    return claims


def check_claims(
    claims: Sequence[Claim], citations: Sequence[Citation], documents: Sequence[Document]
) -> list[Note]:
    """Return a note on each sentence that is uncited or has a figure that its passages lack."""
    by_id = {str(document.id): document for document in documents}
    cited = {citation["key"]: by_id[citation["document_id"]] for citation in citations}
    quotes = [quote for citation in citations for quote in citation["quotes"]]
    copies = [_letters(words) for quote in quotes for words in (quote["section"], quote["text"])]
    notes = []
    for claim in claims:
        place = claim.start, claim.end
        missing = missing_figures(claim.text, [cited[key] for key in claim.keys])
        if not claim.keys and not any(_letters(claim.text) in copy for copy in copies):
            message = "No source is cited for this sentence."
            notes.append(note("caution", "uncited", message, place))
        elif claim.keys and missing:
            message = f"Not found in [{']['.join(claim.keys)}]: {', '.join(missing)}."
            notes.append(note("caution", "figure_not_found", message, place))
    return notes


def missing_figures(sentence: str, documents: Sequence[Document]) -> list[str]:
    """Return a sentence's figures, with units, that none of the documents contains."""
    texts = [text for document in documents for text in _texts(document)]
    if any(_letters(sentence) in _letters(text) for text in texts):
        return []
    find = find_figures, find_shares
    known = [figure for text in map(_plain, texts) for each in find for figure in each(text)]
    years = filter(None, map(publication_year, documents))
    known += [Figure(float(year), "", 1, (), "", 0, 0) for year in years]
    missing = [
        sentence[figure.start : figure.end].strip()
        for figure in find_figures(_plain(sentence), only_counted=True)
        if not any(same_figure(figure, other) for other in known)
    ]
    return list(dict.fromkeys(reversed(missing)))


def _texts(document: Document) -> list[str]:
    title = str(document.metadata.get("title") or "")
    return [title, read_under(document, every_heading=True), document.page_content]


def _plain(text: str) -> str:
    """Return a text in lower case with plain signs, at the same length."""
    return lowered(text.translate(_PLAIN_SIGNS))


def _letters(text: str) -> str:
    return "".join(text.split())


def _sentences(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the places of the sentences, each with the line that introduces its list."""
    for blank in (_TABLE_HEAD, _BREAK_BEFORE_MARKS):
        text = blank.sub(lambda match: " " * len(match[0]), text)
    at, introduction = 0, ""
    for line in text.splitlines(keepends=True):
        begin = item.end() if (item := _ITEM.match(line)) else 0
        if not item and line.strip():
            introduction = line if line.rstrip().endswith(":") else ""
        for start, end in _places(line, begin) if not line.startswith(NOT_ANSWERED) else ():
            yield at + start, at + end, introduction if item else ""
        at += len(line)


def _places(line: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield the places of a line's sentences, each with the citations after its full stop."""
    starts = [begin + start for start, _ in split_sentences(line[begin:])]
    leads = _MARK.match(line, begin)
    for place, start in enumerate(starts[1:], 1):
        marks = _MARKS_BEFORE.search(line, max(start - _MARKS_WITHIN, 0), start) if leads else None
        found = marks or _MARKS.match(line, start)
        starts[place] = marks.start() if marks else found.end()  # type: ignore[union-attr]
    for start, end in pairwise([*starts, len(line)]):
        sentence = line[start:end].rstrip()
        if any(map(str.isalpha, sentence)) and not sentence.endswith(":"):
            yield start, start + len(sentence)
