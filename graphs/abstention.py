"""Abstention messages: why there is no answer."""

from briefcontext.chains.reader import NOTHING_USED, Draft
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import State
from briefcontext.knowledge.store.filters import WIDEN

FILTERED = "\n\nOnly documents that fulfil the filters ({filters}) were searched."


def without_documents(state: State, settings: Settings) -> Draft:
    """Return the answer without documents."""
    return _abstention(_no_document(state, settings))


def without_evidence(state: State) -> Draft:
    """Return the answer without evidence; partitions that were not read are counted."""
    extractions = state["extractions"]
    failed = sum(extraction["status"] == "failed" for extraction in extractions)
    unused = sum(NOTHING_USED in (extraction["error"] or "") for extraction in extractions)
    missing = [f"{failed} could not be read"] if failed else []
    missing += [f"{unused} gave only quotes that are not in them"] if unused else []
    if not missing:
        return _abstention(
            "The documents were read, and none of them contains evidence on this question."
        )
    return _abstention(
        f"No evidence on this question was found, but of {len(extractions)} partitions "
        f"{' and '.join(missing)}. They may contain evidence."
    )


def _abstention(reason: str) -> Draft:
    return Draft(text=reason, choice=None, conflict=None, quotes=[], abstained=True, notes=[])


def _no_document(state: State, settings: Settings) -> str:
    how = "given with" if state["given"] else "found for"
    if count := len(state["retracted"]):
        return (
            f"All documents {how} this question are retracted articles ({count}) and were left "
            "out. There is nothing to answer from."
        )
    if state["given"]:
        return "No document was given with this question. There is nothing to answer from."
    if filters := settings.filters:
        return (
            f"No document that fulfils the filters ({filters}) was retrieved for this question. "
            f"There is nothing to answer from. {WIDEN}"
        )
    return (
        "No document was retrieved for this question. There is nothing to answer from. Ask in "
        "other words, and check that the knowledge base has documents."
    )
