"""The base class of the retrievers, and a wrapper for other LangChain retrievers."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Self, TypedDict

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, RetrieverLike
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import (
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)

from briefcontext.errors import InputError, problems
from briefcontext.files import sha256
from briefcontext.knowledge.sources.publication import article_url, is_offset, normalised
from briefcontext.knowledge.store.filters import NO_FILTERS, Filters
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.knowledge.store.terms import TermStatistics

DEFAULT_K = 16
"""Default number of documents."""


class RetrieverFields(TypedDict, total=False):
    """Keyword arguments of every retriever, for type checkers."""

    k: int
    filters: Filters
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class RankingRetriever(BaseRetriever):
    """A retriever whose documents carry `rank` (1 is best) and `score` (higher is better).

    `k`, the number of documents, and `filters` are set for the retriever or for one call:
    `retriever.invoke(query, k=3)`. Fewer documents are returned if there are no more. Raises
    InputError for a `k` below 1, and for filters that the retriever cannot apply.

    A subclass implements `_search`, and overrides `_asearch` if it awaits something.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    k: int = DEFAULT_K
    """Number of documents to return."""
    filters: Filters = NO_FILTERS
    """Conditions that every document must fulfil."""

    @field_validator("k")
    @classmethod
    def _check_k(cls, k: int) -> int:
        if k < 1:
            raise InputError(
                f"k, the number of documents to retrieve, must be at least 1, not {k}."
            )
        return k

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            message = problems(error, cls.model_fields)
            raise InputError(f"{cls.__name__} cannot be made: {message}.") from error

    @property
    def term_statistics(self) -> TermStatistics | None:
        """Term frequencies of the whole corpus, for BM25 over the results; None if unknown."""
        return None

    @property
    def dense_over(self) -> Manifest | None:
        """The manifest of the knowledge base if this is its dense ranking, else None."""
        return None

    @property
    def ranks_by_bm25(self) -> bool:
        """Whether this ranking is BM25's, so that a comparison with BM25 is meaningless."""
        return False

    @abstractmethod
    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        """Return at most `k` documents that fulfil the filters, best first, made by `ranked`.

        `config` goes to other retrievers, which are then traced as parts of this one.
        """

    async def _asearch(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        """Return the result of `_search`, by default computed in another thread."""
        return await run_in_executor(None, self._search, query, k, filters, config)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Any
    ) -> list[Document]:
        return self._search(
            query, *self._asked(**asked), RunnableConfig(callbacks=run_manager.get_child())
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Any
    ) -> list[Document]:
        return await self._asearch(
            query, *self._asked(**asked), RunnableConfig(callbacks=run_manager.get_child())
        )

    def _asked(self, k: int | None = None, filters: Filters = NO_FILTERS) -> tuple[int, Filters]:
        if not isinstance(filters, Filters):
            raise InputError(
                f"filters are Filters(first_year=2015), of briefcontext.knowledge, and not "
                f"{filters!r:.100}."
            )
        return self.k if k is None else self._check_k(k), filters or self.filters


def refuse_filters(filters: Filters, searched: str) -> None:
    """Raise InputError if there are filters, because this collection cannot apply them."""
    if filters:
        raise InputError(
            f"{searched} cannot be searched by filters ({filters}): leave them out, or ask a "
            f"knowledge base."
        )


def ranked(scored: Iterable[tuple[Document, float]]) -> list[Document]:
    """Return copies of documents, given best first, that carry `rank` and `score`."""
    return [
        document.model_copy(
            update={"metadata": {**document.metadata, "rank": rank, "score": float(score)}}
        )
        for rank, (document, score) in enumerate(scored, start=1)
    ]


_PUBMED = {"uid": "pmid", "Title": "title", "Published": "year"}
"""Metadata of LangChain's PubMedRetriever, with the names used here."""


