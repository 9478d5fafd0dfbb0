"""PubMed's baseline, its daily updates and NCBI's MedCPT vectors, as sources.

https://ftp.ncbi.nlm.nih.gov/pubmed/ has the folders `baseline` and `updatefiles`, whose files are
numbered through: pubmed26n0001.xml.gz, each with an .md5 file. `medcpt_embeddings` describes the
vectors.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from briefcontext.errors import KnowledgeBaseError, problems
from briefcontext.knowledge.pubmed.download import Downloads
from briefcontext.knowledge.sources.limited import LimitedFile, ReadLimits
from briefcontext.knowledge.sources.medcpt_embeddings import open_vectors, read_pmids
from briefcontext.knowledge.sources.pubmed_xml import read_pubmed_xml
from briefcontext.knowledge.sources.source import Entry, Reject, VectorDocument
from briefcontext.knowledge.store.filters import NO_FILTERS, Filters, matches
from briefcontext.knowledge.store.place import Place

PUBMED_URL = "https://ftp.ncbi.nlm.nih.gov/pubmed/"
PUBMED_VARIABLE = "BRIEFCONTEXT_PUBMED_URL"
"""The environment variable with the address of a mirror."""
VECTORS_URL = "https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/"
VECTORS_VARIABLE = "BRIEFCONTEXT_MEDCPT_URL"
BASELINE, UPDATES = "baseline", "updatefiles"
STATE_FILE = "pubmed.json"
"""The options of a base of PubMed."""
RECORDS_PER_FILE = 30_000

_FILE = re.compile(r"pubmed(\d\d)n(\d{4,})\.xml\.gz")
_CHUNK = re.compile(r"embeds_chunk_(\w+)\.npy")


@dataclass(frozen=True, slots=True)
class Options:
    """The contents of a base of PubMed."""

    filters: Filters = NO_FILTERS
    embeddings: bool = False
    """Whether NCBI's vectors are used."""

    def save(self, place: Place) -> None:
        place.write(STATE_FILE, TypeAdapter(Options).dump_json(self))

    @classmethod
    def load(cls, place: Place) -> "Options | None":
        """Read the options of a base; None if it is not a base of PubMed."""
        if (content := place.read(STATE_FILE)) is None:
            return None
        try:
            return TypeAdapter(Options).validate_json(content)
        except ValidationError as error:
            raise KnowledgeBaseError(
                f"{place}/{STATE_FILE} is damaged ({problems(error)}). Restore it, or build the "
                "base again."
            ) from error


@dataclass(frozen=True, slots=True)
class Release:
    """A numbered file of PubMed."""

    folder: str
    name: str

    @property
    def year(self) -> int:
        return int(self.name[6:8])

    @property
    def number(self) -> int:
        return int(self.name[9:].partition(".")[0])


