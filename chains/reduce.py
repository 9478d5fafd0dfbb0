"""The reduce step: one answer from the evidence of the partitions."""

from collections.abc import Mapping, Sequence

from langchain_core.documents import Document

from briefcontext.chains.ask_for_answer import ask_for_answer
from briefcontext.chains.citation import cite, source_id
from briefcontext.chains.extraction import Extraction
from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.context_window import group_to_fit, room_for
from briefcontext.chains.model.event_loop import together
from briefcontext.chains.model.finish_reason import cut_warning
from briefcontext.chains.parsing.answer_parser import parse_draft
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft
from briefcontext.chains.render import render_condensed, render_evidence
from briefcontext.errors import ModelCallError
from briefcontext.sentences import split_sentences

__all__ = ["reduce"]

MAX_ROUNDS = 5
"""How often evidence may be condensed before it has to fit."""

_NOT_WEIGHED = "A single partition has evidence, and its finding is the answer: no second call weighed it."
_HIDDEN = ("nostream",)


async def reduce(
    model: Model,
    question: Question,
    documents: Sequence[Document],
    extractions: Sequence[Extraction],
    budget: CallBudget,
) -> Draft:
    """Answer from the partitions that have evidence, in one call (ContextReduce), or in none from a sole finding.

    Evidence that exceeds the model's input window is condensed first: in groups that fit, each by one call, and
    again until all of it fits. The quotes behind it stay what they are.

    Raises:
        ModelCallError: condensing does not make it fit, or a reply to it was cut off.
    """
    forced = budget.force_choice and bool(question["options"])
    by_id = {str(document.id): document for document in documents}
    evidence = [extraction for extraction in extractions if extraction["status"] == "evidence"]
    if budget.reduce == "auto" and not forced and (draft := _sole_finding(question, by_id, evidence)):
        return draft
    empty = model.prompts.render("reduce", question["text"], question["options"], may_abstain=not forced, evidence="")
    room = room_for(model, budget, sum(len(message.text) for message in empty))
    texts = [text for extraction in evidence for text in _texts(extraction, by_id, room)]
    texts = texts or ["No reader found any evidence."]
    rounds = 0
    while room is not None and len("\n".join(texts)) > room:
        rounds += 1
        texts = await _condense(model, question, texts, room, rounds, budget)
    messages = model.prompts.render(
        "reduce", question["text"], question["options"], may_abstain=not forced, evidence="\n".join(texts)
    )
    reply, warnings = await ask_for_answer(model, question, "reduce", messages, budget)
    quotes = [quote for extraction in evidence for quote in extraction["quotes"]]
    if rounds:
        warnings.append(f"The evidence exceeds the model's input window and was condensed; rounds: {rounds}.")
    return parse_draft(reply.text, question, quotes, warnings, forced=forced, cut=reply.cut)


def _sole_finding(
    question: Question, documents: Mapping[str, Document], evidence: Sequence[Extraction]
) -> Draft | None:
    """Return the finding of the only partition with evidence as an answer; None where there is something to weigh.

    Several sentences may rest on several quotes, and several articles may contradict each other. Of an extraction with
    an error, a quote was dropped or a part not read.
    """
    if len(evidence) != 1 or evidence[0]["error"] or (question["options"] and not evidence[0]["choice"]):
        return None
    finding = " ".join(evidence[0]["finding"].split())
    cited = [documents[quote["document_id"]] for quote in evidence[0]["quotes"]]
    one_sentence = finding.endswith(".") and len(split_sentences(finding)) == 1
    if not one_sentence or len({source_id(document) for document in cited}) != 1:
        return None
    keys = "".join(dict.fromkeys(map(cite, cited)))
    return Draft(
        text=f"{finding.removesuffix('.')} {keys}.",
        choice=evidence[0]["choice"],
        conflict=None,
        quotes=evidence[0]["quotes"],
        abstained=False,
        warnings=[_NOT_WEIGHED],
    )


def _texts(extraction: Extraction, documents: Mapping[str, Document], room: int | None) -> list[str]:
    """Return an extraction's evidence; what exceeds the room in several texts, each with a part of the quotes."""
    text = render_evidence(extraction, documents)
    quotes = extraction["quotes"]
    if room is None or len(text) <= room or len(quotes) < 2:
        return [text]
    half = len(quotes) // 2
    parts = (Extraction(**{**extraction, "quotes": part}) for part in (quotes[:half], quotes[half:]))
    return [text for part in parts for text in _texts(part, documents, room)]


async def _condense(
    model: Model, question: Question, texts: Sequence[str], room: int, rounds: int, budget: CallBudget
) -> list[str]:
    if rounds > MAX_ROUNDS or max(map(len, texts)) > room:
        raise ModelCallError(
            f"The evidence does not fit into the input window of {model.name}; rounds of condensing: {rounds - 1}. "
            "Use a model with a larger window for the answer, or retrieve fewer documents."
        )
    prompts = [
        model.prompts.render("condense", question["text"], {}, evidence="\n".join(group))
        for group in group_to_fit(texts, room)
    ]
    replies = await together(model.ask(Request("reduce", prompt, tags=_HIDDEN), budget) for prompt in prompts)
    for reply in replies:
        if reply.cut:  # What is missing is evidence, and nobody could tell which.
            raise ModelCallError(cut_warning(reply.cut, "Condensed evidence"))
    return [render_condensed(reply.text) for reply in replies]
