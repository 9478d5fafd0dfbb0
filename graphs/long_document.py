"""The graph for one long document: the same nodes, and settings that name its file (OP-RAG, Yu et al. 2024)."""

from typing import Literal

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime
from pydantic import Field

from briefcontext.errors import InputError
from briefcontext.graphs import resources
from briefcontext.graphs.events import tell_encoding
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.ranking_retriever import RankingRetriever


class LongDocumentSettings(Settings):
    """The settings, with the file that the answer is to come from, read in the order of its text.

    Raises:
        InputError: an unknown setting, or a value out of its range.
    """

    document: str | None = Field(
        default=None,
        description="The file to answer from: text, PDF, PMC NXML, Word or another document. It must be named.",
    )
    route: Literal["auto", "map_reduce", "vanilla", "order_preserving"] = Field(
        default="order_preserving",
        description="The way to read: in the order of the text, decided by the preflight check (auto), or forced.",
    )


class NamedDocument(RankingRetriever):
    """Retrieves from the file that the run's settings name, and from nothing else."""

    def _search(self, query: str, k: int, filters: Filters, config: RunnableConfig) -> list[Document]:
        settings: object = get_runtime(Settings).context
        if not isinstance(settings, Settings) or settings.document is None:
            raise InputError(
                "There is no document to answer from. Name its file in the setting document; of a server, a file in "
                "the folder that its owner gives in BRIEFCONTEXT_DOCUMENTS. By default it gives none."
            )
        retriever = resources.retriever(settings, tell_encoding)
        return retriever.invoke(query, config, k=k, filters=filters)


graph = build_graph(retriever=NamedDocument(), settings=LongDocumentSettings, name="LongDocument")
