"""NCBI's published MedCPT embeddings of PubMed.

Each chunk at https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/ is three files:
`embeds_chunk_N.npy`, (n, 768) float32; `pmids_chunk_N.json`, the PMIDs of its rows;
`pubmed_chunk_N.json`, by PMID the date `d`, title `t`, abstract `a` and MeSH terms `m`.
"""

import json
import re
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import ijson  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, first_line
from briefcontext.knowledge.sources.publication import (
    NO_TITLE,
    citation,
    is_pmid,
    pubmed_url,
    year_in,
)
from briefcontext.knowledge.sources.source import (
    DAMAGED_GZIP,
    Entry,
    FileSource,
    Reject,
    UnreadableError,
    VectorDocument,
    file_errors,
    open_content,
)

READER_VERSION = 2
"""Goes up if files are read otherwise, so that they are read again."""
DIMENSION = 768
PARTS = re.compile(r"(?P<part>embeds|pmids|pubmed)_chunk_(?P<chunk>\w+)\.(?:npy|json)(?:\.gz)?")
DOWNLOAD = "https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/"


class MedCPTEmbeddings(FileSource):
    """A chunk, as a source of documents with vectors.

    Only the PMIDs are in memory. An article without a vector or a text is a reject, and so is a
    vector without an article.
    """

    encoder = "medcpt"
    """The encoder for queries to these vectors."""
    note = (
        "These files show a retraction only if an article's title begins with 'RETRACTED:'; "
        "PubMed XML that is indexed over them marks the others."
    )

    def __init__(self, path: Path, *, name: str) -> None:
        """Open a chunk by its `embeds_chunk_N.npy`.

        Raises UnreadableError if another part is missing, KnowledgeBaseError if one is damaged.
        """
        self._vectors_path, self._pmids_path = path, part_beside(path, "pmids")
        super().__init__(
            part_beside(path, "pubmed"),
            self._entries,
            name=name,
            reading=["medcpt", READER_VERSION],
            beside=[path, self._pmids_path],
        )
        self._vectors()

    def _vectors(self) -> tuple[NDArray[np.floating[Any]], dict[int, int]]:
        """Return the vectors, (n, 768), and the row of each PMID."""
        pmids = read_pmids(self._pmids_path).tolist()
        vectors = open_vectors(self._vectors_path, len(pmids))
        return vectors, {pmid: row for row, pmid in enumerate(pmids)}

    def _entries(self, stream: BufferedIOBase) -> Iterator[Entry]:
        vectors, rows = self._vectors()
        count, problem = len(rows), "None of the chunk's PMIDs has an article in it"
        try:
            for pmid, article in ijson.kvitems(stream, ""):
                row = rows.pop(int(pmid), None) if is_pmid(pmid) else None
                yield _entry(pmid, article, None if row is None else vectors[row])
            is_whole = len(rows) < count
        except (*DAMAGED_GZIP, ijson.JSONError) as error:
            is_whole, problem = False, f"It cannot be read from here on: {first_line(error)}"
        if is_whole:
            reason = f"It has a vector, and no article in {self.path.name}."
            yield from (Reject(f"PMID {pmid}", reason) for pmid in rows)
        else:
            place = f"{self.path.name} after {count - len(rows):,} articles"
            yield Reject(place, f"{problem}. Articles left out: {len(rows):,}.")


def read_pmids(path: Path) -> NDArray[np.int64]:
    """Return the PMIDs of a chunk. Raises KnowledgeBaseError if the file is damaged."""
    try:
        with open_content(path) as (stream, _):
            return np.array([int(pmid) for pmid in json.load(stream)], np.int64)
    except (*DAMAGED_GZIP, ValueError, TypeError) as error:
        raise _damaged(path, first_line(error)) from error


def open_vectors(path: Path, count: int) -> NDArray[np.floating[Any]]:
    """Return the vectors of a chunk with `count` PMIDs, which remain on the disk.

    Raises KnowledgeBaseError if the file is damaged or is of another chunk.
    """
    try:
        with file_errors(path):
            vectors: NDArray[np.floating[Any]] = np.load(path, mmap_mode="r")
    except (*DAMAGED_GZIP, ValueError) as error:
        raise _damaged(path, first_line(error)) from error
    if vectors.shape != (count, DIMENSION) or vectors.dtype.kind != "f":
        raise _damaged(path, f"{vectors.dtype} {vectors.shape} for {count:,} PMIDs")
    return vectors


def _damaged(path: Path, problem: str) -> KnowledgeBaseError:
    advice = f"Delete it and the file of PMIDs, and download both again from {DOWNLOAD}"
    return KnowledgeBaseError(f"{path} is damaged or incomplete ({problem}). {advice}.")


def part_beside(path: Path, part: str) -> Path:
    """Return the file of another part of the chunk. Raises UnreadableError if it is missing."""
    match = PARTS.fullmatch(path.name)
    if match is None:
        raise UnreadableError("its name is none of MedCPT's, such as embeds_chunk_0.npy")
    endings = (".npy",) if part == "embeds" else (".json", ".json.gz")
    names = [f"{part}_chunk_{match['chunk']}{ending}" for ending in endings]
    for beside in [path] if match["part"] == part else map(path.with_name, names):
        if beside.is_file():
            return beside
    raise UnreadableError(f"{path} needs {names[0]} beside it: download it from {DOWNLOAD}")


def _entry(pmid: str, article: Any, vector: NDArray[np.floating[Any]] | None) -> Entry:
    position = f"PMID {pmid}"
    if vector is None:
        return Reject(position, "It is not among the chunk's PMIDs, and has no vector.")
    if not isinstance(article, dict):
        return Reject(position, "Its article is not a JSON object.")
    date, title, abstract, mesh = (_text(article.get(name)) for name in "dtam")
    document = citation(
        pmid,
        position,
        title="" if title == NO_TITLE else title,
        abstract=abstract,
        metadata={"url": pubmed_url(pmid)},
        optional={"year": year_in(date[:4]), "mesh": mesh},
    )
    if isinstance(document, Reject):
        return document
    # A copy does not keep the mapped file open.
    return VectorDocument(document, np.array(vector, np.float32))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return "" if value is None else str(value).strip()
