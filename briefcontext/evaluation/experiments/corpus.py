"""The corpus of an experiment: a knowledge base, or the long documents of a data set."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from pydantic import PrivateAttr

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.statistics.tables import Table
from briefcontext.knowledge.chunking import CHUNK_TOKENS, chunk_document
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.knowledge_base import BM25Retriever, DenseRetriever, HybridRetriever

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.retrievers.long_document import LongDocumentRetriever

_BATCH = 1_000
_QUANTILES = {"Min": 0, "First quartile": 0.25, "Median": 0.5, "Third quartile": 0.75, "Max": 1}
_MAX_RANKINGS = 64
_MIN_SEARCHED = 64
"""Documents that a search retrieves at least; shorter rankings are cut from it."""
_MAX_DOCUMENTS = 256
"""Long documents whose vectors are kept, so that none is encoded for each condition."""


class KeptRankings(DenseRetriever):
    """The dense rankings; one search serves all methods and lengths."""

    _kept: Callable[..., list[Document]] = PrivateAttr()

    def model_post_init(self, context: object) -> None:
        self._kept = lru_cache(_MAX_RANKINGS)(self.knowledge_base.search)

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        return self._kept(query, max(k, _MIN_SEARCHED), filters)[:k]


class Corpus:
    """A knowledge base with cached dense rankings and the key documents of questions."""

    def __init__(self, knowledge_base: "KnowledgeBase") -> None:
        self.knowledge_base = knowledge_base
        self.retriever = KeptRankings(knowledge_base=knowledge_base)
        self._named = lru_cache(_MAX_RANKINGS)(knowledge_base.by_names)

    @cached_property
    def _ids(self) -> list[str]:
        return self.knowledge_base.ids()

    def fingerprint(self) -> dict[str, Any]:
        """Return the knowledge base's encoder, number of passages and sources."""
        manifest = self.knowledge_base.manifest
        return {
            "encoder": manifest.encoder.name,
            "passages": len(self.knowledge_base),
            "sources": sorted(source.fingerprint for source in manifest.sources),
        }

    def key_documents(self, item: Item) -> list[Document]:
        """Return the passages of the question's gold ids, by passage or source id."""
        return list(self._named(item.gold_ids))

    def ranking(self, item: Item, k: int) -> list[Document]:
        """Return the `k` passages nearest to the question, best first."""
        return self.retriever.invoke(item.question, k=k)

    def fused(self, item: Item, k: int) -> list[Document]:
        """Return the `k` best passages of the fused dense and BM25 rankings."""
        retrievers = [self.retriever, BM25Retriever(knowledge_base=self.knowledge_base)]
        return HybridRetriever(retrievers=retrievers).invoke(item.question, k=k)

    def neighbours(self, item: Item, count: int) -> list[Document]:
        """Return the `count` passages nearest to the question that are not key documents.

        Raises InputError if the knowledge base has fewer.
        """
        keys = {document.id for document in self.key_documents(item)}
        ranking = self.ranking(item, count + len(keys))
        results = [document for document in ranking if document.id not in keys]
        _check_count(len(results), count, f"that are not key documents of question {item.id}")
        return results[:count]

    def random(self, item: Item, count: int, seed: int) -> list[Document]:
        """Return `count` random passages, none a key document or among the question's 64 nearest.

        Raises InputError if the knowledge base has fewer.
        """
        near = [*self.ranking(item, _MIN_SEARCHED), *self.key_documents(item)]
        related = {document.id for document in near}
        drawn_at_most = min(count + len(related), len(self._ids))
        order = random.Random(f"{seed}\0{item.id}").sample(self._ids, drawn_at_most)
        drawn = [id for id in order if id not in related][:count]
        _check_count(len(drawn), count, f"that are unrelated to question {item.id}")
        return self.knowledge_base.get(drawn)


def _check_count(count: int, wanted: int, which: str) -> None:
    if count < wanted:
        raise InputError(
            f"The knowledge base has only {count:,} passages {which}, and {wanted:,} are needed. "
            "Use a larger one, or a smaller k."
        )


class LongDocuments:
    """The long documents of a data set, cut into chunks and encoded when first needed."""

    def __init__(
        self, documents: Mapping[str, Document], encoder: "Encoder", *, exact: bool = False
    ) -> None:
        """Keep the documents by id; `exact` is that of `chunk_document`."""
        self._documents, self.encoder, self._exact = documents, encoder, exact
        self._locks: dict[str, Lock] = {}
        self._retriever = lru_cache(_MAX_DOCUMENTS)(self._encoded)
        self._count = lru_cache(None)(self._counted)

    def whole(self, item: Item) -> Document:
        """Return the question's document in one piece."""
        return self._documents[str(item.document)]

    def chunks(self, item: Item) -> int:
        """Return the number of chunks of the question's document."""
        return self._count(str(item.document))

    def ranking(self, item: Item, k: int) -> Sequence[Document]:
        """Return the `k` chunks nearest to the question, best first."""
        id = str(item.document)
        # Concurrent questions on one document must not encode it twice.
        with self._locks.setdefault(id, Lock()):
            retriever = self._retriever(id)
        return retriever.invoke(item.question, k=k)

    def _counted(self, id: str) -> int:
        document, exact = self._documents[id], self._exact
        return len(chunk_document(document, self.encoder, tokens=CHUNK_TOKENS, exact=exact))

    def _encoded(self, id: str) -> "LongDocumentRetriever":
        from briefcontext.retrievers.long_document import LongDocumentRetriever

        whole = self._documents[id]
        return LongDocumentRetriever.from_document(
            whole, self.encoder, tokens=CHUNK_TOKENS, exact=self._exact
        )


def corpus_tables(base: "KnowledgeBase") -> list[Table]:
    """Return a knowledge base's documents, tokens and lengths by source."""
    passages: Counter[str] = Counter()
    lengths: defaultdict[str, Counter[str]] = defaultdict(Counter)
    ids = base.ids()
    for start in range(0, len(ids), _BATCH):
        for document in base.get(ids[start : start + _BATCH]):
            tokens = len(base.encoder.token_offsets(document.page_content))
            for kind in (str(document.metadata.get("kind") or "none stated"), "all"):
                passages[kind] += 1
                lengths[kind][str(document.metadata["source_id"])] += tokens
    totals, spans = [], []
    for kind in [*sorted(lengths.keys() - {"all"}), "all"]:
        own = np.array(list(lengths[kind].values()))
        totals.append([kind, *(f"{n:,}" for n in (len(own), passages[kind], int(own.sum())))])
        if len(own):
            deviation = own.std(ddof=1) if len(own) > 1 else 0
            quantiles = np.quantile(own, [*_QUANTILES.values()])
            spans.append(
                [kind, f"{own.mean():,.1f}", f"{deviation:,.1f}", *(f"{q:,.0f}" for q in quantiles)]
            )
    note = f"Tokens of the encoder {base.manifest.encoder.name}."
    heads = ["Source", "Documents", "Passages", "Tokens"]
    return [
        Table("Documents and tokens by source", heads, totals, [note]),
        Table(
            "Tokens of a document by source", ["Source", "Mean", "SD", *_QUANTILES], spans, [note]
        ),
    ]
