"""NCBI's published MedCPT embeddings of PubMed, indexed without encoding anything again.

Each of the 38 chunks at https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/ is three files:
`embeds_chunk_N.npy`, (n, 768) float32; `pmids_chunk_N.json`, the PMIDs of its n rows; `pubmed_chunk_N.json`,
an object with a PMID's date, title, abstract and MeSH terms as `d`, `t`, `a` and `m`.
"""

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.errors import KnowledgeBaseError, first_line
from briefcontext.knowledge.sources.file_source import DAMAGED_GZIP, file_errors, fingerprint, open_content
from briefcontext.knowledge.sources.publication import NO_TITLE, has_retracted_title, is_pmid, pubmed_url, year_in
from briefcontext.knowledge.sources.records import Reject
from briefcontext.knowledge.sources.source import SourceEntry, VectorDocument

DIMENSION = 768
PARTS = re.compile(r"(?P<part>embeds|pmids|pubmed)_chunk_(?P<chunk>\w+)\.(?:npy|json)(?:\.gz)?")
DOWNLOAD = "https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/"

CHUNK_BYTES = 1 << 16


class _BreakError(Exception):
    """The rest of a file cannot be read."""


class MedCPTEmbeddings:
    """One chunk, as a source of documents with their vectors. `size` counts the bytes of its articles' file.

    A chunk's articles are read one by one and its vectors are memory-mapped; only its PMIDs are held. An article
    without an abstract has its title as its text, and `kind` says `title`. An article without a vector, a vector
    without an article, and an article with neither title nor abstract are rejects. An article is `retracted` where its
    title says so; nothing else in these files would tell.
    """

    format = "medcpt"
    encoder = "medcpt"
    """The only encoder that queries to these vectors can be encoded with."""
    note = (
        "These files tell of a retraction only where an article's title begins with 'RETRACTED:'; PubMed XML that is "
        "indexed over them marks the others."
    )

    def __init__(self, path: Path, *, name: str, version: int) -> None:
        """Open the three parts of a chunk.

        Args:
            path: `embeds_chunk_N.npy`, with its other two parts beside it.
            name: what people call it.
            version: of the reader, part of the fingerprint.

        Raises:
            KnowledgeBaseError: a part is missing, damaged, or of another size than the others.
        """
        self.path = path
        self.name = name
        self.consumed = 0
        self._version = version
        self._pmids_path = part_beside(path, "pmids")
        self._articles_path = part_beside(path, "pubmed")
        with file_errors(self._articles_path):
            self.size = self._articles_path.stat().st_size
        rows, pmids = len(self._vectors()), len(self._pmids())
        if rows != pmids:
            raise KnowledgeBaseError(
                f"{path} has {rows:,} vectors and {self._pmids_path} {pmids:,} PMIDs: download both again from "
                f"{DOWNLOAD}."
            )

    @cached_property
    def fingerprint(self) -> str:
        """`sha256:…` of the three files; computed when it is first asked for."""
        return fingerprint([self.path, self._pmids_path, self._articles_path], [self.format, self._version])

    def entries(self) -> Iterator[SourceEntry]:
        """The chunk's articles in the order of their file, then a reject for each vector left over."""
        self.consumed = 0
        vectors, pmids = self._vectors(), self._pmids()
        order = np.argsort(pmids, kind="stable")
        used = np.zeros(len(pmids), bool)
        problem = ""
        with file_errors(self._articles_path), open_content(self._articles_path, self._count) as stream:
            try:
                for pmid, article in _articles(stream):
                    row = _row(pmid, pmids, order)
                    if row is not None:
                        used[row] = True
                    yield _entry(pmid, article, None if row is None else vectors[row])
            except _BreakError as reason:
                problem = str(reason)
        left = pmids[~used]
        if problem or not used.any():
            explanation = problem or "None of the chunk's PMIDs has an article in it"
            yield Reject(
                f"{self._articles_path.name} after {used.sum():,} articles",
                f"{explanation}. {len(left):,} articles are left out.",
            )
            return
        for pmid in left:
            yield Reject(f"PMID {pmid}", f"It has a vector, and no article in {self._articles_path.name}.")

    def _vectors(self) -> NDArray[np.floating[Any]]:
        try:
            with file_errors(self.path):
                vectors = np.load(self.path, mmap_mode="r")
        except (ValueError, EOFError) as error:
            raise KnowledgeBaseError(
                f"{self.path} is damaged or incomplete ({first_line(error)}): download it again from {DOWNLOAD}."
            ) from error
        if vectors.ndim != 2 or vectors.shape[1] != DIMENSION or vectors.dtype.kind != "f":
            raise KnowledgeBaseError(
                f"{self.path} holds an array of shape {vectors.shape} and type {vectors.dtype}, where MedCPT's "
                f"vectors are (n, {DIMENSION}) float32: it is something else."
            )
        return vectors  # type: ignore[no-any-return]

    def _pmids(self) -> NDArray[np.int64]:
        try:
            with file_errors(self._pmids_path), open_content(self._pmids_path) as stream:
                pmids = json.load(stream)
            if not isinstance(pmids, list):
                raise TypeError(f"it is a {type(pmids).__name__}")
            return np.array([int(pmid) for pmid in pmids], np.int64)
        except (*DAMAGED_GZIP, ValueError, TypeError, OverflowError) as error:
            raise KnowledgeBaseError(
                f"{self._pmids_path} is not a list of PMIDs ({first_line(error)}): download it again from {DOWNLOAD}."
            ) from error

    def _count(self, size: int) -> None:
        self.consumed += size


