"""Cutting a long document into chunks that keep their place in it."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import Encoder
from briefcontext.knowledge.sentences import BULLET, list_lines, split_sentences

CHUNK_TOKENS = 128
"""Chunk size of order-preserving RAG, without overlap (OP-RAG, arXiv 2409.01666, section 4)."""

_LONGEST_HEADING = 80
_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+(?P<marked>[^\r\n]*\S)[ \t]*\r?$"
    r"|(?:\A|(?<=\n\n)|(?<=\n\r\n)|(?<=\f))[ \t]*"
    rf"(?P<plain>(?:\d[\d.]*[ \t]+)?[A-Z][^\r\n\t|]{{1,{_LONGEST_HEADING}}}?)[ \t]*(?:\r?\n)+"
    rf"(?=[^\r\n]{{{_LONGEST_HEADING // 2},}}|[^\r\n]*[.!?;:][ \t]*\r?$|{BULLET.pattern})",
    re.MULTILINE,
)
"""A heading in Markdown, or a short line of its own above a longer one, a sentence or a list."""
_SENTENCE_END = re.compile(r"[.!?;,]$")
_PARAGRAPH = re.compile(r"(?:\A|\n[ \t\r]*\n)\s*(?=\S)")
_BREAKS = re.compile(r"[ \t\n\r\f\v]+")
"""White space that words are broken at: not what stands inside a number, as in 10 000 with a thin or a fixed blank."""

_T = TypeVar("_T", bound=tuple[int, *tuple[object, ...]])


class _Section(NamedTuple):
    """A part of a text under one heading, which belongs to it; the heading is empty for text that stands under none."""

    start: int
    end: int
    heading: str


def chunk_document(
    document: Document, encoder: Encoder, *, tokens: int = CHUNK_TOKENS, exact: bool = False
) -> list[Document]:
    """Non-overlapping chunks of about `tokens` tokens, in order; joined, they are the document's text.

    Tokens are those of the encoder's own tokeniser over the whole text. A chunk ends with the
    sentence whose end is nearest to `tokens`, and has at most twice as many; or before, with its
    section, when it has a quarter of them. A sentence that is longer still is cut between its
    lines, as rows of a table, and a line between its words; only a word of more than `tokens`
    tokens is cut inside, and never inside a character. White space between two chunks belongs to
    the one before it, and white space at the start of the text to the first.

    Each chunk has the document's metadata but for its `sections`, `chunk_index` (from 0), `start`
    and `end` (character offsets in the document's text), `section` (the heading that most of it
    stands under, if any) and the id `<source_id>#<chunk_index>`. `paragraph_starts` is JSON, if the
    document has several: `[start, heading, number]` for each that the chunk has a part of, by its
    number in its section; 0 is the heading itself. `list_lines` is what introduces the list that
    the chunk begins in (`briefcontext.knowledge.sentences.list_lines`). One of a PDF has the
    `page_starts` in it, and the `page` that it begins on.

    Args:
        document: the text, with its `source_id`, or its id, to name chunks after.
        exact: cut between words wherever `tokens` tokens are reached, also within a sentence, as
            OP-RAG does.

    Returns:
        The chunks; none where the text has no token, as when it is white space only.

    Raises:
        InputError: `tokens` is less than 1.
        KnowledgeBaseError: the document has neither a `source_id` nor an id.
    """
    if tokens < 1:
        raise InputError(f"a chunk of {tokens} tokens is not possible; give 1 or more.")
    source_id = document.metadata.get("source_id", document.id)
    if source_id is None:
        raise KnowledgeBaseError(
            f"a document that begins {document.page_content[:40]!r} has no source_id, which its "
            f"chunks are "
            "named after; set metadata['source_id']."
        )
    text = document.page_content
    sections = _sections(document)
    paragraphs = _paragraphs(text, sections)
    pages = json.loads(document.metadata.get("page_starts", "[]"))
    kept = {
        name: value
        for name, value in document.metadata.items()
        if not name.endswith(("sections", "_starts"))
    }
    starts = _chunk_starts(text, encoder.token_offsets(text), sections, tokens, exact=exact)
    chunks = []
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], len(text)], strict=False)):
        metadata = {
            **kept,
            "source_id": source_id,
            "chunk_index": index,
            "start": start,
            "end": end,
        }
        within = _overlapping(sections, start, end)
        if heading := max(
            within, key=lambda part: min(part.end, end) - max(part.start, start)
        ).heading:
            metadata["section"] = heading
        if known := _overlapping(paragraphs, start, end):
            metadata["paragraph_starts"] = json.dumps(
                known, ensure_ascii=False, separators=(",", ":")
            )
        if introduced := list_lines(text, start):
            metadata["list_lines"] = "\n".join(introduced)
        if printed := _overlapping(pages, start, end):
            metadata["page"] = printed[0][1]
            if printed[1:]:
                metadata["page_starts"] = json.dumps(printed[1:])
        chunks.append(
            Document(id=f"{source_id}#{index}", page_content=text[start:end], metadata=metadata)
        )
    return chunks


def _overlapping(parts: Sequence[_T], start: int, end: int) -> Sequence[_T]:
    """The parts of a text, given by where they start, that it has something of between two places."""
    first = bisect_right(parts, start, key=lambda part: part[0]) - 1
    return parts[max(first, 0) : bisect_left(parts, end, key=lambda part: part[0])]


def _sections(document: Document) -> list[_Section]:
    """The sections of a document in order; together they are its whole text.

    They are those that the reader of its format found, in the metadata `sections`, or else stand
    under headings in Markdown and under short lines of their own.
    """
    text = document.page_content
    if (known := document.metadata.get("sections")) is not None:
        found = [(int(start), str(heading)) for heading, start, _ in json.loads(known)]
    else:
        found = [
            (match.start(), (match["marked"] or match["plain"]).strip("#: \t"))
            for match in _HEADING.finditer(text)
            if match["marked"] or not (_SENTENCE_END.search(match["plain"]) or _introduces(match))
        ]
    if not found or found[0][0] > 0:
        found.insert(0, (0, ""))
    ends = [start for start, _ in found[1:]] + [len(text)]
    return [
        _Section(start, end, heading) for (start, heading), end in zip(found, ends, strict=True)
    ]


def _introduces(line: re.Match[str]) -> bool:
    """Return whether a line only introduces the list below it."""
    return line["plain"].endswith(":") and BULLET.match(line.string, line.end()) is not None


def _paragraphs(text: str, sections: Sequence[_Section]) -> list[tuple[int, str, int]]:
    """Where each paragraph starts, its heading, and its number in its section; none where there is only one."""
    found = []
    for part in sections:
        starts = [
            part.start + match.end() for match in _PARAGRAPH.finditer(text[part.start : part.end])
        ]
        first = text[part.start : starts[1] if len(starts) > 1 else part.end].strip("#: \t\r\n")
        begin = 0 if part.heading and first == part.heading else 1
        found += [(start, part.heading, number) for number, start in enumerate(starts, begin)]
    return found if len(found) > 1 else []


def _whole_tokens(text: str, offsets: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return where a chunk may begin at all, and how many tokens stand before each place; last, the end of the text.

    Tokens that share a character cannot be parted.
    """
    starts, before = [], []
    covered = 0
    for number, (start, end) in enumerate(offsets):
        # Some tokenisers count the white space before a word as part of its token.
        start = end - len(text[start:end].lstrip())
        if start < end and start >= covered:
            starts.append(start)
            before.append(number)
        covered = max(covered, end)
    return [*starts, len(text)], [*before, len(offsets)]


