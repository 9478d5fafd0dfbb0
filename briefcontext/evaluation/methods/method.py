"""The methods that are compared: each turns a reading into an outcome."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.documents import Document

from briefcontext.chains.answer import Answer
from briefcontext.chains.citation import MARK, assign_keys
from briefcontext.chains.context import render_documents, room_for, split_to_fit
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.parsing.answer_parser import parse_draft, read_reply
from briefcontext.chains.question import Question, check_question
from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.methods.models import RunModels, refuse_unread
from briefcontext.graphs.nodes import IN_PARTS
from briefcontext.graphs.settings import IOU, Settings

VANILLA = "vanilla"


@dataclass(frozen=True)
class Reading:
    """A question with the documents that every method gets."""

    item: Item
    documents: Sequence[Document] = ()
    retrieved: bool = False
    """True if it is the corpus's own ranking, which the graph then retrieves."""
    fused: Sequence[Document] = ()
    """The corpus ranked by reciprocal rank fusion, for `hybrid`."""
    key_documents: Sequence[Document] = ()
    """The documents with the answer, for `oracle`."""
    whole: Sequence[Document] = ()
    """The long document, for `long_context` and `self_route`."""


@dataclass(frozen=True)
class Outcome:
    """A method's answer."""

    text: str
    """The answer without choice, quotes and citation marks."""
    route: str = ""
    iou: float | None = None
    partition_choices: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Option letter to the partitions that chose it."""
    partitions: int = 0
    """Number of partitions read; 0 on other routes."""
    partitions_without_choice: int = 0
    truncated: bool = False
    """True if text was left out because it did not fit into the model's window."""
    in_parts: bool = False
    """True if documents did not fit into one call and were read in parts."""
    failed_calls: int = 0
    choice: str | None = None
    abstained: bool = False


HYBRID = Settings.model_fields["retrieval"].default
Need = Literal["documents", "fused", "key_documents", "whole"]
Run = Callable[[Reading, RunModels, Settings], Awaitable[Outcome]]

_MARKS = re.compile(rf"\s*{MARK}")


@dataclass(frozen=True)
class Method:
    """One way to answer."""

    name: str
    title: str
    need: Need | None
    """The documents that it reads, if any."""
    run: Run
    constant: bool = False
    """True if it does not see the ranking; it is then run once for a question."""


def _graph(kind: Need, **settings: Any) -> Run:

    async def run(reading: Reading, models: RunModels, base: Settings) -> Outcome:
        documents = getattr(reading, kind)
        # An arranged ranking is read as it is, with retracted articles.
        changed = {"top_k": len(documents), "include_retracted": True, **settings}
        changed["verify"] = False
        # A calibration fits one ranking and k; a forced route needs none.
        changed |= {} if settings["route"] == "auto" else {"preflight": IOU, "retrieval": HYBRID}
        asked: dict[str, Any] = {
            "question": reading.item.question,
            "options": dict(reading.item.options),
        }
        if kind != "documents" or not reading.retrieved:
            asked["documents"] = list(documents)
        result = await models.graph.ainvoke(asked, context=base.model_copy(update=changed))
        return _from_answer(result["answer"])

    return run


def _from_answer(answer: Answer) -> Outcome:
    refuse_unread(answer["extractions"])
    return Outcome(
        choice=answer["choice"],
        text=_MARKS.sub("", answer["text"]).strip(),
        route=answer["route"],
        abstained=answer["abstained"],
        iou=answer["preflight"]["iou"],
        partition_choices=(answer["conflict"] or {"choices": {}})["choices"],
        partitions=len(answer["extractions"]),
        partitions_without_choice=sum(
            not extraction["choice"] for extraction in answer["extractions"]
        ),
        failed_calls=answer["usage"]["failed_calls"],
        in_parts=any(each["kind"] == IN_PARTS for each in answer["notes"]),
    )


