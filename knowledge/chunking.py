"""Cutting a long document into chunks that keep their place in it."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import Encoder
from briefcontext.knowledge.sections import Section, sections
from briefcontext.sentences import split_sentences

CHUNK_TOKENS = 128
"""Chunk size of order-preserving RAG, without overlap (OP-RAG, arXiv 2409.01666, section 4)."""

_PARAGRAPH = re.compile(r"(?:\A|\n[ \t\r]*\n)\s*(?=\S)")
_BREAKS = re.compile(r"[ \t\n\r\f\v]+")
"""White space that words are broken at: not what stands inside a number, as in 10 000 with a thin or a fixed blank."""


def chunk_document(
    document: Document, encoder: Encoder, *, tokens: int = CHUNK_TOKENS, exact: bool = False
) -> list[Document]:
    """Non-overlapping chunks of about `tokens` tokens, in order; joined, they are the document's text.

    Tokens are those of the encoder's own tokeniser over the whole text. A chunk ends with the sentence whose end is
    nearest to `tokens`, and has at most twice as many; or before, with its section, when it has a quarter of them. A
    sentence that is longer still is cut between its lines, as rows of a table, and a line between its words; only a
    word of more than `tokens` tokens is cut inside, and never inside a character. White space between two chunks
    belongs to the one before it, and white space at the start of the text to the first.

    Each chunk has the document's metadata but for its `sections`, `chunk_index` (from 0), `start` and `end` (character
    offsets in the document's text), `section` (the heading that most of it stands under, if any) and the id
    `<source_id>#<chunk_index>`. `paragraph_starts` is JSON, if the document has several: `[start, heading, number]`
    for each that the chunk has a part of, by its number in its section; 0 is the heading itself. One of a PDF has the
    `page_starts` in it, and the `page` that it begins on.

    Args:
        document: the text, with its `source_id`, or its id, to name chunks after.
        encoder: whose tokens count.
        tokens: of a chunk.
        exact: cut between words wherever `tokens` tokens are reached, also within a sentence, as OP-RAG does.

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
            f"a document that begins {document.page_content[:40]!r} has no source_id, which its chunks are "
            "named after; set metadata['source_id']."
        )
    text = document.page_content
    parts = sections(document)
    starts = _chunk_starts(text, encoder.token_offsets(text), parts, tokens, exact=exact)
    ends = [*starts[1:], len(text)]
    kept = {name: value for name, value in document.metadata.items() if not name.endswith(("sections", "_starts"))}
    pages = json.loads(document.metadata.get("page_starts", "[]"))
    paragraphs = _paragraphs(text, parts)
    return [
        Document(
            id=f"{source_id}#{index}",
            page_content=text[start:end],
            metadata={
                **kept,
                "source_id": source_id,
                "chunk_index": index,
                "start": start,
                "end": end,
                **_section_of(start, end, parts),
                **_paragraphs_of(start, end, paragraphs),
                **_pages_of(start, end, pages),
            },
        )
        for index, (start, end) in enumerate(zip(starts, ends, strict=False))
    ]


def _paragraphs(text: str, parts: Sequence[Section]) -> list[tuple[int, str, int]]:
    found = []
    for part in parts:
        starts = [part.start + match.end() for match in _PARAGRAPH.finditer(text[part.start : part.end])]
        first = text[part.start : starts[1] if len(starts) > 1 else part.end].strip("#: \t\r\n")
        begin = 0 if part.heading and first == part.heading else 1
        found += [(start, part.heading, number) for number, start in enumerate(starts, begin)]
    return found if len(found) > 1 else []


def _paragraphs_of(start: int, end: int, paragraphs: Sequence[tuple[int, str, int]]) -> dict[str, str]:
    first = bisect_right(paragraphs, start, key=lambda paragraph: paragraph[0]) - 1
    last = bisect_left(paragraphs, end, key=lambda paragraph: paragraph[0])
    known = paragraphs[max(first, 0) : last]
    return {"paragraph_starts": json.dumps(known, ensure_ascii=False, separators=(",", ":"))} if known else {}


def _pages_of(start: int, end: int, pages: Sequence[tuple[int, int]]) -> dict[str, int | str]:
    first = bisect_right(pages, start, key=lambda page: page[0]) - 1
    if first < 0:
        return {}
    more = [page for page in pages[first + 1 :] if page[0] < end]
    return {"page": pages[first][1], **({"page_starts": json.dumps(more)} if more else {})}


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


def _section_of(start: int, end: int, parts: Sequence[Section]) -> dict[str, str]:
    first = bisect_right(parts, start, key=lambda part: part.start) - 1
    last = bisect_left(parts, end, key=lambda part: part.start)
    heading = max(parts[first:last], key=lambda part: min(part.end, end) - max(part.start, start)).heading
    return {"section": heading} if heading else {}


def _chunk_starts(
    text: str, offsets: list[tuple[int, int]], parts: Sequence[Section], tokens: int, *, exact: bool
) -> list[int]:
    """The offsets that chunks begin at."""
    starts, before = _whole_tokens(text, offsets)
    end = len(starts) - 1
    blanks = {match.end(): match[0] for match in _BREAKS.finditer(text)}
    words = [place for place in range(end) if starts[place] in blanks]
    levels = [([*words, end], tokens)]
    borders: list[int] = []
    if not exact:
        borders = [bisect_left(starts, part.start) for part in parts]
        sentences = {bisect_left(starts, start) for start, _ in split_sentences(text)}
        lines = [place for place in words if "\n" in blanks[starts[place]]]
        levels = [(sorted(sentences | {end}), 2 * tokens), ([*lines, end], 2 * tokens), *levels]
    found = []
    place = 0
    while place < end:
        found.append(starts[place] if place else 0)
        ends = (_nearest_end(ends, before, place, tokens, most) for ends, most in levels)
        stop = next(filter(None, ends), None) or max(place + 1, bisect_right(before, before[place] + tokens) - 1)
        worth = bisect_left(borders, before[place] + max(tokens // 4, 1), key=before.__getitem__)
        place = min([stop, *borders[worth : worth + 1]])
    return found


def _nearest_end(ends: Sequence[int], before: Sequence[int], place: int, tokens: int, most: int) -> int | None:
    """The end that brings a chunk from a place nearest to `tokens` of them; None: all bring more than `most`."""
    wanted = before[place] + tokens
    at = bisect_right(ends, wanted, key=before.__getitem__)
    near = [end for end in ends[max(at - 1, 0) : at + 1] if end > place and before[end] <= before[place] + most]
    return min(near, key=lambda end: abs(before[end] - wanted), default=None)