class Mirror:
    """NCBI's files on a server, and their downloads."""

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        pubmed = os.environ.get(PUBMED_VARIABLE, "").strip() or PUBMED_URL
        vectors = os.environ.get(VECTORS_VARIABLE, "").strip() or VECTORS_URL
        self._files = {
            part: Downloads(f"{pubmed.rstrip('/')}/{part}", folder, keep=keep)
            for part in (BASELINE, UPDATES)
        }
        self.vectors = Downloads(vectors, folder, keep=keep)

    def releases(self, part: str) -> list[Release]:
        """Return the files of the baseline or of the updates, in NCBI's order.

        Raises KnowledgeBaseError if one is missing among them.
        """
        names = self._files[part].names(_FILE)
        releases = sorted(
            (Release(part, name) for name in names), key=lambda each: (each.year, each.number)
        )
        for earlier, later in pairwise(releases):
            if later.year == earlier.year and later.number != earlier.number + 1:
                raise KnowledgeBaseError(_gap(earlier.year, earlier.number + 1, part))
        return releases

    def size(self, releases: Sequence[Release]) -> int:
        """Estimate the bytes of files by a few of them."""
        sample = [releases[len(releases) * step // 8] for step in range(8)] if releases else []
        sizes = [self._files[each.folder].size(each.name) for each in dict.fromkeys(sample)]
        return round(sum(sizes) / len(sizes) * len(releases)) if sizes else 0

    def chunks(self) -> list[str]:
        """Return the names of the chunks of vectors."""
        return [
            match[1] for name in self.vectors.names(_CHUNK) if (match := _CHUNK.fullmatch(name))
        ]

    def download(self, release: Release) -> Downloads:
        return self._files[release.folder]

    def close(self) -> None:
        for downloads in (*self._files.values(), self.vectors):
            downloads.close()


def _gap(year: int, number: int, part: str) -> str:
    name = f"pubmed{year}n{number:04}.xml.gz"
    return (
        f"{name} is missing in NCBI's {part}, and files have to be read in order. Try again later."
    )


def due_updates(updates: Sequence[Release], done: Sequence[str]) -> list[Release]:
    """Return the update files that a base with the files `done` does not have, in order.

    Raises KnowledgeBaseError if a file is missing between, or NCBI has the files of another year.
    """
    held = [Release("", name) for name in done if _FILE.fullmatch(name)]
    if not held:
        return list(updates)
    last = max(held, key=lambda each: (each.year, each.number))
    due = [each for each in updates if (each.year, each.number) > (last.year, last.number)]
    if due and due[0].year != last.year:
        raise KnowledgeBaseError(
            f"This base follows PubMed's baseline of 20{last.year}, and NCBI has the files of "
            f"20{due[0].year}. Run `briefcontext pubmed build` on it."
        )
    if due and due[0].number != last.number + 1:
        raise KnowledgeBaseError(_gap(last.year, last.number + 1, UPDATES))
    return due


class Vectors:
    """NCBI's vectors by PMID. A chunk is downloaded when one of its articles is read."""

    def __init__(self, downloads: Downloads, chunks: Sequence[str]) -> None:
        self._downloads, self._chunks = downloads, chunks
        names = [f"pmids_chunk_{chunk}.json" for chunk in chunks]
        for name in names:
            downloads.start(name, checked=False)
        rows = [read_pmids(downloads.get(name, checked=False)) for name in names]
        self._pmids = np.concatenate([np.empty(0, np.int64), *rows])
        self._order = np.argsort(self._pmids, kind="stable")
        self._starts = np.cumsum([0, *map(len, rows)])
        self._open: dict[int, NDArray[np.floating[Any]]] = {}
        self._names = names

    def find(self, pmid: str) -> NDArray[np.float32] | None:
        """Return the vector (d,) of an article; None if there is none."""
        place = int(np.searchsorted(self._pmids, int(pmid), sorter=self._order))
        if place == len(self._order) or self._pmids[row := int(self._order[place])] != int(pmid):
            return None
        chunk = int(np.searchsorted(self._starts, row, side="right")) - 1
        return np.array(self._chunk(chunk)[row - self._starts[chunk]], np.float32)

    def _chunk(self, number: int) -> NDArray[np.floating[Any]]:
        if number not in self._open:
            name = f"embeds_chunk_{self._chunks[number]}.npy"
            path = self._downloads.get(name, checked=False)
            count = int(self._starts[number + 1] - self._starts[number])
            self._open[number] = open_vectors(path, count)
        return self._open[number]

    def close(self) -> None:
        """Delete the chunks, unless files are kept."""
        for number in [*self._open]:
            del self._open[number]
            self._downloads.done(f"embeds_chunk_{self._chunks[number]}.npy")
        for name in self._names:
            self._downloads.done(name)


class ReleaseSource:
    """A file of PubMed: downloaded when it is read, filtered, and deleted afterwards.

    Its fingerprint is its name with the options: NCBI does not change its files.
    """

    consumed = 0
    size: int | None = None

    def __init__(
        self,
        mirror: Mirror,
        release: Release,
        options: Options,
        *,
        vectors: Vectors | None = None,
        following: Release | None = None,
        report: Callable[["ReleaseSource"], None] | None = None,
    ) -> None:
        self._mirror, self._release, self._options = mirror, release, options
        self._vectors, self._following, self._report = vectors, following, report
        self.read = self.left_out = 0
        """Records read, and those of them that the filters leave out."""
        if vectors is not None:
            self.encoder = "medcpt"

    @property
    def name(self) -> str:
        return self._release.name

    @property
    def fingerprint(self) -> str:
        return f"pubmed:{self.name}:{self._options.filters}"

    def entries(self) -> Iterator[Entry]:
        downloads, filters = self._mirror.download(self._release), self._options.filters
        self.read = self.left_out = self.consumed = 0
        path = downloads.get(self.name)
        if self._following is not None:
            self._mirror.download(self._following).start(self._following.name)
        file = LimitedFile(path, read_pubmed_xml, name=self.name, reading=[], limits=ReadLimits())
        self.size = file.size
        for entry in file.entries():
            self.read += 1
            self.consumed = file.consumed
            if isinstance(entry, Reject) and not entry.position.startswith("record "):
                # The file is rejected from here on, and not one of its records.
                raise KnowledgeBaseError(f"{path} cannot be read to its end. {entry.reason}")
            if isinstance(entry, Document) and filters and not matches(entry, filters):
                self.left_out += 1
                continue
            yield self._with_vector(entry)
        downloads.done(self.name)
        if self._report is not None:
            self._report(self)

    def _with_vector(self, entry: Entry) -> Entry:
        if self._vectors is None or not isinstance(entry, Document):
            return entry
        vector = self._vectors.find(str(entry.id))
        return entry if vector is None else VectorDocument(entry, vector)


def release_sources(
    mirror: Mirror,
    releases: Sequence[Release],
    options: Options,
    *,
    vectors: Vectors | None = None,
    report: Callable[[ReleaseSource], None] | None = None,
) -> list[ReleaseSource]:
    """Return files as sources."""
    followers = [*releases[1:], None]
    return [
        ReleaseSource(mirror, release, options, vectors=vectors, following=following, report=report)
        for release, following in zip(releases, followers, strict=True)
    ]


def finished_releases(sources: Sequence[Any]) -> list[str]:
    """Return the names of the files of PubMed that were read to their end."""
    return [source.name for source in sources if source.finished and _FILE.fullmatch(source.name)]
