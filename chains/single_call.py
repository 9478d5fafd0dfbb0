"""Answering in one call over all documents."""

from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage

from briefcontext.chains.ask_for_answer import ask_for_answer
from briefcontext.chains.extract import extract, ground_all, lost_quotes
from briefcontext.chains.model.call import Model
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.context_window import room_for
from briefcontext.chains.parsing.answer_parser import parse_draft, split_quotes
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft
from briefcontext.chains.reduce import reduce
from briefcontext.chains.render import render_documents
from briefcontext.prompts import Prompts

__all__ = ["answer", "answer_prompt"]


def answer_prompt(
    prompts: Prompts, question: Question, documents: Sequence[Document], *, forced: bool = False
) -> list[BaseMessage]:
    """Return the prompt that reads all documents at once, in the order given."""
    context = render_documents(documents)
    return prompts.render("answer", question["text"], question["options"], may_abstain=not forced, documents=context)


async def answer(
    model: Model, worker: Model, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget
) -> Draft:
    """Answer in one call; when the documents exceed the model's input window, extract and reduce instead."""
    forced = budget.force_choice and bool(question["options"])
    fixed = sum(len(message.text) for message in answer_prompt(model.prompts, question, [], forced=forced))
    room = room_for(model, budget, fixed)
    if room is not None and len(render_documents(documents)) > room:
        extraction = await extract(worker, question, documents, 0, budget)
        draft = await reduce(model, question, documents, [extraction], budget)
        said = ["The documents exceed the model's input window, so they were read in parts.", extraction["error"]]
        draft["warnings"] += filter(None, said)
        return draft
    messages = answer_prompt(model.prompts, question, documents, forced=forced)
    reply, warnings = await ask_for_answer(model, question, stage, messages, budget)
    body, given = split_quotes(reply.text)
    quotes, lost = ground_all(given, documents, budget.min_quote_similarity)
    warnings += filter(None, [lost_quotes(lost, len(given))])
    return parse_draft(body, question, quotes, warnings, forced=forced, cut=reply.cut)