async def _closed_book(reading: Reading, models: RunModels, settings: Settings) -> Outcome:
    question, budget = _asked(reading), settings.budget()
    output = await models.ask("closed_book", question, budget)
    return _from_words(models, output, question, budget, route="closed_book")


async def _long_context(reading: Reading, models: RunModels, settings: Settings) -> Outcome:
    question, budget = _asked(reading), settings.budget()
    ask = {"may_abstain": not models.forced(question)}
    room = room_for(
        models.model, budget, models.prompt("long_context", question, documents="", **ask)
    )
    context, truncated = _fitted(reading.whole[0], question, room)
    output = await models.ask("long_context", question, budget, documents=context, **ask)
    return _from_words(models, output, question, budget, route="long_context", truncated=truncated)


async def _self_route(reading: Reading, models: RunModels, settings: Settings) -> Outcome:
    """Read the passages, and the whole document if they do not answer (Li et al. 2024)."""
    question, budget = _asked(reading), settings.budget()
    documents = assign_keys(question["text"], reading.documents)
    room = room_for(models.model, budget, models.prompt("self_route", question, documents=""))
    fitting, *beyond = split_to_fit(documents, room)
    passages = render_documents(fitting)
    room_for(
        models.model, budget, models.prompt("self_route", question, documents=passages), least=0
    )
    output = await models.ask("self_route", question, budget, documents=passages)
    if "UNANSWERABLE" not in output.upper():
        return _from_words(
            models, output, question, budget, route="self_route", truncated=bool(beyond)
        )
    whole = await _long_context(reading, models, settings)
    return replace(whole, truncated=whole.truncated or bool(beyond))


def _fitted(whole: Document, question: Question, room: int | None) -> tuple[str, bool]:
    """Return the document as in the prompt, its middle cut out if it exceeds the window."""
    (keyed,) = assign_keys(question["text"], [whole])
    context = render_documents([keyed])
    if room is None or len(context) <= room:
        return context, False
    kept = max(1, len(whole.page_content) - (len(context) - room))
    head, tail = (kept + 1) // 2, kept // 2
    text = whole.page_content
    cut = keyed.model_copy(update={"page_content": text[:head] + text[len(text) - tail :]})
    return render_documents([cut]), True


def _from_words(
    models: RunModels,
    output: str,
    question: Question,
    budget: CallBudget,
    *,
    route: str,
    truncated: bool = False,
) -> Outcome:
    draft = parse_draft(read_reply(output), question, [], [], forced=models.forced(question))
    return Outcome(
        text=draft["text"],
        choice=draft["choice"],
        route=route,
        abstained=draft["abstained"],
        truncated=truncated,
        failed_calls=sum(call["status"] == "failed" for call in budget.calls),
    )


def _asked(reading: Reading) -> Question:
    return check_question(reading.item.question, dict(reading.item.options))


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("closed_book", "Closed book", None, _closed_book, constant=True),
        Method(VANILLA, "Vanilla RAG", "documents", _graph("documents", route="vanilla")),
        Method(
            "oracle",
            "Oracle",
            "key_documents",
            _graph("key_documents", route="vanilla"),
            constant=True,
        ),
        Method("briefcontext", "BriefContext", "documents", _graph("documents", route="auto")),
        Method("map_reduce", "Map-reduce", "documents", _graph("documents", route="map_reduce")),
        Method(
            "order_preserving", "OP-RAG", "documents", _graph("documents", route="order_preserving")
        ),
        Method("hybrid", "Hybrid RAG", "fused", _graph("fused", route="vanilla")),
        Method("long_context", "Long context", "whole", _long_context, constant=True),
        Method("self_route", "Self-Route", "whole", _self_route),
    )
}


def methods(names: Sequence[str]) -> list[Method]:
    """Return methods by their names, each once. Raises InputError for an unknown name."""
    for name in names:
        if name not in METHODS:
            raise InputError(f"There is no method {name!r}. There are: {', '.join(METHODS)}.")
    return [METHODS[name] for name in dict.fromkeys(names)]
