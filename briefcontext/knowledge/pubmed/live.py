"""PubMed as a knowledge base: searched at NCBI for each question."""

import re
import unicodedata
from functools import cached_property
from itertools import combinations
from time import monotonic
from typing import TYPE_CHECKING, Self

import numpy as np
from langchain_core.documents import Document

from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.encoders.encoder import title_and_text
from briefcontext.knowledge.pubmed.eutilities import EUtilities
from briefcontext.knowledge.sources.publication import language, publication_type
from briefcontext.knowledge.store.filters import NO_FILTERS, Filters
from briefcontext.knowledge.store.manifest import EncoderRecord, Manifest
from briefcontext.knowledge.study_type import PUBMED_QUERIES

if TYPE_CHECKING:
    from briefcontext.knowledge.encoders import Encoder

LIVE_PUBMED = "pubmed:"
"""The name of this knowledge base; an encoder's name may follow."""
DEFAULT_ENCODER = "medcpt"
REMEMBERED_SECONDS = 60.0
"""The graph may ask the same question again, for more documents."""

MOST_WORDS = 40
"""Words of a query: the longest tend to be the rarest."""
MOST_WORDS_ALL_BUT_ONE = 12
"""The query for all words but one grows with their square."""

# PubMed leaves these out of every search, in capitals too ("Stopwords" in the PubMed User Guide).
_PUBMED_STOPWORDS = """
    a about again all almost also although always among an and another any are as at be because been
    before being between both but by can could did do does done due during each either enough
    especially etc for found from further had has have having here how however i if in into is it
    its itself just kg km made mainly make may mg might ml mm most mostly must nearly neither no nor
    obtained of often on our overall perhaps pmid quite rather really regarding seem seen several
    should show showed shown shows significantly since so some such than that the their theirs them
    then there therefore these they this those through thus to upon use used using various very was
    we were what when which while with within without would
"""
# Words of the asking. `or` and `not` are here as they would be operators.
_QUESTION_WORDS = """
    am define describe explain give he her his list me my name not or please she summarize tell us
    versus vs where whether who whom whose why will you your
"""
_IGNORED = frozenset(_PUBMED_STOPWORDS.split())
_ASKING = frozenset(_QUESTION_WORDS.split())

_WORD = re.compile(r"[^\W_]+(?:['.-][^\W_]+)*")
_PLAIN_CHARACTERS = {ord("’"): "'", ord("‐"): "-"}


