"""What nodes hand on: an extraction or an answer, as an update of the state, told in an event."""

import time
from collections.abc import Sequence
from typing import Any

from briefcontext.chains.account import Account
from briefcontext.chains.answer import compose
from briefcontext.chains.extraction import Extraction, extraction_without_evidence
from briefcontext.chains.ledger import ModelCall, Usage, estimate_tokens, summarise
from briefcontext.chains.reader import Draft, Reader
from briefcontext.errors import ModelCallError
from briefcontext.graphs.events import Answered, PartitionDone, PartitionFailed, Reducing, emit
from briefcontext.graphs.retrieval import encodable
from briefcontext.graphs.runtime import current_settings
from briefcontext.graphs.state import Partition, State

__all__ = ["Update", "abstained", "answered", "extracted", "failed_extraction", "worth_reducing"]

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


def extracted(branch: Partition, extraction: Extraction, account: Account) -> Update:
    """Hand on what a partition gave."""
    index, partitions = branch["index"], branch["partitions"]
    if extraction["status"] == "failed":
        error = extraction["error"] or ""
        emit(PartitionFailed(event="partition_failed", index=index, partitions=partitions, error=error))
    else:
        status, quotes = extraction["status"], len(extraction["quotes"])
        emit(PartitionDone(event="partition_done", index=index, partitions=partitions, status=status, quotes=quotes))
    return {"extractions": [{**extraction, "finding": encodable(extraction["finding"])}], "calls": account.calls}


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


def answered(state: State, draft: Draft, account: Account, reader: Reader) -> Update:
    """Hand on the answer that a reader's draft makes."""
    answer = compose(
        draft,
        options=state["asked"]["options"],
        documents=state["ranking"],
        route=state["route"],
        preflight=state["preflight"],
        extractions=state["extractions"],
        retracted=state["retracted"],
        usage=_usage(state, draft, account.calls, reader),
    )
    emit(
        Answered(
            event="answered",
            abstained=answer["abstained"],
            citations=len(answer["citations"]),
            calls=answer["usage"]["calls"],
        )
    )
    return {"answer": answer, "calls": account.calls}


def abstained(state: State, reason: str, account: Account, reader: Reader) -> Update:
    """Hand on an answer that only says why there is none."""
    draft = Draft(text=reason, choice=None, conflict=None, quotes=[], abstained=True, warnings=[])
    return answered(state, draft, account, reader)


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
    written = last[-1]["output_tokens"] if last else 0
    if not written:
        return None
    if state["route"] != "map_reduce":
        return written
    by_document = {quote["document_id"]: f'[key] "{quote["text"]}"' for quote in draft["quotes"]}
    return written + (estimate_tokens(len("\n".join(by_document.values())), calls) or 0)
