"""The context of a prompt: documents and evidence in tags, cut to fit the input window."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from briefcontext.chains.citation import cite, document_key, publication_year
from briefcontext.chains.model.call import CHARACTERS_PER_TOKEN, Model
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.place import read_under
from briefcontext.chains.reader import CUT_AT, Extraction, Quote
from briefcontext.errors import ModelCallError
from briefcontext.knowledge.sentences import list_lines, split_sentences
from briefcontext.knowledge.study_type import kind_of_evidence

T = TypeVar("T")

RESERVED_TOKENS = 1024
"""Tokens kept free for the reply if the window counts input and output together."""
_TAGS = 60
"""Characters for a document's tags and the line breaks around them, rounded up."""
LEAST_ROOM = 200
"""Smallest useful number of characters for documents in a prompt."""
MAX_ADDED = 500
"""Characters that a reader may add to a prompt after documents were split."""
_LEAST_PIECE = 20
"""Smallest piece of a document in characters."""

_TAG = re.compile(
    r"<(?=[\W_]{0,20}"
    r"(?:document|evidence|finding|instruction|passage|question|sentence|system)s?(?![a-z]))",
    re.IGNORECASE,
)

# Tokenizers of local models read these as control tokens, in this exact form only.
_CONTROL_TOKEN = re.compile(
    r"<(?=[|｜]|<?/?SYS>|/?(?:s|bos|eos|pad|unk)>|(?:start|end)_of_|/?(?:think|thought|tool_))"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    re.IGNORECASE,
)
# Unicode's Default_Ignorable_Code_Point: invisible characters that models still read.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render_documents(documents: Sequence[Document]) -> str:
    """Return the documents, each between tags with its key.

    The study type, year, title, section heading and list introduction come first.

    A text cannot close its own tag: imitations of tags and control tokens of chat templates are
    broken up, and invisible characters are removed.
    """
    return "\n".join(_document(document) for document in documents)


def render_passage(key: str, document: Document, text: str) -> str:
    """Return a part of a cited passage between tags, with the key of its citation."""
    return _tagged("passage", key, document, text)


def _document(document: Document) -> str:
    return _tagged("document", document_key(document), document, document.page_content.strip())


def _tagged(tag: str, key: str, document: Document, text: str) -> str:
    title = str(document.metadata.get("title") or "").strip()
    under = read_under(document, every_heading=True).rstrip(":")
    body = f"(Begins under: {under})\n{text}" if under and under != title else text
    body = f"{title}\n{body}" if title and title != text else body
    described = _description(document)
    about = f"{described}\n" if described else ""
    return f'<{tag} key="{key}">\n{about}{defuse(body)}\n</{tag}>'


def render_evidence(
    extraction: Extraction, documents: Mapping[str, Document], room: float = math.inf
) -> list[str]:
    """Return a partition's evidence: each quote with key, study type and year, then the finding.

    A quote follows its heading and list introduction. Each quote takes one line, so that no text of
    a document can look like another quote, a finding or a choice. Evidence longer than `room`, in
    characters, is returned in several texts.
    """
    quotes = [_quote(quote, documents[quote["document_id"]]) for quote in extraction["quotes"]]
    head, tail = f"<evidence reader={extraction['index'] + 1}>", ["</evidence>"]
    if extraction["confidence"] is not None:
        tail.insert(0, f"Confidence: {extraction['confidence']:.2f}")
    if extraction["choice"]:
        tail.insert(0, f"Choice: {extraction['choice']}")
    if extraction["finding"]:
        source = "" if quotes else " (no quote supports it)"
        tail.insert(0, f"Finding{source}: {_line(extraction['finding'])}")
    groups = group_to_fit(quotes, room - len("\n".join([head, "", *tail])))
    return ["\n".join([head, *group, *tail]) for group in groups]


def _quote(quote: Quote, document: Document) -> str:
    parts = [cite(document), _description(document)]
    if quote["start"] is not None:
        under = _line(read_under(document, quote["start"], every_heading=True).rstrip(":"))
        parts.append(f"(under: {under})" if under else "")
    return " ".join(filter(None, [*parts, f'"{_line(quote["text"])}"']))