class LivePubMed:
    """Ranks the candidates of PubMed's search with an encoder. Thread-safe.

    A question's words go to NCBI, in two to four requests. Close it when done.
    """

    term_statistics: None = None

    def __init__(
        self,
        encoder: "Encoder | str" = DEFAULT_ENCODER,
        *,
        candidates: int = 100,
        eutilities: EUtilities | None = None,
    ) -> None:
        """Describe the search, which ranks at least `k` and `candidates` records.

        Raises KnowledgeBaseError if the address or the proxy of the environment cannot be used.
        """
        self.candidates = candidates
        self._encoder = encoder
        self._eutilities = eutilities or EUtilities()
        self._last: tuple[object, float, list[Document]] = (None, 0.0, [])

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Open it by name: `pubmed:`, or `pubmed:e5` with another encoder."""
        return cls(name.removeprefix(LIVE_PUBMED).strip() or DEFAULT_ENCODER)

    def close(self) -> None:
        self._eutilities.close()

    def __repr__(self) -> str:
        encoder = self._encoder
        return f"LivePubMed({encoder if isinstance(encoder, str) else encoder.name!r})"

    @property
    def encoder(self) -> "Encoder":
        if isinstance(self._encoder, str):
            from briefcontext.knowledge.encoders import load_encoder

            try:
                self._encoder = load_encoder(self._encoder)
            except KnowledgeBaseError as error:
                raise KnowledgeBaseError(
                    f"{error} Or rank by an encoder that is here: --kb pubmed:e5."
                ) from error
        return self._encoder

    @cached_property
    def manifest(self) -> Manifest:
        """Names the encoder; all counts are zero."""
        return Manifest(encoder=EncoderRecord.model_validate(self.encoder))

    def search(self, query: str, k: int, filters: Filters = NO_FILTERS) -> list[Document]:
        """Return the `k` candidates most similar to a question, as `KnowledgeBase.search` does.

        Equal scores are in PubMed's order. Raises KnowledgeBaseError if NCBI does not answer.
        """
        if k < 1:
            raise InputError(f"k is {k}: ask for at least 1 passage.")
        asked = (query, max(k, self.candidates), filters)
        same, made, ranking = self._last
        if same != asked or monotonic() - made >= REMEMBERED_SECONDS:
            made, ranking = monotonic(), self._ranked(*asked)
            self._last = (asked, made, ranking)
        return [document.model_copy(deep=True) for document in ranking[:k]]

    def _ranked(self, query: str, most: int, filters: Filters) -> list[Document]:
        encoder = self.encoder  # Fails before NCBI is asked.
        pmids = self._find(query, most, filters)
        if not pmids:
            return []
        records = self._eutilities.fetch(pmids)
        documents = [records[pmid] for pmid in pmids if pmid in records]
        if not documents:
            raise KnowledgeBaseError(
                f"None of PubMed's {len(pmids):,} records can be read: try again later."
            )
        passages = [title_and_text(document) for document in documents]
        scores = encoder.encode_passages(passages) @ encoder.encode_queries([query])[0]
        best = np.argsort(-scores, kind="stable")
        for rank, place in enumerate(best, start=1):
            documents[place].metadata.update(rank=rank, score=float(scores[place]))
        return [documents[place] for place in best]

    def source(self, source_id: str) -> list[Document]:
        """Return the record with this PMID, as a list of one.

        Raises KnowledgeBaseError if there is no readable record, or NCBI does not answer.
        """
        records = self._eutilities.fetch([source_id] if source_id.isdecimal() else [])
        if source_id not in records:
            message = f"PubMed has no readable record with PMID {source_id!r}: check the number."
            raise KnowledgeBaseError(message)
        return [records[source_id]]

    def _find(self, question: str, most: int, filters: Filters) -> list[str]:
        result: dict[str, None] = {}
        fulfilling = pubmed_filters(filters)
        for words in pubmed_queries(question):
            query = f"({words}) AND {fulfilling}" if fulfilling else words
            result.update(dict.fromkeys(self._eutilities.search(query, most)))
            if len(result) >= most:
                break
        return list(result)[:most]


def pubmed_queries(question: str) -> list[str]:
    """Return PubMed queries for a question, the strictest first.

    They ask for all content words; all but any one of them (for 3 to 12 words); any of them. PubMed
    sorts the last by relevance (PLoS Biology 2018;16:e2005343). Without punctuation and capitals,
    nothing in a question is an operator, a field tag or a wildcard.

    >>> pubmed_queries("Does aspirin prevent a stroke?")[:2]
    ['aspirin prevent stroke', '(aspirin prevent) OR (aspirin stroke) OR (prevent stroke)']
    """
    words = _content_words(question)
    queries = [" ".join(words)]
    if 3 <= len(words) <= MOST_WORDS_ALL_BUT_ONE:
        some = combinations(words, len(words) - 1)
        queries.append(" OR ".join(f"({' '.join(kept)})" for kept in some))
    queries.append(" OR ".join(words))
    return list(dict.fromkeys(filter(None, queries)))


def pubmed_filters(filters: Filters) -> str:
    """Return filters as a PubMed query; "" without any.

    >>> pubmed_filters(Filters(first_year=2015, publication_types=("Review",)))
    '(2015:3000[dp]) AND ("Review"[pt])'
    """
    tagged = {
        "pt": map(publication_type, filters.publication_types),
        "ta": filters.journals,
        "mh:noexp": filters.mesh,
        "la": map(language, filters.languages),
    }
    # A label keeps nothing that would end its quotes.
    plain = {
        tag: [" ".join(value.replace('"', " ").split()) for value in values]
        for tag, values in tagged.items()
    }
    alternatives = [
        [PUBMED_QUERIES.get(value.casefold(), f'"{value}"[{tag}]') for value in values]
        for tag, values in plain.items()
    ]
    if (filters.first_year, filters.last_year) != (None, None):
        alternatives.insert(0, [f"{filters.first_year or 1000}:{filters.last_year or 3000}[dp]"])
    return " AND ".join(f"({' OR '.join(one)})" for one in alternatives if one)


def _content_words(question: str) -> list[str]:
    text = unicodedata.normalize("NFKC", question).translate(_PLAIN_CHARACTERS)
    content = (word.lower() for word in _WORD.findall(text) if not _is_stop_word(word))
    words = list(dict.fromkeys(content))
    kept = set(sorted(words, key=len, reverse=True)[:MOST_WORDS])
    return [word for word in words if word in kept]


def _is_stop_word(word: str) -> bool:
    lower = word.lower()
    is_name = len(word) > 1 and word.isupper() and lower not in ("or", "not")  # WHO, US
    return lower in _IGNORED or (lower in _ASKING and not is_name)
