"""A knowledge base, opened for questions."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import InputError, KnowledgeBaseError, did_you_mean
from briefcontext.knowledge.store.counts import Counts
from briefcontext.knowledge.store.filters import LABELLED, NO_FILTERS, Filters
from briefcontext.knowledge.store.manifest import MANIFEST_FILE, Manifest
from briefcontext.knowledge.store.place import Place, open_place

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder
    from briefcontext.knowledge.store.passages import Snapshot
    from briefcontext.knowledge.store.terms import TermStatistics

_T = TypeVar("_T")

DEMO = "demo"
"""The bundled knowledge base; a folder of that name is `./demo`."""
_LABELS_OF = 2000
"""Passages whose labels are counted."""
_KINDS = dict(
    zip(LABELLED, ("publication type", "journal", "MeSH heading", "language"), strict=True)
)
_HIDDEN = {"serial", "texts", "terms", "versions", "trained"}


class KnowledgeBase:
    """Passages with their vectors and terms, in a folder. Thread-safe.

    The encoder, the passages and their indexes are loaded when first needed. During an update, and
    after one that was stopped, a base answers from the state before it. Passages of retracted
    records are found like others, with `retracted` in their metadata.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, encoder: "Encoder | str | None" = None
    ) -> None:
        """Open the base in a folder, or the bundled `demo`, with its encoder or a loaded one.

        Raises KnowledgeBaseError if there is no complete base, it is damaged, or it was built with
        another encoder.
        """
        manifest = _published(_place(path))
        self.path = manifest.place.path
        """The folder, or the URL in an object store."""
        self.manifest = manifest
        """As it was on opening; `published` is as it is now."""
        self._place = manifest.place
        self._encoder = None if encoder is None else _checked(encoder, manifest)
        self._loading = threading.RLock()
        self._stamp: object = None
        self._published = manifest
        self._snapshot: Snapshot | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, encoder: "Encoder | str | None" = None) -> Self:
        return cls(path, encoder=encoder)

    def close(self) -> None:
        with self._loading:
            self._snapshot, self._stamp = None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of passages."""
        return self.published.passages

    def __bool__(self) -> bool:
        return True  # also when it is empty

    def __repr__(self) -> str:
        encoder = self.manifest.encoder.name
        return f"KnowledgeBase({str(self._place)!r}, {len(self):,} passages, encoder {encoder!r})"

    @property
    def encoder(self) -> "Encoder":
        """The encoder of the vectors.

        Raises MissingExtraError or KnowledgeBaseError if it cannot be loaded.
        """
        with self._loading:
            if self._encoder is None:
                self._encoder = _checked(self.manifest.encoder.name, self.manifest)
            return self._encoder

    def count(self, filters: Filters = NO_FILTERS, *, retracted: bool = True) -> int:
        """Return the number of passages that fulfil the filters."""
        where = " AND ".join(filter(None, [filters.where(), "" if retracted else "NOT retracted"]))
        return self._read(lambda snapshot: snapshot.table.count(where or None))

    def labels(self) -> dict[str, list[str]]:
        """Return labels for filters by kind, the most frequent first, from its first passages."""
        sample = self._read(lambda snapshot: snapshot.table.read(LABELLED, limit=_LABELS_OF))
        labels = {}
        for name in LABELLED:
            count = Counter(label for row in sample[name].to_pylist() for label in row or ())
            labels[name] = [label for label, _ in count.most_common(200)]
        return {name: listed for name, listed in labels.items() if listed}

    def check_labels(self, filters: Filters) -> None:
        """Raise InputError for a label in the filters that no passage has."""
        for name in LABELLED:
            for label in getattr(filters, name):
                alone: dict[str, Any] = {name: (label,)}
                if not self.count(Filters(**alone)):
                    nearest = did_you_mean(label, self.labels().get(name, []))
                    raise InputError(f"No passage has the {_KINDS[name]} {label!r}.{nearest}")

    def search(self, query: str, k: int, filters: Filters = NO_FILTERS) -> list[Document]:
        """Return the `k` passages most similar to a question, best first.

        The metadata has `rank` (from 1) and `score`: cosine similarity or inner product, by the
        encoder's metric. Equal scores are in the order of ids.
        """
        return self.search_by_vector(self.encoder.encode_queries([query])[0], k, filters)

    def search_by_vector(
        self, vector: NDArray[np.float32], k: int, filters: Filters = NO_FILTERS
    ) -> list[Document]:
        """Return the `k` passages nearest to a vector (d,), as `search` does."""
        _check(k)
        return self._read(lambda snapshot: snapshot.search(vector, k, filters))

    def search_terms(self, query: str, k: int, filters: Filters = NO_FILTERS) -> list[Document]:
        """Return the `k` best passages by BM25 with a term of the question, as `search` does."""
        _check(k)
        return self._read(lambda snapshot: snapshot.search_terms(query, k, filters))

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the passages with these ids, in their order.

        Raises KnowledgeBaseError if one is missing.
        """
        result = self._read(lambda snapshot: snapshot.get(ids))
        missing = [id for id in ids if id not in result]
        if missing:
            raise KnowledgeBaseError(
                f"{self._place} holds no passage {missing[0]!r} ({len(missing):,} of {len(ids):,} "
                "ids are missing): check the ids."
            )
        return [result[id] for id in ids]

    def source(self, source_id: str) -> list[Document]:
        """Return all passages of a `source_id`, in their order.

        Raises KnowledgeBaseError if there is none.
        """
        if not (result := self._read(lambda snapshot: snapshot.sources([source_id]))):
            raise KnowledgeBaseError(
                f"The knowledge base holds no source {source_id!r}: check the id."
            )
        return result[source_id]

    def by_names(self, names: Sequence[str]) -> list[Document]:
        """Return the passages with some ids or source ids, in the order of these."""
        by_id, by_source = self._read(
            lambda snapshot: (snapshot.get(names), snapshot.sources(names))
        )
        named: dict[str | None, Document] = {}
        for name in names:
            results = [by_id[name]] if name in by_id else []
            named |= {document.id: document for document in results + by_source.get(name, [])}
        return list(named.values())

    def ids(self) -> list[str]:
        """Return the ids of all passages, sorted."""
        return sorted(self._read(lambda snapshot: snapshot.table.read(["id"])["id"].to_pylist()))

    def documents(self) -> list[dict[str, Any]]:
        """Return `source_id`, `title`, `kind`, `year` and count of `passages` of each source."""
        columns = ["source_id", "title", "kind", "year"]
        rows = self._read(lambda snapshot: snapshot.table.read(columns, scan_in_order=True))
        grouped = rows.group_by("source_id", use_threads=False)
        table = grouped.aggregate([*((name, "first") for name in columns[1:]), ([], "count_all")])
        documents: list[dict[str, Any]] = table.rename_columns([*columns, "passages"]).to_pylist()
        return sorted(documents, key=itemgetter("source_id"))

    @property
    def term_statistics(self) -> "TermStatistics | None":
        """The counts of terms for BM25; None if the base is empty."""
        return self._read(lambda snapshot: snapshot.term_statistics) if len(self) else None

    @property
    def published(self) -> Manifest:
        """The state that answers come from."""
        stamp = self._place.stamp(MANIFEST_FILE)
        if stamp != self._stamp:
            with self._loading:
                self._published, self._stamp = _published(self._place), stamp
        return self._published

    def _read(self, read: "Callable[[Snapshot], _T]") -> _T:
        """Return the result of `read`, repeated if an update deletes the state meanwhile."""
        from briefcontext.knowledge.store.passages import Snapshot

        while True:
            manifest = self.published
            try:
                with self._loading:
                    if self._snapshot is None or self._snapshot.manifest.serial != manifest.serial:
                        self._snapshot = Snapshot(manifest)
                    snapshot = self._snapshot
                return read(snapshot)
            except KnowledgeBaseError:
                if self.published.serial == manifest.serial:
                    raise

    def verify(self) -> list[str]:
        """Return the problems of the base, a sentence each."""
        from briefcontext.knowledge.store.passages import verify

        return verify(self.published, self.encoder)


