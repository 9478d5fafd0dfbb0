"""Splitting documents to fit a model's context window, without losing any of their text."""

from collections.abc import Iterator, Sequence

from langchain_core.documents import Document

from briefcontext.chains.model.call import CHARACTERS_PER_TOKEN, Model
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.render import render_documents
from briefcontext.errors import ModelCallError
from briefcontext.sentences import split_sentences

__all__ = ["group_to_fit", "room_for", "split_to_fit"]

RESERVED_TOKENS = 1024
"""Room for the reply, where the window counts input and output together."""
_TAGS = 60
"""Characters that a document's tags and the line breaks around them take, and some to spare."""
LEAST_ROOM = 200
"""Characters; a prompt with less room for documents is of no use."""
_LEAST_PIECE = 20
"""Characters; a text that has to be cut into smaller pieces cannot be read."""


def room_for(model: Model, budget: CallBudget, fixed: int) -> int | None:
    """Return how many characters fit into a prompt beside `fixed` others; None when the window is not known.

    Raises:
        ModelCallError: nothing of use would fit.
    """
    window = budget.max_input_tokens or model.max_input_tokens
    if window is None:
        return None
    room = int((window - min(RESERVED_TOKENS, window // 4)) * CHARACTERS_PER_TOKEN) - fixed
    if room < LEAST_ROOM:
        raise ModelCallError(
            f"The input window of {model.name}, {window:,} tokens, has no room for documents beside the question and "
            "the instructions. Use a model with a larger window, or correct max_input_tokens."
        )
    return room


def split_to_fit(documents: Sequence[Document], room: int | None) -> list[list[Document]]:
    """Group documents, in order, so that each group fits when rendered; cut those that alone are too long.

    A document is cut between sentences where that is possible, else between words. The pieces keep its id, key and
    title.

    Raises:
        ModelCallError: a document's title alone leaves no room for its text.
    """
    if room is None:
        return [list(documents)]
    groups: list[list[Document]] = [[]]
    taken = 0
    for piece in (piece for document in documents for piece in _pieces(document, room, room)):
        size = len(render_documents([piece])) + 1
        if groups[-1] and taken + size > room:
            groups.append([])
            taken = 0
        groups[-1].append(piece)
        taken += size
    return groups


def group_to_fit(texts: Sequence[str], room: int) -> list[list[str]]:
    """Group texts, in order, so that those of a group, a line break between them, fit into the room."""
    groups: list[list[str]] = [[]]
    for text in texts:
        if groups[-1] and sum(len(other) + 1 for other in groups[-1]) + len(text) > room:
            groups.append([])
        groups[-1].append(text)
    return groups


def _pieces(document: Document, room: int, most: int) -> Iterator[Document]:
    """Yield the document, or pieces of at most `most` characters, and less where that does not fit when rendered."""
    if len(render_documents([document])) <= room:
        yield document
        return
    title = str(document.metadata.get("title") or "")
    most = min(most, room - len(title) - _TAGS)
    if most < _LEAST_PIECE:
        raise ModelCallError(
            f"Document {document.id} does not fit into the model's input window, however it is cut: its title takes "
            f"{len(title):,} of {room:,} characters. Use a model with a larger window."
        )
    text = document.page_content
    for start, end in _spans(text, most):
        yield from _pieces(document.model_copy(update={"page_content": text[start:end]}), room, most // 2)


def _spans(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield spans of whole sentences, as many as make up at most `most` characters."""
    start = end = None
    for first, last in _cuts(text, most):
        if start is not None and end is not None and last - start > most:
            yield start, end
            start = None
        start, end = first if start is None else start, last
    if start is not None and end is not None:
        yield start, end


def _cuts(text: str, most: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the sentences; those longer than `most` in parts, cut between words if there are any."""
    for start, end in split_sentences(text):
        while end - start > most:
            space = text.rfind(" ", start + 1, start + most + 1)
            cut = start + most if space < 0 else space
            yield start, cut
            start = cut
        yield start, end
