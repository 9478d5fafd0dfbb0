"""Results of the nodes as updates of the state, each told in an event; and the messages of abstentions."""

import time
from collections.abc import Sequence
from typing import Any

from briefcontext.chains.answer import compose
from briefcontext.chains.extraction import NOTHING_USED, Extraction, extraction_without_evidence
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.usage import ModelCall, Usage, estimate_tokens, summarise
from briefcontext.chains.reader import Draft, Reader
from briefcontext.errors import ModelCallError
from briefcontext.files import encodable
from briefcontext.graphs.events import Answered, PartitionDone, PartitionFailed, Reducing, emit
from briefcontext.graphs.runtime import current_settings
from briefcontext.graphs.state import Partition, State
from briefcontext.knowledge.store.filters import Filters

__all__ = [
    "Update",
    "abstained",
    "answered",
    "extracted",
    "failed_extraction",
    "without_documents",
    "without_evidence",
    "worth_reducing",
]

NOTHING_CLOSE = (
    "No sentence was found close enough to the question. Without a model, nothing is inferred from the documents, and "
    "they may answer it all the same: read the passages, or use a model."
)

Update = dict[str, Any]
"""The fields of the state that a node sets."""


def failed_extraction(branch: Partition, error: ModelCallError) -> Extraction:
    """Turn a failure into an extraction that says so.

    Raises:
        ModelCallError: the settings want a failure to stop the run.
    """
    if current_settings().on_partition_failure == "raise":
        raise error
    return extraction_without_evidence(branch["index"], branch["documents"], "failed", error=str(error))


def extracted(branch: Partition, extraction: Extraction, budget: CallBudget) -> Update:
    """Hand on what a partition gave."""
    index, partitions = branch["index"], branch["partitions"]
    if extraction["status"] == "failed":
        error = extraction["error"] or ""
        emit(PartitionFailed(event="partition_failed", index=index, partitions=partitions, error=error))
    else:
        status, quotes = extraction["status"], len(extraction["quotes"])
        emit(PartitionDone(event="partition_done", index=index, partitions=partitions, status=status, quotes=quotes))
    return {"extractions": [{**extraction, "finding": encodable(extraction["finding"])}], "calls": budget.calls}


def worth_reducing(state: State) -> bool:
    """Return whether there is anything to answer from.

    Raises:
        ModelCallError: all partitions failed, so that nothing is known.
    """
    extractions = state["extractions"]
    failed = [extraction for extraction in extractions if extraction["status"] == "failed"]
    if len(failed) == len(extractions):
        raise ModelCallError(f"All {len(failed)} partitions failed. The first: {failed[0]['error']}")
    evidence = sum(extraction["status"] == "evidence" for extraction in extractions)
    forced = current_settings().force_choice and bool(state["asked"]["options"])
    if evidence or forced:
        emit(Reducing(event="reducing", evidence=evidence))
    return bool(evidence or forced)


def answered(state: State, draft: Draft, budget: CallBudget, reader: Reader) -> Update:
    """Hand on the answer that a reader's draft makes."""
    if draft["abstained"] and state["ranking"] and reader.vanilla_characters(state["asked"], []) is None:
        draft = Draft(**{**draft, "text": NOTHING_CLOSE})
    answer = compose(
        draft,
        asked=state["asked"],
        documents=state["ranking"],
        route=state["route"],
        preflight=state["preflight"],
        extractions=state["extractions"],
        retracted=state["retracted"],
        usage=_usage(state, draft, budget.calls, reader),
        model=reader.name,
        searched=state["searched"],
    )
    emit(
        Answered(
            event="answered",
            abstained=answer["abstained"],
            citations=len(answer["citations"]),
            calls=answer["usage"]["calls"],
        )
    )
    return {"answer": answer, "calls": budget.calls}


def abstained(state: State, reason: str, budget: CallBudget, reader: Reader) -> Update:
    """Hand on an answer that only says why there is none."""
    draft = Draft(text=reason, choice=None, conflict=None, quotes=[], abstained=True, warnings=[])
    return answered(state, draft, budget, reader)


def _usage(state: State, draft: Draft, last: Sequence[ModelCall], reader: Reader) -> Usage:
    calls = [*state["calls"], *last]
    characters = reader.vanilla_characters(state["asked"], state["ranking"])
    return summarise(
        calls,
        seconds=time.time() - state["started"],
        vanilla_input_tokens=None if characters is None else estimate_tokens(characters, calls),
        vanilla_output_tokens=_vanilla_output_tokens(state, draft, calls, last),
    )


def _vanilla_output_tokens(
    state: State, draft: Draft, calls: Sequence[ModelCall], last: Sequence[ModelCall]
) -> int | None:
    # A finding that is the answer was written by a call of the map.
    alone = 0 if draft["abstained"] else estimate_tokens(len(draft["text"]), calls)
    written = last[-1]["output_tokens"] if last else alone
    if not written:
        return None
    if state["route"] != "map_reduce":
        return written
    by_document = {quote["document_id"]: f'[key] "{quote["text"]}"' for quote in draft["quotes"]}
    return written + (estimate_tokens(len("\n".join(by_document.values())), calls) or 0)


def without_documents(state: State, filters: Filters) -> str:
    """Say why there was nothing to read."""
    how = "given with" if state["given"] else "found for"
    if count := len(state["retracted"]):
        return (
            f"All documents that were {how} this question are retracted articles ({count}) and were left out, "
            "so there is nothing to answer from."
        )
    if state["given"]:
        return "No document was given with this question, so there is nothing to answer from."
    if filters:
        return (
            f"No document that fulfils the filters ({filters}) was retrieved for this question, so there is nothing to "
            "answer from. Widen the filters, or leave them out."
        )
    return "No document was retrieved for this question, so there is nothing to answer from."


def without_evidence(state: State) -> str:
    """Say that no partition gave evidence; what was not read, or not used, is not said to hold none."""
    extractions = state["extractions"]
    failed = sum(extraction["status"] == "failed" for extraction in extractions)
    unused = sum(NOTHING_USED in (extraction["error"] or "") for extraction in extractions)
    in_part = sum(bool(extraction.get("unread_ids")) for extraction in extractions)
    if not failed and not unused and not in_part:
        return "The documents were read, and none of them contains evidence on this question."
    missing = [f"{failed} could not be read"] if failed else []
    missing += [f"{in_part} could be read only in part"] if in_part else []
    missing += [f"{unused} gave only quotes that do not stand in them"] if unused else []
    return (
        f"No evidence on this question was found, but of {len(extractions)} partitions of the documents "
        f"{' and '.join(missing)}. There may be evidence in them all the same."
    )