class WrappedRetriever(RankingRetriever):
    """Retrieves with another LangChain retriever and completes its documents: id, rank, score.

    A vector store's retriever is asked for `k` documents. Another retriever returns the number of
    documents that it is configured for, of which the first `k` are kept. Blank documents are left
    out. The score is the documents' `score` if all have one and it falls from the first to the
    last; otherwise it is 1 / rank.
    """

    retriever: RetrieverLike

    @classmethod
    def from_vectorstore(cls, store: VectorStore, k: int = DEFAULT_K) -> Self:
        """Retrieve from a LangChain vector store by similarity."""
        return cls(retriever=store.as_retriever(), k=k)

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        return self._completed(self._configured(k, filters).invoke(query, config), k)

    async def _asearch(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        return self._completed(await self._configured(k, filters).ainvoke(query, config), k)

    def _configured(self, k: int, filters: Filters) -> RetrieverLike:
        retriever = self.retriever
        refuse_filters(filters, f"{type(retriever).__name__}, a retriever of your own,")
        if isinstance(retriever, VectorStoreRetriever):
            search_kwargs = {**retriever.search_kwargs, "k": k}
            return retriever.model_copy(update={"search_kwargs": search_kwargs})
        return retriever

    def _completed(self, result: Any, k: int) -> list[Document]:
        for document in result if isinstance(result, list) else [result]:
            if not _is_document(document):
                raise InputError(
                    f"{type(self.retriever).__name__} is no retriever: it returned "
                    f"{document!r:.100}, and not a "
                    "list of documents, each with a text as page_content and a dict as metadata."
                )
        return as_ranking([document for document in result if document.page_content.strip()], k)


def as_ranking(documents: Sequence[Document], k: int | None = None) -> list[Document]:
    """Return the first k documents, or all, with id, rank, score and metadata."""
    passages = as_passages(documents)[:k]
    return ranked(zip(passages, _scores(passages), strict=True))


def as_ranking_retriever(retriever: RetrieverLike | VectorStore) -> RankingRetriever:
    """Return the retriever, wrapped if necessary. Raises InputError for other objects."""
    if isinstance(retriever, VectorStore):
        return WrappedRetriever.from_vectorstore(retriever)
    if not isinstance(retriever, Runnable):
        raise InputError(
            f"{type(retriever).__name__} is no retriever: give a LangChain retriever, a vector "
            f"store, or a "
            "knowledge base as DenseRetriever(knowledge_base=…)."
        )
    return (
        retriever
        if isinstance(retriever, RankingRetriever)
        else WrappedRetriever(retriever=retriever)
    )


def _is_document(result: object) -> bool:
    return (
        isinstance(result, Document)
        and isinstance(result.page_content, str)
        and isinstance(result.metadata, dict)
    )


def _scores(documents: list[Document]) -> list[float]:
    scores = [document.metadata.get("score") for document in documents]
    numbers = [float(score) for score in scores if isinstance(score, Real)]
    if len(numbers) == len(scores) and numbers == sorted(numbers, reverse=True):
        return numbers
    return [1 / rank for rank in range(1, len(documents) + 1)]


def as_passages(documents: Iterable[Document]) -> list[Document]:
    """Return copies with a unique `id` and the metadata of a passage, in the same order.

    Existing metadata is kept. `source_id` comes from the PMID or the loader's `source`, else the
    id; `url` from the PMID or DOI; `page` becomes the printed page; `start` comes from the text
    splitter's `start_index`; the id from a digest of source and text. A repeated document is left
    out, and another text with a used id gets a new id.
    """
    passages: dict[str, Document] = {}
    for document in documents:
        if not _is_document(document):
            raise InputError(f"{document!r:.100} is not a document. Pass LangChain documents.")
        passage = _as_passage(document)
        id = str(passage.id)
        if id in passages and passages[id].page_content != passage.page_content:
            id = f"{id}#{_digest(passage)}"
        passages.setdefault(id, passage.model_copy(update={"id": id}))
    return list(passages.values())


def _as_passage(document: Document) -> Document:
    given = document.metadata
    if "Copyright Information" in given:
        given = {**{ours: given.get(theirs, "") for theirs, ours in _PUBMED.items()}, **given}
    metadata = normalised(given)
    named = (metadata.get(name) for name in ("source_id", "pmid", "source"))
    source = next(filter(None, named), None) or document.id or _digest(document)
    start = metadata.get("start", _offset(metadata.get("start_index"), 0))
    completed = {
        "kind": "document",
        **metadata,
        **_printed_page(metadata),
        **({"url": url} if (url := article_url(metadata)) else {}),
        "source_id": str(source),
        "title": str(metadata.get("title", "")),
        "chunk_index": metadata.get("chunk_index", 0),
        "start": start,
        "end": max(start, metadata.get("end", start + len(document.page_content))),
    }
    return document.model_copy(
        update={"id": document.id or f"{source}#{_digest(document)}", "metadata": completed}
    )


def _printed_page(metadata: Mapping[str, Any]) -> dict[str, Any]:
    page = _offset(metadata.get("page"), -1)
    if "kind" in metadata or page < 0:
        return {}
    label = str(metadata.get("page_label") or "")
    return {"kind": "pdf", "page": int(label) if label.isdecimal() else page + 1}


def _offset(value: object, default: int) -> int:
    # Other loaders use these names for strings, or -1 for "not found".
    return value if is_offset(value) else default


def _digest(document: Document) -> str:
    return sha256(document.page_content)[:12]
