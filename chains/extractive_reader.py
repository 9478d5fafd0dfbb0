"""The reader without a language model: it returns the documents' own sentences."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence

from langchain_core.documents import Document

from briefcontext.chains.citation import cite
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.notes import note
from briefcontext.chains.place import read_under
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction, Quote, extraction_of
from briefcontext.sentences import RankedSentence, without_bullet

MOST_SENTENCES = 4
MIN_SCORE = 0.25
"""Below it a sentence is no evidence. Of the half of the questions of `benchmarks/extractive.py` that it was chosen on,
3 to 4% are refused although a document that answers them was retrieved."""
RANK = 0.5
"""The power of a document's rank in what was retrieved by which the odds that it answers are divided, to tell which
sentences are best; chosen there, too. Whether one is evidence does not depend on it: the map is there to find the
answer at the end of the ranking."""
NEAR_BEST = 0.75
"""The least score of a sentence beside the best one, as a share of its score."""

_PREFACE = "The sentences closest to the question, copied word for word; nothing was inferred from them:"
_NO_CHOICE = "The extractive reader copies sentences and does not reason: use a model to choose among options."


SentenceRanking = Callable[[str, Sequence[Document]], Sequence[RankedSentence]]
"""Scores the sentences of documents for a question."""


class ExtractiveReader:
    """Ranks the documents' sentences against the question and returns the best, with citations.

    It never writes a word of its own and does not reason; its answers say so. It makes no model calls.

    Args:
        rank: scores sentences, such as `SentenceRanker(encoder).rank` (`briefcontext.retrievers`).
    """

    name = "extractive"

    def __init__(self, rank: SentenceRanking) -> None:
        self._rank = rank

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Return the partition's best sentences, or `none` when there is no evidence among them."""
        if not (found := await self._evidence(question, documents)):
            return extraction_of(index, documents, "none")
        return extraction_of(index, documents, "evidence", quotes=found, confidence=found[0]["score"])

    async def areduce(
        self, question: Question, documents: Sequence[Document], extractions: Sequence[Extraction], budget: CallBudget
    ) -> Draft:
        """Return the best of all partitions' sentences."""
        quotes = _best((quote for extraction in extractions for quote in extraction["quotes"]), documents)
        return _draft(question, documents, quotes)

    async def aanswer(self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget) -> Draft:
        """Return the best sentences of all documents."""
        return _draft(question, documents, await self._evidence(question, documents))

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> None:
        """Return None: no prompt is written."""

    async def _evidence(self, question: Question, documents: Sequence[Document]) -> list[Quote]:
        """Return the best sentences, ranked in a thread; none where the best is no evidence."""
        ranked = await asyncio.to_thread(self._rank, question["text"], documents)
        evidence = (
            Quote(
                text=sentence.text,
                document_id=sentence.document_id,
                start=sentence.start,
                end=sentence.end,
                match="exact",
                score=sentence.score,
            )
            for sentence in ranked
            if sentence.score >= MIN_SCORE
        )
        return _best(evidence, documents)


def _best(quotes: Iterable[Quote], documents: Sequence[Document]) -> list[Quote]:
    """Return the best quotes and those near them, best first, each wording once."""
    by_id = {str(document.id): document for document in documents}

    def weight(quote: Quote) -> float:
        score, rank = quote["score"], by_id[quote["document_id"]].metadata.get("rank")
        # A caller's own documents may have any rank, or none.
        divisor = math.pow(rank, RANK) if isinstance(rank, int) and rank > 0 else 1
        return score / (score + (1 - score) * divisor)

    ranked = sorted(quotes, key=weight, reverse=True)
    once: dict[str, Quote] = {}
    for quote in ranked:
        if len(once) == MOST_SENTENCES or weight(quote) < NEAR_BEST * weight(ranked[0]):
            break
        once.setdefault(_shown(quote, by_id[quote["document_id"]]), quote)
    return list(once.values())


def _shown(quote: Quote, document: Document) -> str:
    """Return a quote with what it must not be read without, and without the source's own bullet."""
    words = without_bullet(" ".join(quote["text"].split()))
    return f"{read_under(document, quote['start'] or 0)} {words}".strip()


def _draft(question: Question, documents: Sequence[Document], quotes: list[Quote]) -> Draft:
    by_id = {str(document.id): document for document in documents}
    sources = [by_id[quote["document_id"]] for quote in quotes]
    lines = [f"- {_shown(quote, source)} {cite(source)}" for quote, source in zip(quotes, sources, strict=True)]
    return Draft(
        text="\n".join([_PREFACE, *lines]) if lines else "No sentence of the documents comes near the question.",
        choice=None,
        conflict=None,
        quotes=quotes,
        abstained=not lines,
        notes=[note("caution", "no_choice", _NO_CHOICE)] if question["options"] else [],
    )
