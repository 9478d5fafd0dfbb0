"""Chunks of a long document, which keep their places in it."""

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
"""OP-RAG's chunk size, without overlap (arXiv 2409.01666, section 4)."""

_LONGEST_HEADING = 80
_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+(?P<marked>[^\r\n]*\S)[ \t]*\r?$"
    r"|(?:\A|(?<=\n\n)|(?<=\n\r\n)|(?<=\f))[ \t]*"
    rf"(?P<plain>(?:\d[\d.]*[ \t]+)?[A-Z][^\r\n\t|]{{1,{_LONGEST_HEADING}}}?)[ \t]*(?:\r?\n)+"
    rf"(?=[^\r\n]{{{_LONGEST_HEADING // 2},}}|[^\r\n]*[.!?;:][ \t]*\r?$|{BULLET.pattern})",
    re.MULTILINE,
)
"""A heading in Markdown, or a short line above a longer one, a sentence or a list."""
_SENTENCE_END = re.compile(r"[.!?;,]$")
_PARAGRAPH = re.compile(r"(?:\A|\n[ \t\r]*\n)\s*(?=\S)")
_BREAKS = re.compile(r"[ \t\n\r\f\v]+")
"""White space between words; other blanks are inside numbers, as in 10 000."""

_T = TypeVar("_T", bound=tuple[int, *tuple[object, ...]])


class _Section(NamedTuple):
    """A part of a text under one heading, which may be empty."""

    start: int
    end: int
    heading: str


def chunk_document(
    document: Document, encoder: Encoder, *, tokens: int = CHUNK_TOKENS, exact: bool = False
) -> list[Document]:
    """Return chunks of about `tokens` tokens; joined, they are the document's text.

    A chunk ends at the sentence end nearest to `tokens`, with at most twice that number, or at the
    end of its section from a quarter of it. Longer sentences are cut between lines, then between
    words, then inside a word, but never inside a character. White space belongs to the chunk before
    it.

    The metadata are the document's, and `chunk_index` (from 0), `start` and `end` (offsets in the
    document's text), `section` (the heading of most of the chunk), `paragraph_starts` (JSON:
    `[start, heading, number]` of each paragraph, by its number in the section; 0 is the heading),
    `list_lines` (see `sentences.list_lines`), and of a PDF `page` and `page_starts`. The id is
    `<source_id>#<chunk_index>`.

    Args:
        document: the text, with a `source_id` or an id.
        encoder: its tokens count.
        tokens: the size of a chunk.
        exact: cut between words at `tokens` tokens, also within a sentence, as OP-RAG does.

    Raises:
        InputError: `tokens` is less than 1.
        KnowledgeBaseError: the document has neither a `source_id` nor an id.
    """
    if tokens < 1:
        raise InputError(f"A chunk of {tokens} tokens is not possible: give 1 or more.")
    source_id = document.metadata.get("source_id", document.id)
    if source_id is None:
        raise KnowledgeBaseError(
            f"The document {document.page_content[:40]!r}… has no id: set metadata['source_id']."
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
        place = {"source_id": source_id, "chunk_index": index, "start": start, "end": end}
        covered = {
            min(part.end, end) - max(part.start, start): part.heading
            for part in reversed(_overlapping(sections, start, end))
        }
        chunk_pages = _overlapping(pages, start, end)
        optional = {
            "section": covered[max(covered)],
            "paragraph_starts": _json(_overlapping(paragraphs, start, end)),
            "list_lines": "\n".join(list_lines(text, start)),
            "page": chunk_pages[0][1] if chunk_pages else None,
            "page_starts": _json(chunk_pages[1:]),
        }
        known = {name: value for name, value in optional.items() if value}
        id, metadata = f"{source_id}#{index}", {**kept, **place, **known}
        chunks.append(Document(id=id, page_content=text[start:end], metadata=metadata))
    return chunks


def _json(rows: Sequence[object]) -> str:
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")) if rows else ""


def _overlapping(parts: Sequence[_T], start: int, end: int) -> Sequence[_T]:
    """Return the parts, given by their starts, that overlap a range."""
    first = bisect_right(parts, start, key=lambda part: part[0]) - 1
    return parts[max(first, 0) : bisect_left(parts, end, key=lambda part: part[0])]


def _sections(document: Document) -> list[_Section]:
    """Return the sections of the metadata, else those below headings."""
    text = document.page_content
    if (known := document.metadata.get("sections")) is not None:
        hit = [(int(start), str(heading)) for heading, start, _ in json.loads(known)]
    else:
        hit = [
            (match.start(), (match["marked"] or match["plain"]).strip("#: \t"))
            for match in _HEADING.finditer(text)
            if match["marked"] or not (_SENTENCE_END.search(match["plain"]) or _introduces(match))
        ]
    if not hit or hit[0][0] > 0:
        hit.insert(0, (0, ""))
    ends = [start for start, _ in hit[1:]] + [len(text)]
    parts = zip(hit, ends, strict=True)
    return [_Section(start, end, heading) for (start, heading), end in parts]


def _introduces(line: re.Match[str]) -> bool:
    return line["plain"].endswith(":") and BULLET.match(line.string, line.end()) is not None


def _paragraphs(text: str, sections: Sequence[_Section]) -> list[tuple[int, str, int]]:
    """Return the start, heading and number of each paragraph, if there are several."""
    results = []
    for part in sections:
        matches = _PARAGRAPH.finditer(text[part.start : part.end])
        starts = [part.start + match.end() for match in matches]
        first = text[part.start : starts[1] if len(starts) > 1 else part.end].strip("#: \t\r\n")
        begin = 0 if part.heading and first == part.heading else 1
        results += [(start, part.heading, number) for number, start in enumerate(starts, begin)]
    return results if len(results) > 1 else []


def _whole_tokens(text: str, offsets: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return where chunks may begin, and the number of tokens before each place.

    Tokens that share a character cannot be parted. The last place is the end of the text.
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
    results = []
    place = 0
    while place < end:
        results.append(starts[place] if place else 0)
        ends = (_nearest_end(ends, before, place, tokens, most) for ends, most in levels)
        stop = next(filter(None, ends), None) or max(
            place + 1, bisect_right(before, before[place] + tokens) - 1
        )
        worth = bisect_left(borders, before[place] + max(tokens // 4, 1), key=before.__getitem__)
        place = min([stop, *borders[worth : worth + 1]])
    return results


def _nearest_end(
    ends: Sequence[int], before: Sequence[int], place: int, tokens: int, most: int
) -> int | None:
    """Return the end nearest to `tokens` tokens; None if all are more than `most` away."""
    wanted = before[place] + tokens
    at = bisect_right(ends, wanted, key=before.__getitem__)
    near = [
        end
        for end in ends[max(at - 1, 0) : at + 1]
        if end > place and before[end] <= before[place] + most
    ]
    return min(near, key=lambda end: abs(before[end] - wanted), default=None)
