"""The BM25 index of a knowledge base: made from its passages, and replaced as a whole."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.passages import PassageStore

if TYPE_CHECKING:
    from briefcontext.knowledge.bm25_index import BM25Index

BM25_FOLDER = "bm25"

BM25_STALE = "bm25_stale"
"""The mark that passages have changed since the BM25 index in use was made."""
TERMS_GENERATION = "terms_generation"
"""The mark that numbers the index in use; 0: none, or one that stands in the folder itself, as it once did."""


def open_terms(folder: Path, generation: int) -> "BM25Index":
    """The BM25 index of a finished knowledge base."""
    from briefcontext.knowledge.bm25_index import BM25Index

    return BM25Index.open(_place(folder, generation))


def _place(folder: Path, generation: int) -> Path:
    return folder / BM25_FOLDER / str(generation) if generation else folder / BM25_FOLDER


class TermIndexBuild:
    """The next generation of a base's BM25 index; the one in use stays as it is until `publish`."""

    def __init__(self, folder: Path, passages: PassageStore) -> None:
        self._folder = folder
        self._passages = passages
        self._generation = passages.mark(TERMS_GENERATION)

    def current(self) -> bool:
        """Whether the index in use can be opened and is that of the passages as they are."""
        if self._passages.mark(BM25_STALE):
            return False
        try:
            open_terms(self._folder, self._generation)
        except KnowledgeBaseError:
            return False
        return True

    def finish(self) -> None:
        """Make it, when passages have changed since the one in use was made, or when that cannot be used."""
        from briefcontext.knowledge.bm25_index import BM25Index
        from briefcontext.knowledge.tokenizer import lexical_text

        if self.current():
            return
        texts = (
            (str(passage.id), lexical_text(passage.metadata["title"], passage.page_content))
            for passage in self._passages.all()
        )
        self._generation += 1
        BM25Index.build(texts, _place(self._folder, self._generation))

    def publish(self) -> None:
        """Put it to use, inside the caller's transaction."""
        self._passages.set_mark(TERMS_GENERATION, self._generation)
        self._passages.set_mark(BM25_STALE, 0)

    def clean(self) -> None:
        """Remove what is not in use any more."""
        if not self._generation:
            return
        for old in (self._folder / BM25_FOLDER).glob("*"):
            if old.is_file():
                old.unlink(missing_ok=True)
            elif old.name != str(self._generation):
                shutil.rmtree(old, ignore_errors=True)
