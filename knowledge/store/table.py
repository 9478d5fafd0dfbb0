"""One table in Lance's format: read at one of its versions, or written to."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import lance
import pyarrow as pa

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.store.filters import one_of

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

INDEX_CACHE_BYTES = 3 << 29
METADATA_CACHE_BYTES = 1 << 28
"""What a table keeps in memory of its indexes, and of what it knows of its files, at most."""

_VALUES = 4096
"""How many values one condition lists."""


class Table:
    """A table. Safe to share between threads as long as none of them writes."""

    def __init__(self, uri: str, version: int | None = None) -> None:
        """Open a table, at its latest version or at another. Raises KnowledgeBaseError where that cannot be read."""
        self.uri = uri
        with self.errors():
            self.data: Any = lance.dataset(
                uri,
                version=version,
                index_cache_size_bytes=INDEX_CACHE_BYTES,
                metadata_cache_size_bytes=METADATA_CACHE_BYTES,
            )

    @classmethod
    def create(cls, uri: str, schema: pa.Schema) -> Self:
        """Make an empty table, in the place of whatever is there."""
        lance.write_dataset(schema.empty_table(), uri, mode="overwrite", data_storage_version="stable")
        return cls(uri)

    @classmethod
    def restore(cls, uri: str, version: int) -> Self:
        """Open a table to write to it, as it was at a version: what was written since is gone."""
        table = cls(uri, version)
        with table.errors():
            if table.data.latest_version != version:
                table.data.restore()
        return table

    @property
    def version(self) -> int:
        """The version that it is read at, which is the latest one after writing."""
        return int(self.data.version)

    def __len__(self) -> int:
        return self.count()

    def count(self, where: str | None = None) -> int:
        with self.errors():
            return int(self.data.count_rows(filter=where))

    def read(self, columns: Sequence[str], where: str | None = None, **options: Any) -> pa.Table:
        """Some columns of the rows that fulfil a condition in SQL; `options` are those of Lance's scanner."""
        with self.errors():
            return self.data.scanner(columns=list(columns), filter=where, **options).to_table()

    def pages(self, columns: Sequence[str], **options: Any) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, in order, little by little."""
        with self.errors():
            yield from self.data.scanner(columns=list(columns), scan_in_order=True, **options).to_batches()

    def find(self, columns: Sequence[str], by: str, values: Iterable[object], also: str | None = None) -> pa.Table:
        """Some columns of the rows that have one of the values in the column `by`."""
        found = [self.read(columns, f"{part} AND ({also})" if also else part) for part in _parts(by, values)]
        return pa.concat_tables(found) if found else self.data.schema.empty_table().select(list(columns))

    def take(self, places: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows at some places, counted from 0."""
        with self.errors():
            return self.data.take(list(places), columns=list(columns))

    def append(self, rows: "pa.Table | list[FragmentMetadata]") -> None:
        """Add rows, or what `lance.fragment.write_fragments` has put beside the table."""
        with self._alone():
            if isinstance(rows, list):
                operation = lance.LanceOperation.Append(rows)
                self.data = lance.LanceDataset.commit(self.data, operation, read_version=self.version)
            else:
                self.data.insert(rows)

    def delete(self, by: str, values: Iterable[object]) -> None:
        """Take out the rows that have one of the values in the column `by`."""
        for condition in _parts(by, values):
            with self._alone():
                self.data.delete(condition)

    def clean(self) -> None:
        """Remove from the disk what only earlier versions need, and what writers that were killed left."""
        with self.errors():
            self.data.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change, and nobody else's meanwhile: Lance would put both into the table."""
        before = self.version
        with self.errors():
            yield
        if self.version > before + 1:
            raise KnowledgeBaseError(f"{self.uri} is written to by another process, too: wait until it has ended.")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Whatever Lance raises as a KnowledgeBaseError."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            what = str(error).split(", /", 1)[0].strip()
            raise KnowledgeBaseError(
                f"{self.uri} cannot be used ({what}): free space or permissions if that is what it says; else run the "
                "index command again, or build the knowledge base in another folder."
            ) from error


def _parts(by: str, values: Iterable[object]) -> Iterator[str]:
    distinct = list(dict.fromkeys(values))
    for start in range(0, len(distinct), _VALUES):
        yield one_of(by, distinct[start : start + _VALUES])
