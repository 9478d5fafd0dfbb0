"""NCBI's published MedCPT embeddings of PubMed, indexed without encoding anything again.

Each of the 38 chunks at https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/ is three files:
`embeds_chunk_N.npy`, (n, 768) float32; `pmids_chunk_N.json`, the PMIDs of its n rows; `pubmed_chunk_N.json`,
an object with a PMID's date, title, abstract and MeSH terms as `d`, `t`, `a` and `m`.
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
    has_retracted_title,
    is_pmid,
    pubmed_url,
    record,
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
"""Goes up when other entries are made of the same files, so that they are read again."""
DIMENSION = 768
PARTS = re.compile(r"(?P<part>embeds|pmids|pubmed)_chunk_(?P<chunk>\w+)\.(?:npy|json)(?:\.gz)?")
ENDINGS = {"embeds": (".npy",), "pmids": (".json", ".json.gz"), "pubmed": (".json", ".json.gz")}
DOWNLOAD = "https://ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings/"


class MedCPTEmbeddings(FileSource):
    """One chunk, as a source of documents with their vectors. `size` counts the bytes of its articles' file.

    Only its PMIDs are held in memory. An article without an abstract has its title as its text, and `kind` says
    `title`; one without a vector or any text is a reject, and so is a vector without an article.
    """

    encoder = "medcpt"
    """The only encoder that queries to these vectors can be encoded with."""
    note = (
        "These files tell of a retraction only where an article's title begins with 'RETRACTED:'; PubMed XML that is "
        "indexed over them marks the others."
    )

    def __init__(self, path: Path, *, name: str) -> None:
        """Open a chunk by its `embeds_chunk_N.npy`, with its other two parts beside it.

        Raises UnreadableError when a part is missing, and KnowledgeBaseError when one is damaged, or of another size
        than the others.
        """
        self._vectors_path, self._pmids_path = path, part_beside(path, "pmids")
        super().__init__(
            part_beside(path, "pubmed"),
            self._matched,
            name=name,
            reading=["medcpt", READER_VERSION],
            beside=[path, self._pmids_path],
        )
        rows, pmids = len(self._vectors()), len(self._pmids())
        if rows != pmids:
            raise KnowledgeBaseError(
                f"{path} has {rows:,} vectors and {self._pmids_path} {pmids:,} PMIDs: download both again from "
                f"{DOWNLOAD}."
            )

    def _matched(self, stream: BufferedIOBase) -> Iterator[Entry]:
        """The chunk's articles in the order of their file, then a reject for each vector left over."""
        vectors, rows = self._vectors(), {pmid: row for row, pmid in enumerate(self._pmids())}
        listed, problem = len(rows), ""
        try:
            for pmid, article in _articles(stream):
                row = rows.pop(int(pmid), None) if is_pmid(pmid) else None
                yield _entry(pmid, article, None if row is None else vectors[row])
        except DAMAGED_GZIP as error:
            problem = f"The compressed data is damaged: {error}"
        except ijson.JSONError as error:
            problem = f"The JSON could not be read from here on: {first_line(error)}"
        read = listed - len(rows)
        if problem or not read:
            explanation = problem or "None of the chunk's PMIDs has an article in it"
            yield Reject(
                f"{self.path.name} after {read:,} articles", f"{explanation}. Articles left out: {len(rows):,}."
            )
            return
        for unread in rows:
            yield Reject(f"PMID {unread}", f"It has a vector, and no article in {self.path.name}.")

    def _vectors(self) -> NDArray[np.floating[Any]]:
        try:
            with file_errors(self._vectors_path):
                vectors = np.load(self._vectors_path, mmap_mode="r")
        except (ValueError, EOFError) as error:
            raise KnowledgeBaseError(
                f"{self._vectors_path} is damaged or incomplete ({first_line(error)}): download it again from "
                f"{DOWNLOAD}."
            ) from error
        if vectors.ndim != 2 or vectors.shape[1] != DIMENSION or vectors.dtype.kind != "f":
            raise KnowledgeBaseError(
                f"{self._vectors_path} holds an array of shape {vectors.shape} and type {vectors.dtype}, where "
                f"MedCPT's vectors are (n, {DIMENSION}) float32: it is something else."
            )
        return vectors  # type: ignore[no-any-return]

    def _pmids(self) -> list[int]:
        try:
            with open_content(self._pmids_path) as (stream, _):
                pmids = json.load(stream)
            if not isinstance(pmids, list):
                raise TypeError(f"it is a {type(pmids).__name__}")
            return list(np.array([int(pmid) for pmid in pmids], np.int64).tolist())
        except (*DAMAGED_GZIP, ValueError, TypeError, OverflowError) as error:
            raise KnowledgeBaseError(
                f"{self._pmids_path} is not a list of PMIDs ({first_line(error)}): download it again from {DOWNLOAD}."
            ) from error


def part_beside(path: Path, part: str) -> Path:
    """The file with another part (`embeds`, `pmids`, `pubmed`) of the chunk that `path` is a part of.

    Raises UnreadableError when it is missing.
    """
    match = PARTS.fullmatch(path.name)
    if match is None:
        raise UnreadableError("its name is none of MedCPT's, such as embeds_chunk_0.npy")
    if match["part"] == part:
        return path
    names = [f"{part}_chunk_{match['chunk']}{ending}" for ending in ENDINGS[part]]
    for beside in map(path.with_name, names):
        if beside.is_file():
            return beside
    raise UnreadableError(f"{path} needs {names[0]} beside it: download it from {DOWNLOAD}")


def _articles(stream: BufferedIOBase) -> Iterator[tuple[str, Any]]:
    """Each article with its PMID. Where the file cannot be read on, those before the break come first."""
    # ijson's own loop would drop the articles that it read in the chunk of the break.
    articles = ijson.sendable_list()
    parser = ijson.kvitems_coro(articles, "")
    chunk = b"-"
    while chunk:
        try:
            if chunk := stream.read1(1 << 16):
                parser.send(chunk)
            else:
                parser.close()
        finally:
            yield from articles
            articles.clear()


def _entry(pmid: str, article: Any, vector: NDArray[np.floating[Any]] | None) -> Entry:
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
    optional = {
        "year": year_in(_text(article.get("d"))[:4]),
        "mesh": _text(article.get("m")),
        # Nothing else in these files would tell, so that it is not retracted is not said.
        "retracted": has_retracted_title(title),
    }
    kind, metadata = "abstract" if abstract else "title", {"url": pubmed_url(pmid)}
    document = record(pmid, text, title=title, kind=kind, metadata=metadata, optional=optional)
    # A copy, which does not keep the mapped file open.
    return VectorDocument(document, np.array(vector, np.float32))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return "" if value is None else str(value).strip()
