"""Sections of a document: where each begins, and what it is called."""

import json
import re
from dataclasses import dataclass

from langchain_core.documents import Document

__all__ = ["Section", "sections"]

_LONGEST_HEADING = 80
_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+(?P<marked>[^\n]*\S)[ \t]*$"
    rf"|(?:\A|(?<=\n\n)|(?<=\f))[ \t]*(?P<plain>(?:\d[\d.]*[ \t]+)?[A-Z][^\n\t|]{{1,{_LONGEST_HEADING}}}?)[ \t]*\n+"
    rf"(?=[^\n]{{{_LONGEST_HEADING // 2},}})",
    re.MULTILINE,
)
"""A heading in Markdown, or a short line of its own above a longer one."""
_SENTENCE_END = re.compile(r"[.!?;,]$")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a text under one heading, which belongs to it."""

    heading: str
    """Empty for text that stands under none."""
    start: int
    end: int


def sections(document: Document) -> list[Section]:
    """Return the sections of a document in order; together they are its whole text.

    They are those that the reader of its format found, in the metadata `sections`, or else stand under headings in
    Markdown and under short lines of their own.
    """
    text = document.page_content
    if (known := document.metadata.get("sections")) is not None:
        found = [(str(heading), int(start)) for heading, start, _ in json.loads(known)]
    else:
        found = [
            ((match["marked"] or match["plain"]).strip("#: \t"), match.start())
            for match in _HEADING.finditer(text)
            if match["marked"] or not _SENTENCE_END.search(match["plain"])
        ]
    if not found or found[0][1] > 0:
        found.insert(0, ("", 0))
    ends = [start for _, start in found[1:]] + [len(text)]
    return [Section(heading, start, end) for (heading, start), end in zip(found, ends, strict=True)]
