"""The reader without a language model: it returns the documents' own sentences."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.chains.citation import cite
from briefcontext.chains.extraction import Extraction, Quote
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft
from briefcontext.sentences import split_sentences

__all__ = ["ExtractiveReader", "SentenceEncoder"]

SENTENCES_PER_PARTITION = 2
SENTENCES_PER_ANSWER = 4
MIN_SENTENCE_CHARACTERS = 25
"""Shorter pieces are headings and fragments."""

_PREFACE = "The sentences closest to the question, copied word for word; nothing was inferred from them:"
_NO_CHOICE = "The extractive reader copies sentences and does not reason: use a model to choose among options."


class SentenceEncoder(Protocol):
    """The methods of an encoder that this reader uses."""

    @property
    def relevance_floor(self) -> float | None:
        """The similarity below which a sentence is taken to be unrelated; None where it is unknown."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return question vectors, `(n, d) float32`."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return vectors of (title, text) pairs, `(n, d) float32`."""


class ExtractiveReader:
    """Ranks the documents' sentences against the question and returns the closest, with citations.

    It never writes a word of its own and does not reason; its answers say so. It makes no model calls.

    Args:
        encoder: the knowledge base's own encoder; similarity is the inner product of its vectors.
    """

    name = "extractive"

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder

    def extract(self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget) -> Extraction:
        """Return the partition's closest sentences, or `none` when all are below the relevance floor."""
        found = self._closest(question, documents, _sentences(documents), SENTENCES_PER_PARTITION)
        return Extraction(
            index=index,
            document_ids=[str(document.id) for document in documents],
            status="evidence" if found else "none",
            finding="",
            quotes=[quote for quote, _ in found],
            choice=None,
            confidence=min(max(found[0][1], 0.0), 1.0) if found else None,
            error=None,
        )

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Do as `extract` does, in a thread."""
        return await asyncio.to_thread(self.extract, question, documents, index, budget)

    def reduce(
        self, question: Question, documents: Sequence[Document], extractions: Sequence[Extraction], budget: CallBudget
    ) -> Draft:
        """Return the closest sentence of each partition, so that none of them drowns the others."""
        quotes = [quote for extraction in extractions for quote in extraction["quotes"][:1]]
        return self._draft(question, documents, quotes)

    async def areduce(
        self, question: Question, documents: Sequence[Document], extractions: Sequence[Extraction], budget: CallBudget
    ) -> Draft:
        """Do as `reduce` does, in a thread."""
        return await asyncio.to_thread(self.reduce, question, documents, extractions, budget)

    def answer(self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget) -> Draft:
        """Return the closest sentences of all documents."""
        return self._draft(question, documents, _sentences(documents))

    async def aanswer(self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget) -> Draft:
        """Do as `answer` does, in a thread."""
        return await asyncio.to_thread(self.answer, question, documents, stage, budget)

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> None:
        """Return None: no prompt is written."""

    def _closest(
        self, question: Question, documents: Sequence[Document], sentences: Sequence[Quote], most: int
    ) -> list[tuple[Quote, float]]:
        """Return the most similar sentences with their similarity, best first; ties keep their order.

        The similarity of a sentence is the mean of its own and that of it under its document's title: the
        title says what "it" and "the drug" are, and alone would lift every sentence of its document.
        """
        if not sentences:
            return []
        titles = {str(document.id): str(document.metadata.get("title") or "") for document in documents}
        pairs = [(titles[sentence["document_id"]], sentence["text"]) for sentence in sentences]
        alone = [("", text) for _, text in pairs]
        query = self._encoder.encode_queries([question["text"]])[0]
        similarity = np.mean(np.split(self._encoder.encode_passages(alone + pairs) @ query, 2), axis=0)
        order = np.argsort(-similarity, kind="stable")[:most]
        floor = self._encoder.relevance_floor
        return [(sentences[i], float(similarity[i])) for i in order if floor is None or similarity[i] >= floor]

    def _draft(self, question: Question, documents: Sequence[Document], sentences: Sequence[Quote]) -> Draft:
        by_id = {str(document.id): document for document in documents}
        closest = [quote for quote, _ in self._closest(question, documents, sentences, SENTENCES_PER_ANSWER)]
        lines = [f"- {' '.join(quote['text'].split())} {cite(by_id[quote['document_id']])}" for quote in closest]
        return Draft(
            text="\n".join([_PREFACE, *lines]) if lines else "No sentence of the documents comes near the question.",
            choice=None,
            conflict=None,
            quotes=closest,
            abstained=not lines,
            warnings=[_NO_CHOICE] if question["options"] else [],
        )


def _sentences(documents: Sequence[Document]) -> list[Quote]:
    """Return the documents' sentences as quotes, each wording once."""
    sentences: dict[str, Quote] = {}
    for document in documents:
        for start, end in split_sentences(document.page_content):
            text = document.page_content[start:end]
            if end - start >= MIN_SENTENCE_CHARACTERS or end - start == len(document.page_content.strip()):
                quote = Quote(text=text, document_id=str(document.id), start=start, end=end, match="exact")
                sentences.setdefault(text, quote)
    return list(sentences.values())
