"""The map step: extract the passages of a partition that bear on the question."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, Self

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from briefcontext.chains.citation import document_key
from briefcontext.chains.context import MOST_ADDED, render_documents, room_for
from briefcontext.chains.model.call import Model, Reply, Request
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.model.reply import cut_warning, read_record
from briefcontext.chains.parsing.choice import named_option
from briefcontext.chains.parsing.grounding import ground, in_whole_sentences
from briefcontext.chains.question import Question
from briefcontext.chains.reader import NOTHING_USED, Extraction, Quote, distinct, extraction_of
from briefcontext.errors import ModelCallError, first_line, problems

_AS_ASKED = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})
"""The schema for the provider forbids extra fields; extra fields in a reply are ignored."""


_MARKS = re.compile('["“”«»]')
_LEAST_PIECE = 20
"""Smallest length, in characters, of words in quotation marks that may be a quote."""


class _KeyedQuote(BaseModel):
    model_config = _AS_ASKED

    key: str
    quote: str


class _Record(BaseModel):
    """What the documents say on the question."""

    model_config = _AS_ASKED

    relevant: bool
    quotes: list[_KeyedQuote]
    finding: str
    choice: str | None
    confidence: float | None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fill in missing fields, and replace null by the default."""
        left_out: dict[str, Any] = {"quotes": [], "finding": "", "choice": None, "confidence": None}
        given = (
            {name: value for name, value in data.items() if value is not None}
            if isinstance(data, dict)
            else None
        )
        return data if given is None else {**left_out, **given}

    @field_validator("quotes", mode="before")
    @classmethod
    def _with_or_without_keys(cls, given: Any) -> Any:
        """Accept quotes without keys, because their place is looked up anyway."""
        quotes = given if isinstance(given, list) else []
        return [
            {"key": "", **quote} if isinstance(quote, dict) else {"key": "", "quote": quote}
            for quote in quotes
        ] or given

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.relevant and not (self.quotes or self.finding.strip()):
            raise ValueError("relevant is true, and there is neither a quote nor a finding")
        return self

    @field_validator("confidence", mode="before")
    @classmethod
    def _share(cls, given: Any) -> float | None:
        """Convert percentages to shares, and words to None."""
        try:
            number = float(str(given).rstrip("% "))
        except ValueError:
            return None
        share = number / 100 if 1 < number <= 100 else number
        return share if 0 <= share <= 1 else None


@lru_cache(64)
def _record(letters: tuple[str, ...]) -> type[BaseModel]:
    """Return the schema of the record, whose choice is one of the letters."""
    choice: Any = Literal[letters] | None if letters else None
    return create_model(
        "extraction", __base__=_Record, __doc__=_Record.__doc__, choice=(choice, ...)
    )


async def extract(
    model: Model, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
) -> Extraction:
    """Extract from one partition in one call, or two if the first reply is malformed.

    Raises:
        ModelCallError: A call failed for good, both replies were cut off at the beginning, or the
            partition exceeds the model's input window (see `split_to_fit`).
    """
    record = _record(tuple(question["options"]))

    async def ask(messages: Sequence[BaseMessage]) -> Reply:
        return await model.ask(Request("extract", messages, record, index), budget)

    def parsed(reply: Reply) -> Extraction:
        found = _Record.model_validate(
            read_record(reply.text, "relevant", cut_off=reply.cut is not None)
        )
        return _extraction(found, question, documents, index)

    messages = extract_prompt(model, question, documents)
    room_for(model, budget, messages, least=-MOST_ADDED)
    first = await ask(messages)
    try:
        return parsed(first)
    except ValueError as error:
        repair = model.prompts.render("repair", question["text"], {}, error=_reason(error, first))
    # Providers reject empty messages.
    second = await ask([*messages, *([AIMessage(first.text)] if first.text else []), *repair])
    try:
        return parsed(second)
    except ValueError as error:
        text = second.text or first.text
        if not text and second.cut:
            raise ModelCallError(cut_warning(second.cut, f"The reply of {model.name}")) from None
        # The model's words may be relevant, but only those found in a document support the finding.
        pieces = (
            []
            if second.cut
            else [piece for piece in _MARKS.split(text) if len(piece) >= _LEAST_PIECE]
        )
        quotes, _ = ground_all([("", piece) for piece in pieces], documents)
        kept = (
            "only the documents' words in it are used"
            if quotes
            else "its text is kept as a finding without quotes"
        )
        said = f"The reply was not of the form asked for ({_reason(error, second)}); {kept}."
        finding = "" if quotes else text.strip()
        return extraction_of(
            index, documents, "evidence", finding=finding, quotes=quotes, error=said
        )


def extract_prompt(
    model: Model, question: Question, documents: Sequence[Document]
) -> list[BaseMessage]:
    """Return the prompt that extracts from documents."""
    context = render_documents(documents)
    return model.prompts.render("extract", question["text"], question["options"], documents=context)


def _reason(error: ValueError, reply: Reply) -> str:
    if reply.cut:
        return f"it was cut off by {reply.cut}, and has to be shorter"
    if isinstance(error, ValidationError):
        return problems(error)
    return first_line(error)[:200]


def _extraction(
    record: _Record, question: Question, documents: Sequence[Document], index: int
) -> Extraction:
    given = [(quote.key, quote.quote) for quote in record.quotes]
    quotes, lost = ground_all(given, documents)
    error = lost_quotes(lost, len(given))
    if lost and not quotes:
        error = f"{error} {NOTHING_USED}"
    if not record.relevant or (lost and not quotes):
        return extraction_of(index, documents, "none", confidence=record.confidence, error=error)
    return extraction_of(
        index,
        documents,
        "evidence",
        finding=record.finding.strip(),
        quotes=quotes,
        choice=named_option(record.choice, question["options"]) if record.choice else None,
        confidence=record.confidence,
        error=error
        if given
        else "The finding comes without a quote, so that it cannot be checked.",
    )


def ground_all(
    given: Sequence[tuple[str, str]], documents: Sequence[Document]
) -> tuple[list[Quote], int]:
    """Locate quotes, given with the keys that the reader assigned.

    Returns:
        The located quotes, in whole sentences and each once, and the number of lost quotes.
    """
    ids = {document_key(document): str(document.id) for document in documents}
    found = [ground(quote, documents, preferred=ids.get(key.strip(" []"))) for key, quote in given]
    return distinct(in_whole_sentences(quote, documents) for quote in found if quote), found.count(
        None
    )


def lost_quotes(lost: int, given: int) -> str | None:
    """Return a message on the lost quotes, or None."""
    return f"{lost} of {given} quotes are not in the documents and were dropped." if lost else None