def part_beside(path: Path, part: str) -> Path:
    """The file with another part (`embeds`, `pmids`, `pubmed`) of the chunk that `path` is a part of.

    Raises KnowledgeBaseError when it is missing.
    """
    match = PARTS.fullmatch(path.name)
    if match is None:
        raise KnowledgeBaseError(f"{path} is none of MedCPT's files, such as embeds_chunk_0.npy: check the path.")
    if match["part"] == part:
        return path
    name = f"{part}_chunk_{match['chunk']}" + (".npy" if part == "embeds" else ".json")
    for beside in (path.with_name(name), path.with_name(f"{name}.gz")):
        if beside.is_file() and not (part == "embeds" and beside.suffix == ".gz"):
            return beside
    raise KnowledgeBaseError(f"{path} needs {name} beside it: download it from {DOWNLOAD}.")


def _articles(stream: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Each article with its PMID; raises _BreakError where the file cannot be read on."""
    import ijson  # type: ignore[import-untyped]

    # ijson's own loop would drop the articles that it read in the chunk of the break.
    articles = ijson.sendable_list()
    parser = ijson.kvitems_coro(articles, "")
    read = getattr(stream, "read1", stream.read)
    problem, chunk = "", b"-"
    while chunk and not problem:
        try:
            if chunk := read(CHUNK_BYTES):
                parser.send(chunk)
            else:
                parser.close()
        except DAMAGED_GZIP as error:
            problem = f"The compressed data is damaged: {error}"
        except ijson.JSONError as error:
            problem = f"The JSON could not be read from here on: {first_line(error)}"
        yield from articles
        articles.clear()
    if problem:
        raise _BreakError(problem)


def _row(pmid: str, pmids: NDArray[np.int64], order: NDArray[np.intp]) -> int | None:
    if not is_pmid(pmid) or len(pmid) > 18:
        return None
    number = int(pmid)
    place = int(np.searchsorted(pmids, number, sorter=order))
    return int(order[place]) if place < len(order) and pmids[order[place]] == number else None


def _entry(pmid: str, article: Any, vector: NDArray[np.floating[Any]] | None) -> SourceEntry:
    position = f"PMID {pmid}"
    if vector is None:
        return Reject(position, "It is not among the chunk's PMIDs, and has no vector.")
    if not isinstance(article, dict):
        return Reject(position, "Its article is not a JSON object.")
    title = _text(article.get("t"))
    title = "" if title == NO_TITLE else title
    abstract = _text(article.get("a"))
    text = abstract or title
    if not text:
        return Reject(position, "It has neither a title nor an abstract.")
    metadata: dict[str, str | int | bool] = {
        "source_id": pmid,
        "title": title,
        "kind": "abstract" if abstract else "title",
        "url": pubmed_url(pmid),
        "chunk_index": 0,
        "start": 0,
        "end": len(text),
    }
    if year := year_in(_text(article.get("d"))[:4]):
        metadata["year"] = year
    if mesh := _text(article.get("m")):
        metadata["mesh"] = mesh
    if has_retracted_title(title):
        # Without such a title nothing is known: that it is not retracted is not said.
        metadata["retracted"] = True
    document = Document(id=pmid, page_content=text, metadata=metadata)
    # A copy, which does not keep the mapped file open.
    return VectorDocument(document, np.array(vector, np.float32))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return "" if value is None else str(value).strip()
