"""Cautions on what was asked and is not in what the answer cites."""

from langchain_core.documents import Document

from briefcontext.chains.answer import Answer
from briefcontext.chains.sentence_check import unmentioned_names
from briefcontext.graphs.state import State
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.sentence_ranking import UNNAMED, lacks_dose, unmentioned

CITED_UNMENTIONED = "Not mentioned {where}. Check that the passages are about what you asked."
WITHOUT_DOSE = "You asked for a dose, and none of these sentences names one."
ONE_AT_A_TIME = "You asked several questions, and these sentences may answer one of them only. Ask one at a time."
MUCH_UNMENTIONED = 0.4
"""The share of a question that a passage cited must leave out for a caution; chosen on one half of the questions of
`benchmarks/extractive.py`."""


def find_cautions(state: State, answer: Answer, statistics: TermStatistics | None, *, without_model: bool) -> list[str]:
    """Return cautions on an answer, by the question that it was asked.

    Args:
        statistics: of the terms of what was searched; None where nothing was.
        without_model: whether its sentences are only copied.
    """
    copied = _of_sentences(state["asked"]["text"], answer) if without_model else []
    return [*copied, *_unmentioned(state, answer, statistics, without_model=without_model)]


def _unmentioned(state: State, answer: Answer, statistics: TermStatistics | None, *, without_model: bool) -> list[str]:
    """Name what was asked and is not in what is cited: in a passage that is copied, in all that a model cites.

    Names are looked for in either; other words where no model has read them.
    """
    asked, by_id = state["asked"], {str(document.id): document for document in state["ranking"]}
    cited = {citation["key"]: by_id[citation["document_id"]] for citation in answer["citations"]}
    missing: dict[str, str] = {}
    for keys in [[key] for key in cited] if without_model else [list(cited)]:
        documents = [cited[key] for key in keys]
        words, share = unmentioned(asked["text"], documents, statistics) if without_model else ([], 0.0)
        words = words if share >= MUCH_UNMENTIONED else []
        # What a model says of a name is checked in its sentence; and no passage has all names of a vignette.
        said = [] if without_model else [Document(page_content=answer["text"])]
        names = [] if asked["options"] or not keys else unmentioned_names(asked["text"], [*documents, *said])
        known = UNNAMED | {word.lower() for word in words}
        if words := [*words, *(name for name in names if name.lower() not in known)]:
            named = ", ".join(words)
            missing[named] = missing.get(named, "") + f"[{']['.join(keys)}]"
    where = "; ".join(f"in {keys}: {words}" for words, keys in missing.items())
    return [CITED_UNMENTIONED.format(where=where)] if where else []


def _of_sentences(question: str, answer: Answer) -> list[str]:
    """Say what sentences that are only copied leave open."""
    cautions = [ONE_AT_A_TIME] if question.rstrip("? ").count("?") else []
    quotes = (quote["text"] for citation in answer["citations"] for quote in citation["quotes"])
    return [*cautions, WITHOUT_DOSE] if lacks_dose(question, quotes) else cautions
