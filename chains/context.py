"""The context of a prompt: documents and evidence, delimited, unable to break out, and cut to fit the window."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from briefcontext.chains.citation import cite, document_key, publication_year
from briefcontext.chains.model.call import CHARACTERS_PER_TOKEN, Model
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.place import read_under
from briefcontext.chains.reader import CUT_AT, Extraction, Quote
from briefcontext.errors import ModelCallError
from briefcontext.knowledge.sentences import list_lines, split_sentences
from briefcontext.knowledge.study_type import kind_of_evidence

T = TypeVar("T")

RESERVED_TOKENS = 1024
"""Room for the reply, where the window counts input and output together."""
_TAGS = 60
"""Characters that a document's tags and the line breaks around them take, and some to spare."""
LEAST_ROOM = 200
"""Characters; a prompt with less room for documents is of no use."""
MOST_ADDED = 500
"""Characters that a reader may add to a prompt after documents were divided: the room for the reply bears them."""
_LEAST_PIECE = 20
"""Characters; no smaller piece is cut."""

_TAG = re.compile(
    r"<(?=[\W_]{0,20}"
    r"(?:document|evidence|finding|instruction|passage|question|sentence|system)s?(?![a-z]))",
    re.IGNORECASE,
)

# Tokenizers of local models read these as control tokens wherever they stand, and only in this
# exact form.
_CONTROL_TOKEN = re.compile(
    r"<(?=[|｜]|<?/?SYS>|/?s>|/?(?:bos|eos|pad|unk)>|(?:start|end)_of_|/?(?:think|thought|tool_)|unused\d)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    re.IGNORECASE,
)
# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties): characters that no one sees and
# models read.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render_documents(documents: Sequence[Document]) -> str:
    """Return the documents one after another, each between tags of which the first has its key.

    Its study type, year and title come first, and what it begins under: the heading of its section,
    and what introduces its list.

    A text cannot close its own tag: what looks like one of our tags, or is a control token of a
    chat template, is broken up, and characters that cannot be seen are left out.
    """
    return "\n".join(_document(document) for document in documents)


def render_passage(key: str, document: Document, text: str) -> str:
    """Return a cited passage between tags, with the key of its citation and a part of its text."""
    return _tagged("passage", key, document, text)


def _document(document: Document) -> str:
    return _tagged("document", document_key(document), document, document.page_content.strip())


def _tagged(tag: str, key: str, document: Document, text: str) -> str:
    title = str(document.metadata.get("title") or "").strip()
    under = read_under(document, every_heading=True)
    body = (
        f"(Begins under: {under.rstrip(':')})\n{text}"
        if under and under.rstrip(":") != title
        else text
    )
    body = f"{title}\n{body}" if title and title != text else body
    about = f"{described}\n" if (described := _description(document)) else ""
    return f'<{tag} key="{key}">\n{about}{defuse(body)}\n</{tag}>'


def render_evidence(
    extraction: Extraction, documents: Mapping[str, Document], room: float = math.inf
) -> list[str]:
    """Return a partition's evidence: each quote with its document's key, study type and year, then the finding.

    A quote has what it stands under before it. Each takes one line, so that words of a document
    cannot pass for another quote, a finding or a choice.

    Args:
        extraction: one with evidence.
        documents: keyed ones, by their ids.
        room: characters; what exceeds it is returned in several texts, each with a part of the
            quotes.
    """
    ids = {quote["document_id"] for quote in extraction["quotes"]}
    labels = {id: f"{cite(documents[id])} {_description(documents[id])}".rstrip() for id in ids}
    quotes = [
        " ".join(
            [labels[quote["document_id"]], *_under(quote, documents), f'"{_line(quote["text"])}"']
        )
        for quote in extraction["quotes"]
    ]
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


def _under(quote: Quote, documents: Mapping[str, Document]) -> list[str]:
    if quote["start"] is None:
        return []
    under = read_under(documents[quote["document_id"]], quote["start"], every_heading=True)
    return [f"(under: {_line(under.rstrip(':'))})"] if under else []


def render_condensed(text: str) -> str:
    """Return evidence that a model has condensed, between the same tags."""
    return f"<evidence condensed>\n{defuse(text.strip())}\n</evidence>"


def _description(document: Document) -> str:
    """Return in brackets what weighs a document: study type, year, and what became of it; empty where none is known."""
    metadata = document.metadata
    known = [kind_of_evidence(document), str(publication_year(document) or "")]
    known += ["RETRACTED"] if metadata.get("retracted") else []
    known += ["EXPRESSION OF CONCERN"] if metadata.get("expression_of_concern") else []
    described = _line(", ".join(part for part in known if part))
    return f"({described})" if described else ""


def _line(text: str) -> str:
    return " ".join(defuse(text).split())


def defuse(text: str) -> str:
    """Take from a text what could pass for a part of the prompt, and leave its words."""
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    return _CONTROL_TOKEN.sub(r"\g<0> ", _TAG.sub("(", text))


def room_for(
    model: Model, budget: CallBudget, prompt: Sequence[BaseMessage], *, least: int = LEAST_ROOM
) -> int | None:
    """Return how many characters fit into a prompt beside those it has; None when the window is not known.

    Raises:
        ModelCallError: fewer than `least` would fit.
    """
    window = budget.max_input_tokens or model.max_input_tokens
    if window is None:
        return None
    room = int((window - min(RESERVED_TOKENS, window // 4)) * CHARACTERS_PER_TOKEN) - sum(
        len(message.text) for message in prompt
    )
    if room < least:
        raise ModelCallError(
            f"The input window of {model.name}, {window:,} tokens, has no room for the documents "
            f"beside the question "
            "and the instructions. Use a model with a larger window, or correct max_input_tokens."
        )
    return room


def split_to_fit(documents: Sequence[Document], room: int | None) -> list[list[Document]]:
    """Group documents, in order, so that each group fits when rendered; cut those that alone are too long.

    A document is cut in halves, and those again, between sentences where there are several, else
    between words. The pieces keep its id, key and title, and have their places in its text in
    `metadata["cut_at"]`, and what introduces their list in `list_lines`. One that does not fit
    however it is cut, as its title is too long, is a group of its own.
    """
    if room is None:
        return [list(documents)]
    pieces = (piece for document in documents for piece in _pieces(document, room))
    return _grouped(pieces, lambda piece: len(render_documents([piece])), room)


def group_to_fit(texts: Sequence[str], room: float) -> list[list[str]]:
    """Group texts, in order, so that those of a group, a line break between them, fit into the room."""
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
    """Yield the document, or the pieces of its halves where it does not fit when rendered."""
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
        yield from _pieces(
            document.model_copy(update={"page_content": half, "metadata": place}), room
        )