def render_condensed(text: str) -> str:
    """Return condensed evidence between the same tags."""
    return f"<evidence condensed>\n{defuse(text.strip())}\n</evidence>"


def _description(document: Document) -> str:
    """Return the study type, year and status of a document in parentheses; empty if unknown."""
    metadata = document.metadata
    known = [kind_of_evidence(document), str(publication_year(document) or "")]
    known += ["RETRACTED"] if metadata.get("retracted") else []
    known += ["EXPRESSION OF CONCERN"] if metadata.get("expression_of_concern") else []
    described = _line(", ".join(part for part in known if part))
    return f"({described})" if described else ""


def _line(text: str) -> str:
    return " ".join(defuse(text).split())


def defuse(text: str) -> str:
    """Break up everything in a text that could look like a part of the prompt."""
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    return _CONTROL_TOKEN.sub(r"\g<0> ", _TAG.sub("(", text))


def room_for(
    model: Model, budget: CallBudget, prompt: Sequence[BaseMessage], *, least: int = LEAST_ROOM
) -> int | None:
    """Return the characters that still fit into a prompt; None if the window is unknown.

    Raises ModelCallError if fewer than `least` fit.
    """
    window = budget.max_input_tokens or model.max_input_tokens
    if window is None:
        return None
    room = int((window - min(RESERVED_TOKENS, window // 4)) * CHARACTERS_PER_TOKEN)
    room -= sum(len(message.text) for message in prompt)
    if room < least:
        raise ModelCallError(
            f"The input window of {model.name}, {window:,} tokens, has no room for the documents "
            "beside the question and the instructions. Use a model with a larger window, or "
            "correct max_input_tokens."
        )
    return room


def split_to_fit(documents: Sequence[Document], room: int | None) -> list[list[Document]]:
    """Group documents, in order, so that each group fits when rendered, and cut longer ones.

    A long document is halved repeatedly between sentences, or else between words. The pieces keep
    its id, key and title; `metadata["cut_at"]` is their offset and `list_lines` the introduction of
    their list. A document whose title alone is too long is a separate group.
    """
    if room is None:
        return [list(documents)]
    pieces = (piece for document in documents for piece in _pieces(document, room))
    return _grouped(pieces, lambda piece: len(render_documents([piece])), room)


def group_to_fit(texts: Sequence[str], room: float) -> list[list[str]]:
    """Group texts, in order, so that each group, joined by line breaks, fits into the room."""
    return _grouped(texts, len, room)


def _grouped(items: Iterable[T], size: Callable[[T], int], room: float) -> list[list[T]]:
    groups: list[list[T]] = [[]]
    taken = 0
    for item in items:
        if groups[-1] and taken + size(item) > room:
            groups.append([])
            taken = 0
        groups[-1].append(item)
        taken += size(item) + 1
    return groups


def _pieces(document: Document, room: int) -> Iterator[Document]:
    """Yield the document, or its pieces if it does not fit when rendered."""
    text, metadata = document.page_content, document.metadata
    before = str(metadata.get("list_lines") or "")
    said = str(metadata.get("title") or ""), read_under(document, every_heading=True)
    least = sum(map(len, said)) + _TAGS + _LEAST_PIECE
    if len(render_documents([document])) <= room or room < least or len(text) <= _LEAST_PIECE:
        yield document
        return
    middle = len(text) // 2
    ends = [end for _, end in split_sentences(text)[:-1]] or [text.rfind(" ", 1, middle + 1)]
    cut = max(min(ends, key=lambda end: abs(end - middle)), 0) or middle
    introduced = "\n".join(list_lines(before + text, len(before) + cut))
    for start, half, above in ((0, text[:cut], before), (cut, text[cut:], introduced)):
        place = {**metadata, CUT_AT: metadata.get(CUT_AT, 0) + start, "list_lines": above}
        piece = document.model_copy(update={"page_content": half, "metadata": place})
        yield from _pieces(piece, room)
