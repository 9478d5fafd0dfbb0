"""Why there is no answer, as the answer says it."""

from briefcontext.chains.extraction import NOTHING_USED
from briefcontext.graphs.state import State
from briefcontext.knowledge.store.filters import Filters

__all__ = ["without_documents", "without_evidence"]


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
