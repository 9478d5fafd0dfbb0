"""Cutting a long document into chunks that keep their place in it."""

from dataclasses import dataclass

from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import Encoder

CHUNK_TOKENS = 128
"""Chunk size of order-preserving RAG, without overlap (OP-RAG, arXiv 2409.01666, section 4)."""


def chunk_document(document: Document, encoder: Encoder, *, tokens: int = CHUNK_TOKENS) -> list[Document]:
    """Non-overlapping chunks of at most `tokens` tokens, in order; joined, they are the document's text.

    Tokens are those of the encoder's own tokeniser over the whole text. A chunk is as long as the limit
    allows, but ends between two words (runs of characters without white space); only a word of more than
    `tokens` tokens is cut inside, and never inside a character. White space between two chunks belongs to the
    one before it, and white space at the start of the text to the first.

    Each chunk has the document's metadata, `chunk_index` (from 0), `start` and `end` (character offsets in
    the document's text) and the id `<source_id>#<chunk_index>`.

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
    starts = _chunk_starts(_pieces(text, encoder.token_offsets(text)), tokens)
    ends = [*starts[1:], len(text)]
    return [
        Document(
            id=f"{source_id}#{index}",
            page_content=text[start:end],
            metadata={
                **document.metadata,
                "source_id": source_id,
                "chunk_index": index,
                "start": start,
                "end": end,
            },
        )
        for index, (start, end) in enumerate(zip(starts, ends, strict=False))
    ]


@dataclass(slots=True)
class _Piece:
    """Tokens that cannot be parted: one, or several that share a character."""

    start: int
    tokens: int
    begins_word: bool


def _pieces(text: str, offsets: list[tuple[int, int]]) -> list[_Piece]:
    pieces: list[_Piece] = []
    covered = 0
    for start, end in offsets:
        # Some tokenisers count the white space before a word as part of its token.
        start = end - len(text[start:end].lstrip())
        if start < end and start >= covered:
            pieces.append(_Piece(start, 1, begins_word=start == 0 or text[start - 1].isspace()))
        elif pieces:
            pieces[-1].tokens += 1
        covered = max(covered, end)
    return pieces


def _chunk_starts(pieces: list[_Piece], tokens: int) -> list[int]:
    starts: list[int] = []
    begin = 0
    while begin < len(pieces):
        starts.append(pieces[begin].start if begin else 0)
        count = pieces[begin].tokens
        stop = begin + 1
        word = begin
        while stop < len(pieces) and count + pieces[stop].tokens <= tokens:
            if pieces[stop].begins_word:
                word = stop
            count += pieces[stop].tokens
            stop += 1
        ends_between_words = stop == len(pieces) or pieces[stop].begins_word
        begin = stop if ends_between_words or word == begin else word
    return starts
