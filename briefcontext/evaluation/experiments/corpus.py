"""The corpus of an experiment: a knowledge base, the long documents of a data set, and tables that describe one."""

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
from briefcontext.knowledge.chunking import CHUNK_TOKENS
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.knowledge_base import DenseRetriever

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.retrievers.long_document import LongDocumentRetriever

_READ_AT_ONCE = 1_000
_QUANTILES = (0, 0.25, 0.5, 0.75, 1)
_KEPT_RANKINGS = 64
_LONGEST = 64
"""What is searched for at least, to be cut to the lengths that an experiment takes of it."""
_KEPT_DOCUMENTS = 256
"""Long documents whose vectors are kept: more than are asked on at once, so that none is encoded for each condition."""


class KeptRankings(DenseRetriever):
    """The dense rankings, of which one search serves all methods and all lengths."""

    _kept: Callable[..., list[Document]] = PrivateAttr()

    def model_post_init(self, context: object) -> None:
        self._kept = lru_cache(_KEPT_RANKINGS)(self.knowledge_base.search)

    def _search(
        self, query: str, k: int, filters: Filters, config: RunnableConfig
    ) -> list[Document]:
        return self._kept(query, max(k, _LONGEST), filters)[:k]


class Corpus:
    """A knowledge base whose dense rankings are kept, and where the key documents of a question stand in it."""

    def __init__(self, knowledge_base: "KnowledgeBase") -> None:
        self.knowledge_base = knowledge_base
        self.retriever = KeptRankings(knowledge_base=knowledge_base)
        self._kept_named = lru_cache(_KEPT_RANKINGS)(knowledge_base.named)

    @cached_property
    def _ids(self) -> list[str]:
        return self.knowledge_base.ids()

    def fingerprint(self) -> dict[str, Any]:
        """Say which knowledge base this is: its encoder, and how many passages from which sources."""
        manifest = self.knowledge_base.manifest
        return {
            "encoder": manifest.encoder.name,
            "passages": len(self.knowledge_base),
            "sources": sorted(source.fingerprint for source in manifest.sources),
        }

    def key_documents(self, item: Item) -> list[Document]:
        """Return the passages that the question's key names, by passage id or by source id, in the key's order."""
        return list(self._kept_named(item.gold_ids))

    def ranking(self, item: Item, k: int) -> list[Document]:
        """Return the `k` passages nearest to the question, best first."""
        return self.retriever.invoke(item.question, k=k)

    def fused(self, item: Item, k: int) -> list[Document]:
        """Return the `k` best passages by reciprocal rank fusion of the dense and the BM25 ranking."""
        from briefcontext.retrievers.knowledge_base import BM25Retriever, HybridRetriever

        retrievers = [self.retriever, BM25Retriever(knowledge_base=self.knowledge_base)]
        return HybridRetriever(retrievers=retrievers).invoke(item.question, k=k)

    def neighbours(self, item: Item, count: int) -> list[Document]:
        """Return the `count` passages nearest to the question that are no key documents, best first.

        Raises:
            InputError: the knowledge base has not so many.
        """
        keys = {document.id for document in self.key_documents(item)}
        found = [
            document
            for document in self.ranking(item, count + len(keys))
            if document.id not in keys
        ]
        if len(found) < count:
            raise InputError(
                f"The knowledge base has only {len(found):,} passages beside the key documents of "
                f"question "
                f"{item.id}, and {count:,} are needed. Take a larger one, or a smaller k."
            )
        return found[:count]

    def random(self, item: Item, count: int, seed: int) -> list[Document]:
        """Return `count` passages drawn at random, none a key document or among the question's 64 nearest.

        Raises:
            InputError: the knowledge base has not so many.
        """
        related = {
            document.id for document in [*self.ranking(item, _LONGEST), *self.key_documents(item)]
        }
        most = min(count + len(related), len(self._ids))
        order = random.Random(f"{seed}\0{item.id}").sample(self._ids, most)
        drawn = [id for id in order if id not in related][:count]
        if len(drawn) < count:
            raise InputError(
                f"The knowledge base has only {len(self._ids):,} passages, too few to draw "
                f"{count:,} that have nothing "
                "to do with a question. Take a larger one, or a smaller k."
            )
        return self.knowledge_base.get(drawn)


class LongDocuments:
    """The long documents of a data set, cut into chunks and encoded when first needed."""

    def __init__(
        self, documents: Mapping[str, Document], encoder: "Encoder", *, exact: bool = False
    ) -> None:
        """`exact` is that of `chunk_document`."""
        self._documents, self.encoder, self._exact = documents, encoder, exact
        self._locks: dict[str, Lock] = {}
        self._retriever = lru_cache(_KEPT_DOCUMENTS)(self._encoded)

    def whole(self, item: Item) -> Document:
        """Return the question's document in one piece."""
        return self._documents[str(item.document)]

    def ranking(self, item: Item, k: int) -> Sequence[Document]:
        """Return the `k` chunks nearest to the question, best first; all of them where there are fewer."""
        id = str(self.whole(item).id)
        # Questions on one document that come at the same time must not encode it twice.
        with self._locks.setdefault(id, Lock()):
            retriever = self._retriever(id)
        return retriever.invoke(item.question, k=k)

    def _encoded(self, id: str) -> "LongDocumentRetriever":
        from briefcontext.retrievers.long_document import LongDocumentRetriever

        whole = self._documents[id]
        return LongDocumentRetriever.from_document(
            whole, self.encoder, tokens=CHUNK_TOKENS, exact=self._exact
        )


def corpus_tables(base: "KnowledgeBase") -> list[Table]:
    """Return a knowledge base's documents and tokens, and their lengths, by source (Supplementary Tables 5 and 6).

    Tokens are those of the knowledge base's own encoder, without those that mark the ends of a
    text. A document's length is the sum of its passages'.
    """
    passages: Counter[str] = Counter()
    lengths: defaultdict[str, Counter[str]] = defaultdict(Counter)
    ids = base.ids()
    for start in range(0, len(ids), _READ_AT_ONCE):
        for document in base.get(ids[start : start + _READ_AT_ONCE]):
            tokens = len(base.encoder.token_offsets(document.page_content))
            for kind in (str(document.metadata.get("kind") or "none stated"), "all"):
                passages[kind] += 1
                lengths[kind][str(document.metadata["source_id"])] += tokens
    rows = [
        (kind, np.array(list(lengths[kind].values())))
        for kind in [*sorted(lengths.keys() - {"all"}), "all"]
    ]
    totals = [
        [kind, f"{len(of):,}", f"{passages[kind]:,}", f"{int(of.sum()):,}"] for kind, of in rows
    ]
    spans = [
        [kind, f"{of.mean():,.1f}", f"{of.std(ddof=1) if len(of) > 1 else 0:,.1f}",
         *(f"{value:,.0f}" for value in np.quantile(of, _QUANTILES))]
        for kind, of in rows if len(of)
    ]  # fmt: skip
    note = f"Tokens of the encoder {base.manifest.encoder.name}."
    quantiles = ["Least", "First quartile", "Median", "Third quartile", "Most"]
    return [
        Table(
            "Documents and tokens by source",
            ["Source", "Documents", "Passages", "Tokens"],
            totals,
            note,
        ),
        Table("Tokens of a document by source", ["Source", "Mean", "SD", *quantiles], spans, note),
    ]