def knowledge_base_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a base's manifest with `path`, `state`, the `counts` of all sources, and `bytes`.

    `state` is `complete`, `building` if a build is not complete, or `half-built` if that is the
    first one. Raises KnowledgeBaseError if there is no base.
    """
    place = _place(path)
    published, draft = Manifest.published(place), Manifest.draft(place)
    manifest = published or draft or _published(place)
    counts = Counts.total(source.counts for source in manifest.sources)
    info = {
        "path": str(place),
        "state": "complete" if draft is None else "building" if published else "half-built",
        **manifest.model_dump(exclude=_HIDDEN | {"sources"}),
        "sources": [source.model_dump(exclude={"path"}) for source in manifest.sources],
        "counts": counts.model_dump(),
        "bytes": place.size(),
    }
    if published is None:
        info["records"] = counts.indexed - counts.deleted
    return info


def _place(path: str | os.PathLike[str]) -> Place:
    if path == DEMO:
        from briefcontext.knowledge.demo import demo_folder

        path = demo_folder()
    return open_place(path)


def _checked(encoder: "Encoder | str", manifest: Manifest) -> "Encoder":
    from briefcontext.knowledge.encoders import load_encoder

    manifest.check(loaded := load_encoder(encoder))
    return loaded


def _check(k: int) -> None:
    if k < 1:
        raise InputError(f"k is {k}: ask for at least 1 passage.")


def _published(place: Place) -> Manifest:
    if (manifest := Manifest.published(place)) is not None:
        return manifest
    if isinstance(place.path, Path) and place.path.is_file():
        why = f"{place} is a file: index it with `briefcontext index {place} --kb FOLDER`."
    elif isinstance(place.path, Path) and not place.path.is_dir():
        why = (
            f"There is no knowledge base at {place}: build one with "
            f"`briefcontext index SOURCE --kb {place}`."
        )
    elif Manifest.draft(place) is None:
        why = f"{place} is not a knowledge base (it has no {MANIFEST_FILE}): check the path."
    else:
        why = (
            f"{place} is half-built: wait until its build has ended, or finish it by the same "
            "index command."
        )
    raise KnowledgeBaseError(why)
