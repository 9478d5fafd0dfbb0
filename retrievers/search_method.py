"""The ways to search a knowledge base or a document, by name."""

from typing import Literal, get_args

from briefcontext.errors import InputError
from briefcontext.retrievers.bm25_retriever import BM25Retriever, LexicalSearch
from briefcontext.retrievers.dense import DenseRetriever, DenseSearch
from briefcontext.retrievers.hybrid import HybridRetriever
from briefcontext.retrievers.long_document import LongDocumentRetriever
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.rerank import PassageScorer, RerankingRetriever

__all__ = ["SearchMethod", "retriever_over"]

SearchMethod = Literal["dense", "bm25", "hybrid"]


def retriever_over(
    searched: DenseSearch | LongDocumentRetriever, method: SearchMethod = "dense", scorer: PassageScorer | None = None
) -> RankingRetriever:
    """Return the retriever that searches a knowledge base or a document in one of the ways.

    Args:
        searched: a `KnowledgeBase`, live PubMed, or a document's dense retriever.
        method: by vectors, by BM25, or by both, fused (`HybridRetriever`).
        scorer: re-ranks what was found, such as a cross-encoder.

    Raises:
        InputError: the method is unknown, or needs an index of words that live PubMed does not have.
    """
    if method not in get_args(SearchMethod):
        raise InputError(f"There is no search method {method!r}: use one of {', '.join(get_args(SearchMethod))}.")
    dense = searched if isinstance(searched, LongDocumentRetriever) else DenseRetriever(knowledge_base=searched)
    found = dense if method == "dense" else _with_bm25(searched, dense, method)
    return found if scorer is None else RerankingRetriever(retriever=found, scorer=scorer)


def _with_bm25(
    searched: DenseSearch | LongDocumentRetriever, dense: RankingRetriever, method: SearchMethod
) -> RankingRetriever:
    if isinstance(searched, LongDocumentRetriever):
        bm25 = searched.bm25
    elif isinstance(searched, LexicalSearch):
        bm25 = BM25Retriever(knowledge_base=searched)
    else:
        raise InputError(f"{searched!r} has no index of words, so it cannot be searched by {method}: use dense.")
    return bm25 if method == "bm25" else HybridRetriever(retrievers=[dense, bm25])
