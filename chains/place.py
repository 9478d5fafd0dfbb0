"""Places in a document: section, paragraph and page, and the context of a sentence."""

import json
import re
from typing import Any, NamedTuple

from langchain_core.documents import Document

from briefcontext.chains.reader import CUT_AT
from briefcontext.knowledge.sentences import list_lines, without_bullet

_BARRING = re.compile(
    r"\b(?:not|never|avoid|abandon|contra-?indicat|withdrawn|obsolete)", re.IGNORECASE
)
"""Words of a heading that forbids its content."""


class Place(NamedTuple):
    """A place in a document, as far as it is known: see `CitedQuote`."""

    section: str
    paragraph: int | None
    page: int | None


def find_place(document: Document, start: int = 0) -> Place:
    """Return the place at an offset in the document's text."""
    metadata = document.metadata
    offset = chunk_start(document) + int(metadata.get(CUT_AT, 0)) + start
    heading, number = [("", None), *_starts(document, "paragraph_starts", 3, offset)][-1]
    paragraph = number if isinstance(number, int) and number else None
    # LangChain's loaders count pages from 0.
    page = metadata.get("page") if metadata.get("kind") == "pdf" else None
    if isinstance(page, int):
        (page,) = [(page,), *_starts(document, "page_starts", 2, offset)][-1]
    heading = str(heading) if heading or paragraph else _label(document, start)
    return Place(heading, paragraph, page if isinstance(page, int) else None)


def read_under(document: Document, start: int = 0, *, every_heading: bool = False) -> str:
    """Return the context of a sentence: its list introduction, and a heading that forbids it.

    A list item without an introduction that ends in a colon has the heading of its section; with
    `every_heading` each sentence has it. The result is empty, or ends as a sentence or in a colon.
    """
    before = str(document.metadata.get("list_lines") or "")
    lines = list_lines(before + document.page_content, len(before) + start)
    above = [shown for line in lines[:-1] if (shown := without_bullet(line).strip("#*_ \t"))]
    # Another sentence above a list may be unrelated.
    above = [line for line in above if line[-1] not in ".!?" or _BARRING.search(line)]
    heading = find_place(document, start).section
    introduced = not lines or bool(above and above[-1].endswith(":"))
    beginning = document.page_content[start : start + len(heading) + 9].strip("#*_ \t")
    is_shown = beginning.startswith(heading) or heading in "\n".join(above)
    if not is_shown and (every_heading or not introduced or _BARRING.search(heading)):
        above.insert(0, heading)
    ends = ["" if line[-1] in ".!?:" else ":" for line in above]
    return " ".join(f"{' '.join(line.split())}{end}" for line, end in zip(above, ends, strict=True))


def chunk_start(document: Document) -> int:
    """Return the offset of a chunk in its source."""
    return int(str(document.metadata.get("start") or 0))


def _label(document: Document, start: int) -> str:
    """Return the label of a place in an abstract, or the section of the document."""
    at, heading = 0, str(document.metadata.get("section") or "")
    for label in filter(None, str(document.metadata.get("labels") or "").split("; ")):
        at = document.page_content.find(f"{label}: ", at)
        heading = label if 0 <= at <= start else heading
        at = max(at, 0)
    return heading


def _starts(document: Document, name: str, width: int, offset: int) -> list[list[Any]]:
    """Return the entries of a list in the metadata up to an offset in the source."""
    try:
        listed = json.loads(str(document.metadata.get(name) or "[]"))
    except (ValueError, RecursionError):
        return []
    places = []
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, list) and len(each) == width and isinstance(each[0], int):
            places += [each[1:]] if each[0] <= offset else []
    return places
