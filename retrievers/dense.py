"""Dense retrieval: the passages whose embeddings lie nearest to the question's."""

from typing import Protocol, runtime_checkable

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from pydantic import field_validator

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.store.filters import Filters
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.term_statistics import TermStatistics
from briefcontext.retrievers.ranking_retriever import RankingRetriever, ranked

__all__ = ["DenseRetriever", "DenseSearch", "MedCPTRetriever"]


@runtime_checkable
class DenseSearch(Protocol):
    """The methods of a `KnowledgeBase` that a dense retriever uses."""

    @property
    def manifest(self) -> Manifest:
        """Says which encoder the vectors were made with."""

    @property
    def term_statistics(self) -> TermStatistics | None:
        """How often terms occur over all passages."""

    def search(self, query: str, k: int, filters: Filters) -> list[Document]:
        """Return the `k` nearest passages that fulfil the filters, best first, with `score` in their metadata."""


class DenseRetriever(RankingRetriever):
    """Retrieves from a knowledge base with the encoder that it was built with.

    The score is the encoder's: cosine similarity or inner product.
    """

    knowledge_base: DenseSearch

    @property
    def term_statistics(self) -> TermStatistics | None:
        """How often terms occur over all passages of the knowledge base."""
        return self.knowledge_base.term_statistics

    @property
    def dense_over(self) -> Manifest | None:
        """The manifest of the knowledge base."""
        return self.knowledge_base.manifest

    def _search(
        self, query: str, k: int, filters: Filters, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.knowledge_base.search(query, k, filters)
        return ranked((document, document.metadata["score"]) for document in found)


class MedCPTRetriever(DenseRetriever):
    """Retrieves by MedCPT's query and article encoders (Jin et al., Bioinformatics 2023).

    A knowledge base that was built with another encoder raises KnowledgeBaseError.
    """

    @field_validator("knowledge_base")
    @classmethod
    def _check_encoder(cls, knowledge_base: DenseSearch) -> DenseSearch:
        encoder = knowledge_base.manifest.encoder.name
        # A MedCPT whose weights lie in a folder is named "medcpt:<folder>".
        if encoder.partition(":")[0] != "medcpt":
            raise KnowledgeBaseError(
                "MedCPTRetriever needs a knowledge base built with the encoder 'medcpt', and this one was "
                f"built with {encoder!r}: use DenseRetriever, or build it again with medcpt."
            )
        return knowledge_base
