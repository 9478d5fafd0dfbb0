"""Places in a document: the section, paragraph and page, and what a sentence must not be read without."""

import json
import re
from typing import Any, NamedTuple

from langchain_core.documents import Document

from briefcontext.chains.reader import CUT_AT
from briefcontext.knowledge.sentences import list_lines, without_bullet

_BARRING = re.compile(
    r"\b(?:not|never|avoid|abandon|contra-?indicat|withdrawn|obsolete)", re.IGNORECASE
)
"""In a heading: what stands under it is not to be done."""


class Place(NamedTuple):
    """Where a person finds a place in a document, as far as that is known: as in `CitedQuote`."""

    section: str
    paragraph: int | None
    page: int | None


def find_place(document: Document, start: int = 0) -> Place:
    """Return where a place in a document is, by its offset in the document's text."""
    metadata = document.metadata
    offset = chunk_start(document) + int(metadata.get(CUT_AT, 0)) + start
    heading, paragraph = next(
        reversed(_starts(document, "paragraph_starts", 3, offset)), ("", None)
    )
    paragraph = paragraph if isinstance(paragraph, int) and paragraph else None
    # LangChain's loaders count pages from 0.
    page = metadata.get("page") if metadata.get("kind") == "pdf" else None
    if isinstance(page, int):
        (page,) = next(reversed(_starts(document, "page_starts", 2, offset)), (page,))
    heading = str(heading) if heading or paragraph else _label(document, start)
    return Place(heading, paragraph, page if isinstance(page, int) else None)


def read_under(document: Document, start: int = 0, *, every_heading: bool = False) -> str:
    """Return what a sentence must not be read without: what introduces its list, and a heading that bars it.

    An item of a list that no line ending in a colon introduces has the heading of its section,
    whatever that says; with `every_heading` each sentence has it. The result is empty, or ends as a
    sentence or in a colon.
    """
    before = str(document.metadata.get("list_lines") or "")
    lines = list_lines(before + document.page_content, len(before) + start)
    above = [shown for line in lines[:-1] if (shown := without_bullet(line).strip("#*_ \t"))]
    # Another sentence above a list may have nothing to do with it.
    above = [line for line in above if line[-1] not in ".!?" or _BARRING.search(line)]
    heading = find_place(document, start).section
    told = not lines or bool(above and above[-1].endswith(":"))
    itself = (
        document.page_content[start : start + len(heading) + 9].strip("#*_ \t").startswith(heading)
    )
    if (
        heading
        and not itself
        and (every_heading or not told or _BARRING.search(heading))
        and heading not in "\n".join(above)
    ):
        above.insert(0, heading)
    return " ".join(
        f"{' '.join(line.split())}{'' if line[-1] in '.!?:' else ':'}" for line in above
    )


def chunk_start(document: Document) -> int:
    """Return where a chunk begins in its source, in characters."""
    return int(str(document.metadata.get("start") or 0))


def _label(document: Document, start: int) -> str:
    """Return the label of a place in an abstract, or the section of the whole document."""
    at, heading = 0, str(document.metadata.get("section") or "")
    for label in filter(None, str(document.metadata.get("labels") or "").split("; ")):
        at = document.page_content.find(f"{label}: ", at)
        heading = label if 0 <= at <= start else heading
        at = max(at, 0)
    return heading


def _starts(document: Document, name: str, width: int, offset: int) -> list[list[Any]]:
    """Return what a list in the metadata, which may be anything, says of the places up to an offset in the source."""
    try:
        listed = json.loads(str(document.metadata.get(name) or "[]"))
    except (ValueError, RecursionError):
        return []
    entries = (
        [each for each in listed if isinstance(each, list)] if isinstance(listed, list) else []
    )
    places = [each for each in entries if len(each) == width and isinstance(each[0], int)]
    return [each[1:] for each in places if each[0] <= offset]
