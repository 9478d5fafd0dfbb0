"""The reader without a language model, which shows the closest passages word for word."""

import asyncio
from collections.abc import Sequence
from itertools import combinations_with_replacement

from langchain_core.documents import Document

from briefcontext.chains.citation import cite
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.notes import note
from briefcontext.chains.place import find_place, read_under
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction, Quote, extraction_of
from briefcontext.knowledge.encoders.encoder import title_of
from briefcontext.knowledge.sentences import split_sentences, without_bullet
from briefcontext.retrievers.passage_ranking import PassageRanker

PASSAGES = "passages"
"""The value of `written_by` in an answer that consists of passages."""
MAX_PASSAGES = 4
EXCERPT_SENTENCES = 3
"""Limit of sentences shown of one passage."""
SHORT = 300
"""Characters of a passage that is shown whole."""
NOTHING_WRITTEN = "Closest passages. No model was used, so no answer was written."
_NEAREST = 3
_NO_CHOICE = "No option was chosen, as no model was used."
_RESULT_LABELS = ("result", "finding", "conclusion", "interpretation")
_BACKGROUND_LABELS = ("background", "context", "introduction", "objective", "aim", "purpose")
_METHOD_LABELS = ("method", "design", "setting")


class PassageReader:
    """Shows the passages that are closest to the question, without model calls.

    The ranker leaves out unrelated passages.
    """

    name = PASSAGES

    def __init__(self, ranker: PassageRanker | None = None) -> None:
        self._ranker = ranker or PassageRanker()

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Return excerpts of the partition's passages with a specific term, or `none`."""
        quotes = await asyncio.to_thread(self._partition, question["text"], documents)
        return extraction_of(index, documents, "evidence" if quotes else "none", quotes=quotes)

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Return the closest of all passages, ranked together."""
        return await asyncio.to_thread(self._draft, question, documents)

    async def aanswer(
        self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget
    ) -> Draft:
        """Return the closest passages."""
        return await asyncio.to_thread(self._draft, question, documents)

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> None:
        """Return None, because there is no prompt."""

    def _partition(self, query: str, documents: Sequence[Document]) -> list[Quote]:
        _, specific = self._ranker.features(query, documents)
        return [
            self._excerpt(query, document)
            for document, held in zip(documents, specific, strict=True)
            if held
        ]

    def _draft(self, question: Question, documents: Sequence[Document]) -> Draft:
        query = question["text"]
        ranked = self._ranker.rank(query, documents)[:MAX_PASSAGES]
        if not ranked:
            return _draft(self._abstention(query, documents), question, abstained=True)
        quotes = [self._excerpt(query, document, probability) for document, probability in ranked]
        lines = [_line(quote, ranked[place][0]) for place, quote in enumerate(quotes)]
        return _draft("\n".join([NOTHING_WRITTEN, *lines]), question, quotes=quotes)

    def _excerpt(self, query: str, document: Document, probability: float | None = None) -> Quote:
        """Return the consecutive sentences of a passage that cover most of the question."""
        text = document.page_content
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        sentences = [each for each in split_sentences(text) if not _is_heading(document, each)]
        if end - start > SHORT and sentences:
            start, end = self._best_run(query, document, sentences)
        id, words = str(document.id), text[start:end]
        quote = Quote(text=words, document_id=id, start=start, end=end, match="exact")
        return quote if probability is None else {**quote, "score": probability}

    def _best_run(
        self, query: str, document: Document, sentences: list[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return the shortest run of sentences in one section that covers most of the question.

        Among runs with at least half of the best coverage, results and conclusions come first.
        """
        texts = [document.page_content[start:end] for start, end in sentences]
        holds, rarity = self._ranker.terms(query, texts)
        sections = [find_place(document, start).section for start, _ in sentences]
        runs = []
        for first, last in combinations_with_replacement(range(len(sentences)), 2):
            if last < first + EXCERPT_SENTENCES and len(set(sections[first : last + 1])) == 1:
                held = float(holds[first : last + 1].any(axis=0) @ rarity)
                runs.append((_section_rank(sections[first]), -held, last - first, first))
        least = min(negative for _, negative, _, _ in runs) / 2
        _, _, length, first = min(run for run in runs if run[1] <= least)
        return sentences[first][0], sentences[first + length][1]

    def _abstention(self, query: str, documents: Sequence[Document]) -> str:
        """Return the reason for showing nothing, with the nearest titles."""
        words = self._ranker.missing(query, documents) if documents else []
        reason = f"No passage mentions: {', '.join(words)}."
        if not words:
            reason = "No passage comes close to the question."
        titles = list(dict.fromkeys(filter(None, map(title_of, documents))))[:_NEAREST]
        nearest = "; ".join(title.rstrip(".") for title in titles)
        if nearest:
            reason += f" The nearest titles: {nearest}."
        return f"{reason} No model was used."


def _section_rank(section: str) -> int:
    """Return 0 for results and conclusions, 2 for background and methods, else 1."""
    label = section.casefold()
    if label.startswith(_RESULT_LABELS):
        return 0
    return 2 if label.startswith(_BACKGROUND_LABELS + _METHOD_LABELS) else 1


def _is_heading(document: Document, sentence: tuple[int, int]) -> bool:
    start, end = sentence
    return document.page_content[start:end].strip("# ") == find_place(document, start).section


def _line(quote: Quote, document: Document) -> str:
    """Return an excerpt with its heading, list introduction and citation."""
    words = without_bullet(" ".join(quote["text"].split()))
    if document.page_content.strip() == title_of(document).strip():
        words = f"{words} (only the title is known)"
    under = read_under(document, quote["start"] or 0)
    return f"- {under} {words}".replace("  ", " ") + f" {cite(document)}"


def _draft(
    text: str, question: Question, *, quotes: Sequence[Quote] = (), abstained: bool = False
) -> Draft:
    return Draft(
        text=text,
        choice=None,
        conflict=None,
        quotes=list(quotes),
        abstained=abstained,
        notes=[note("caution", "no_choice", _NO_CHOICE)] if question["options"] else [],
    )
