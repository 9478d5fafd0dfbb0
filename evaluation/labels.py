"""The label of a question: is its key document where a reader overlooks it?"""

from collections.abc import Collection, Sequence

from langchain_core.documents import Document

from briefcontext.retrievers.signals import SPOTLIGHT

__all__ = ["gold_rank", "is_misplaced"]


def gold_rank(documents: Sequence[Document], gold_ids: Collection[str]) -> int | None:
    """Return the rank, from 1, of the first document whose id or `source_id` is a gold one; None when none is."""
    gold = set(gold_ids)
    for rank, document in enumerate(documents, start=1):
        if document.id in gold or str(document.metadata.get("source_id")) in gold:
            return rank
    return None


def is_misplaced(rank: int | None, spotlight: int = SPOTLIGHT) -> bool:
    """Whether the key document stands below the first three, or was not retrieved (BriefContext, preflight check).

    With several key documents, `rank` is that of the best-ranked one; None when none was retrieved.
    """
    return rank is None or rank > spotlight