def _chunk_starts(
    text: str,
    offsets: list[tuple[int, int]],
    sections: Sequence[_Section],
    tokens: int,
    *,
    exact: bool,
) -> list[int]:
    starts, before = _whole_tokens(text, offsets)
    end = len(starts) - 1
    blanks = {match.end(): match[0] for match in _BREAKS.finditer(text)}
    words = [place for place in range(end) if starts[place] in blanks]
    levels = [([*words, end], tokens)]
    borders: list[int] = []
    if not exact:
        borders = [bisect_left(starts, part.start) for part in sections]
        sentences = {bisect_left(starts, start) for start, _ in split_sentences(text)}
        lines = [place for place in words if "\n" in blanks[starts[place]]]
        levels = [(sorted(sentences | {end}), 2 * tokens), ([*lines, end], 2 * tokens), *levels]
    found = []
    place = 0
    while place < end:
        found.append(starts[place] if place else 0)
        ends = (_nearest_end(ends, before, place, tokens, most) for ends, most in levels)
        stop = next(filter(None, ends), None) or max(
            place + 1, bisect_right(before, before[place] + tokens) - 1
        )
        worth = bisect_left(borders, before[place] + max(tokens // 4, 1), key=before.__getitem__)
        place = min([stop, *borders[worth : worth + 1]])
    return found


def _nearest_end(
    ends: Sequence[int], before: Sequence[int], place: int, tokens: int, most: int
) -> int | None:
    """The end that brings a chunk from a place nearest to `tokens` of them; None: all bring more than `most`."""
    wanted = before[place] + tokens
    at = bisect_right(ends, wanted, key=before.__getitem__)
    near = [
        end
        for end in ends[max(at - 1, 0) : at + 1]
        if end > place and before[end] <= before[place] + most
    ]
    return min(near, key=lambda end: abs(before[end] - wanted), default=None)
