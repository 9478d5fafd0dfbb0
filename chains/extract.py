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
from briefcontext.chains.context import MAX_ADDED, render_documents, room_for
from briefcontext.chains.model.call import Model, Reply, Request
from briefcontext.chains.model.reply import cut_warning, read_record
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.parsing.answer_parser import named_option
from briefcontext.chains.parsing.grounding import ground, in_whole_sentences
from briefcontext.chains.question import Question
from briefcontext.chains.reader import NOTHING_USED, Extraction, Quote, distinct, extraction_of
from briefcontext.errors import ModelCallError, first_line, problems

AS_ASKED = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})
"""The schema for the provider forbids extra fields; extra fields in a reply are ignored."""
_SHORTEST_QUOTE = 20
"""Characters between two quotation marks that may be a quote."""


class _KeyedQuote(BaseModel):
    model_config = AS_ASKED

    key: str
    quote: str


class _Record(BaseModel):
    """What the documents say on the question."""

    model_config = AS_ASKED

    relevant: bool
    quotes: list[_KeyedQuote]
    finding: str
    choice: str | None
    confidence: float | None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Fill in fields that are missing or null, and keys of quotes.

        The place of a quote is looked up anyway.
        """
        defaults: dict[str, Any] = {"quotes": [], "finding": "", "choice": None, "confidence": None}
        fields = defaults | {name: value for name, value in data.items() if value is not None}
        if isinstance(fields["quotes"], list):
            quotes = [
                {"quote": each} if isinstance(each, str) else each for each in fields["quotes"]
            ]
            fields["quotes"] = [
                {"key": "", **each} if isinstance(each, dict) else each for each in quotes
            ]
        return fields

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

    Raises ModelCallError if a call failed for good, both replies were cut off at the beginning, or
    the partition exceeds the model's input window (see `split_to_fit`).
    """
    record = _record(tuple(question["options"]))

    async def ask(messages: Sequence[BaseMessage]) -> Reply:
        return await model.ask(Request("extract", messages, record, index), budget)

    messages = extract_prompt(model, question, documents)
    room_for(model, budget, messages, least=-MAX_ADDED)
    first = await ask(messages)
    try:
        return _read(first, question, documents, index)
    except ValueError as error:
        repair = model.prompts.render("repair", question["text"], {}, error=_reason(error, first))
    # Providers reject empty messages.
    second = await ask([*messages, *([AIMessage(first.text)] if first.text else []), *repair])
    try:
        return _read(second, question, documents, index)
    except ValueError as error:
        text = second.text or first.text
        if not text and second.cut:
            raise ModelCallError(cut_warning(second.cut, f"The reply of {model.name}")) from None
        # Words that a document contains are evidence; the model's other words are not.
        pieces = [] if second.cut else re.split('["“”«»]', text)
        quoted = [("", piece) for piece in pieces if len(piece) >= _SHORTEST_QUOTE]
        quotes, _ = ground_all(quoted, documents)
        kept = "its quotes are kept" if quotes else "its text is kept as a finding without quotes"
        return extraction_of(
            index,
            documents,
            "evidence",
            finding="" if quotes else text.strip(),
            quotes=quotes,
            error=f"The reply was not of the form asked for ({_reason(error, second)}); {kept}.",
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


def _read(
    reply: Reply, question: Question, documents: Sequence[Document], index: int
) -> Extraction:
    """Return the extraction of a reply. Raises ValueError if it has no record."""
    fields = read_record(reply.text, "relevant", cut_off=reply.cut is not None)
    record = _Record.model_validate(fields)
    given = [(quote.key, quote.quote) for quote in record.quotes]
    quotes, lost = ground_all(given, documents)
    error = lost_quotes(lost, len(given))
    if lost and not quotes:
        error = f"{error} {NOTHING_USED}"
    if not record.relevant or (lost and not quotes):
        return extraction_of(index, documents, "none", confidence=record.confidence, error=error)
    if not given:
        error = "The finding comes without a quote, so that it cannot be checked."
    return extraction_of(
        index,
        documents,
        "evidence",
        finding=record.finding.strip(),
        quotes=quotes,
        choice=named_option(record.choice, question["options"]) if record.choice else None,
        confidence=record.confidence,
        error=error,
    )


def ground_all(
    given: Sequence[tuple[str, str]], documents: Sequence[Document]
) -> tuple[list[Quote], int]:
    """Locate quotes, given with their keys; return them, each once, and the number of lost ones.

    They are widened to whole sentences.
    """
    ids = {document_key(document): str(document.id) for document in documents}
    found = [ground(quote, documents, preferred=ids.get(key.strip(" []"))) for key, quote in given]
    quotes = distinct(in_whole_sentences(quote, documents) for quote in found if quote)
    return quotes, found.count(None)


def lost_quotes(lost: int, given: int) -> str | None:
    """Return a message on the lost quotes, or None."""
    return f"{lost} of {given} quotes are not in the documents and were dropped." if lost else None
