"""An answer in short: what a model, or a person in a terminal, is told of it."""

from collections.abc import Sequence

from briefcontext.chains.answer import NO_ANSWER, Answer
from briefcontext.chains.citation import Citation
from briefcontext.chains.references import Reference, described
from briefcontext.chains.support import marked

_WARNINGS = 5
"""How many warnings are told in full."""


def cited_text(answer: Answer) -> str:
    """Return the answer's text, its sources by number, and what a reader must know of it.

    Cautions stand first, and doubts behind their sentences. That the documents do not answer is said before the text.
    Quotes and extractions are left to the answer itself.
    """
    parts = [marked(answer["text"], answer["doubts"])]
    if answer["abstained"]:
        parts.insert(0, f"NO ANSWER: {NO_ANSWER}")
    if answer["choice"]:
        parts.insert(0, f"Choice: {answer['choice']}")
    if answer["cautions"]:
        parts.insert(0, _told("Caution:", answer["cautions"]))
    if answer["citations"]:
        sources = [_source(reference, answer["citations"]) for reference in answer["references"]]
        parts.append("\n".join(["Sources:", *sources]))
    if answer["evidence"]["summary"]:
        parts.append(f"Evidence: {answer['evidence']['summary']}")
    if conflict := _conflict(answer):
        parts.append(f"The evidence contradicts itself: {conflict}")
    if answer["warnings"]:
        parts.append(_told("Take note:", answer["warnings"]))
    return "\n\n".join(parts)


def _told(heading: str, warnings: Sequence[str]) -> str:
    told = [f"- {_line(warning)}" for warning in warnings[:_WARNINGS]]
    if len(warnings) > _WARNINGS:
        told.append(f"- more warnings: {len(warnings) - _WARNINGS}")
    return "\n".join([heading, *told])


def _line(text: str) -> str:
    # A title or an error comes from elsewhere, and must not look like a line of ours.
    return " ".join(text.split())


def _source(reference: Reference, citations: Sequence[Citation]) -> str:
    parts = [described(reference, citations), reference["url"] or ""]
    return f"[{']['.join(reference['keys'])}] {' · '.join(filter(None, parts))}"


def _conflict(answer: Answer) -> str:
    conflict = answer["conflict"]
    if conflict is None:
        return ""
    counted = [
        f"{len(partitions)} partition{'s' if len(partitions) > 1 else ''} chose {letter}"
        for letter, partitions in conflict["choices"].items()
    ]
    return _line(" ".join([conflict["statement"] or "", f"{', '.join(counted)}." if counted else ""]))
