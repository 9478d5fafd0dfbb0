"""Writing a BM25 index in two passes over files, so that a corpus need not fit into memory."""

import json
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from briefcontext.knowledge.tokenizer import TOKENIZER, tokenize

__all__ = ["BM25_B", "BM25_K1", "INDEX_FILE", "INDEX_FORMAT", "build_index"]

BM25_K1 = 1.2
"""How far more occurrences of a term count for more; Lucene's default."""
BM25_B = 0.75
"""How much a passage's length counts against it; Lucene's default."""

INDEX_FORMAT = {"format": 1, "tokenizer": TOKENIZER, "k1": BM25_K1, "b": BM25_B}
"""What an index must have been built with to be searched."""
INDEX_FILE = "index.json"

# Some tens of megabytes.
_CHUNK_OCCURRENCES = 1_000_000


def build_index(
    passages: Iterable[tuple[str, str]], folder: Path, *, chunk_occurrences: int = _CHUNK_OCCURRENCES
) -> None:
    """Index passages, each an id and its text, into a folder; an index there is replaced at the end.

    Memory holds `chunk_occurrences` at a time: pairs of a passage and a term in it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished, replaced = (folder.with_name(f"{folder.name}.{state}") for state in ("unfinished", "replaced"))
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        with (unfinished / "occurrences.tmp").open("w+b") as file:
            _write_index(_Occurrences(passages, file, chunk_occurrences), unfinished)
        (unfinished / "occurrences.tmp").unlink()
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    shutil.rmtree(replaced, ignore_errors=True)
    if folder.exists():
        folder.rename(replaced)
    unfinished.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)


class _Occurrences:
    """The first pass: which terms each passage holds and how often, passage after passage, in a file."""

    def __init__(self, passages: Iterable[tuple[str, str]], file: IO[bytes], chunk: int) -> None:
        self.vocabulary: dict[str, int] = {}
        """Terms, numbered as they came."""
        self.lengths = array("i")
        """Number of terms in each passage, repeats counted."""
        self.ids = bytearray()
        self.id_offsets = array("q", [0])
        self._file = file
        self._distinct = array("i")
        self._chunk_ends = [0]
        terms, counts = array("i"), array("i")
        for id, text in passages:
            words = tokenize(text)
            frequencies = Counter(words)
            terms.extend(self.vocabulary.setdefault(term, len(self.vocabulary)) for term in frequencies)
            counts.extend(frequencies.values())
            self.lengths.append(len(words))
            self._distinct.append(len(frequencies))
            self.ids += id.encode()
            self.id_offsets.append(len(self.ids))
            if len(terms) >= chunk:
                self._flush(terms, counts)
        self._flush(terms, counts)

    def _flush(self, terms: "array[int]", counts: "array[int]") -> None:
        for values in (terms, counts):
            values.tofile(self._file)
            del values[:]
        self._chunk_ends.append(len(self.lengths))

    def chunks(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
        """Read the file: passage number, term number and count of each occurrence, ordered by passage."""
        self._file.seek(0)
        for start, end in zip(self._chunk_ends, self._chunk_ends[1:], strict=False):
            passages = np.repeat(np.arange(start, end, dtype=np.int32), self._distinct[start:end])
            terms, counts = (np.fromfile(self._file, np.int32, len(passages)) for _ in range(2))
            yield passages, terms, counts


def _write_index(occurrences: _Occurrences, folder: Path) -> None:
    """The second pass: the occurrences put in the order of their terms, and scored."""
    lengths = np.asarray(occurrences.lengths, dtype=np.int64)
    average_length = float(lengths.mean()) if len(lengths) else 0.0
    vocabulary = sorted(occurrences.vocabulary)
    place_in_vocabulary = np.empty(len(vocabulary), dtype=np.int32)
    place_in_vocabulary[[occurrences.vocabulary[term] for term in vocabulary]] = np.arange(len(vocabulary))

    frequency = np.zeros(len(vocabulary), dtype=np.int64)
    for _, terms, _ in occurrences.chunks():
        frequency += np.bincount(place_in_vocabulary[terms], minlength=len(vocabulary))
    postings = np.concatenate([[0], np.cumsum(frequency)])
    idf = np.log1p((len(lengths) - frequency + 0.5) / (frequency + 0.5))

    documents, scores = (
        open_memmap(folder / f"{name}.npy", "w+", dtype, (int(postings[-1]),))
        for name, dtype in (("documents", np.int32), ("scores", np.float32))
    )
    next_posting = postings[:-1].copy()
    for passages, terms, counts in occurrences.chunks():
        by_term = np.argsort(place_in_vocabulary[terms], kind="stable")
        passages, terms, counts = passages[by_term], place_in_vocabulary[terms][by_term], counts[by_term]
        present, first, size = np.unique(terms, return_index=True, return_counts=True)
        target = next_posting[terms] + np.arange(len(terms)) - np.repeat(first, size)
        relative_length = 1 - BM25_B + BM25_B * lengths[passages] / average_length
        documents[target] = passages
        scores[target] = idf[terms] * counts * (BM25_K1 + 1) / (counts + BM25_K1 * relative_length)
        next_posting[present] += size
    documents.flush()
    scores.flush()

    np.save(folder / "postings.npy", postings)
    _save_strings(folder, "ids", occurrences.ids, occurrences.id_offsets)
    encoded = [term.encode() for term in vocabulary]
    _save_strings(folder, "terms", b"".join(encoded), np.cumsum([0, *map(len, encoded)]))
    header = INDEX_FORMAT | {"n_documents": len(lengths), "average_length": average_length}
    (folder / INDEX_FILE).write_text(json.dumps(header, indent=2) + "\n", encoding="utf-8")


def _save_strings(folder: Path, name: str, encoded: bytes | bytearray, offsets: Any) -> None:
    np.save(folder / f"{name}.npy", np.frombuffer(encoded, dtype=np.uint8))
    np.save(folder / f"{name}_offsets.npy", np.asarray(offsets, dtype=np.int64))
