"""The answer of every route, with the same fields in Python, in JSON and over a server."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Literal, NotRequired, get_args

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.articles import article_id, source_id
from briefcontext.chains.citation import KEY, Citation, CitationNumbers, document_key
from briefcontext.chains.claims import check_claims, find_claims
from briefcontext.chains.model.usage import Usage
from briefcontext.chains.notes import Level, Note, by_level, note
from briefcontext.chains.passage_reader import PASSAGES
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.chains.references import Evidence, Reference, list_references, summarise_evidence
from briefcontext.knowledge.study_type import StudyType

NO_ANSWER = "No answer was found in the documents."
"""Heading of an abstention."""
_DEMONSTRATION = "Demonstration texts, not literature: do not rely on them."
_CITATION_NOTES: Mapping[str, tuple[Level, str]] = {
    "retracted_cited": ("danger", "Retracted articles are cited: {}."),
    "concern_cited": ("caution", "Articles under an expression of concern are cited: {}."),
    "unknown_citation": ("caution", "Citations of unknown documents were removed: {}."),
    "cited_without_quote": ("info", "Cited without a quote that is in the document: [{}]."),
    "quote_differs": ("info", "The model quoted in other words than the document's: [{}]."),
}
"""Levels and messages of the notes on citations; the braces list them."""
_LISTED = 10
_KEY = re.compile(rf"\[?({KEY})\]?", re.ASCII | re.IGNORECASE)
_version = cache(version)

Route = Literal["map_reduce", "vanilla", "order_preserving", "abstain"]


class Preflight(TypedDict):
    """The preflight check: the overlap of the two rankings, and the route it led to."""

    iou: float | None
    """Intersection over union of the two top n; null without documents or a clear top n."""
    n: int
    """The number of documents at the top of each ranking that are compared."""
    threshold: float
    """The rankings agree if `iou` is above this."""
    dense_top: list[str]
    """Ids of the first n documents of the retriever's ranking, best first."""
    bm25_top: list[str]
    """Ids of the first n documents of BM25's ranking, best first; empty if its scores tie."""
    consistent: bool | None
    """Whether `iou` is above `threshold`; null if there is no IoU."""
    method: Literal["iou", "calibrated"]
    """The check that decides: the overlap, or a calibration's prediction."""
    probability: float | None
    """Calibrated: probability that the key document is ranked below 3 or was not retrieved."""
    probability_threshold: float | None
    """Calibrated: the documents are mapped if `probability` reaches this."""
    contributions: dict[str, float] | None
    """Calibrated: log-odds that each signal adds to the calibration's mean, the strongest first."""
    caution: str | None
    """Calibrated: why the promised recall may not hold here."""
    reason: str
    """The reason for the route, in words."""


class Conflict(TypedDict):
    """Evidence that contradicts itself."""

    choices: dict[str, list[int]]
    """Option letter to the indices of the partitions that chose it; empty for a free answer."""
    statement: str | None
    """Which sources say what, in the model's words, with citation numbers."""
    settled: str | None
    """The letter of the final answer."""


class ReadDocument(TypedDict):
    """A document that was read for the answer."""

    document_id: str
    """The id of the passage."""
    source_id: str
    """The id of its source: a PMID if there is one."""
    rank: int | None
    """The rank among all retrieved documents, from 1, including retracted articles."""
    score: float | None
    """The retriever's score; null if it gives none."""


class Searched(TypedDict):
    """The collection that was searched, in the state that was searched."""

    name: str | None
    """The knowledge base, the file, or the retriever's class; null for passed documents."""
    version: str | None
    """The version of the knowledge base, or the SHA-256 of the file; null if there is none."""
    updated: str | None
    """When the knowledge base was last updated: UTC, ISO 8601."""
    filters: NotRequired[str]
    """The filters in words; missing if there are none."""


class Provenance(TypedDict):
    """The software and collection that produced an answer."""

    version: str
    """The version of BriefContext."""
    searched: Searched
    """The collection."""


class Answer(TypedDict):
    """An answer and everything needed to check it."""

    question: str
    """The question, after a follow-up was rewritten."""
    options: dict[str, str]
    """Letter to text; empty unless the question is multiple choice."""
    text: str
    """The answer, with citation numbers in square brackets."""
    choice: str | None
    """The chosen letter, for multiple choice."""
    abstained: bool
    """Whether the documents contain no answer; `text` then gives the reason."""
    written_by: str
    """The model's name, or `passages` when no model wrote it and passages are shown."""
    citations: list[Citation]
    """The cited passages, in the order of their keys."""
    references: list[Reference]
    """The cited articles, each once."""
    documents: list[ReadDocument]
    """All documents that were read, best first, cited or not."""
    evidence: Evidence
    """The kinds of evidence among the cited articles."""
    route: Route
    """The route through the graph."""
    preflight: Preflight
    """The preflight check, which decided the route."""
    extractions: list[Extraction]
    """The result of each partition, in order; empty unless the route is `map_reduce`."""
    conflict: Conflict | None
    """Contradicting evidence; null if none was reported."""
    usage: Usage
    """Model calls, tokens and time."""
    notes: list[Note]
    """Dangers, cautions and information on the answer and its sentences, the most serious first."""
    provenance: Provenance
    """The software, model and collection that produced the answer."""


def compose(
    draft: Draft,
    *,
    asked: Question,
    documents: Sequence[Document],
    route: Route,
    preflight: Preflight,
    extractions: Sequence[Extraction],
    retracted: Sequence[str],
    usage: Usage,
    model: str,
    searched: Searched,
) -> Answer:
    """Return the answer of a reader's draft, with numbered citations and notes to check."""
    text, conflict, abstained = draft["text"], draft["conflict"] or "", draft["abstained"]
    messages = [each["message"] for each in draft["notes"]]
    numbers = CitationNumbers([text, conflict, *messages], documents)
    text, conflict = numbers.replace(text), numbers.replace(conflict)
    citations = numbers.citations(draft["quotes"])
    extractions = _with_sources(extractions, documents, citations)
    conflicting = _conflict(extractions, draft["choice"], conflict or None)
    # Without a model, nothing reports whether passages agree.
    contradicted = None if model == PASSAGES else bool(conflicting)
    notes: list[Note] = [
        {**each, "message": numbers.replace(each["message"])} for each in draft["notes"]
    ]
    notes += _choice_notes(draft["choice"], extractions) if asked["options"] else []
    if not abstained:
        notes += _citation_notes(citations, numbers.unknown)
        if citations and model != PASSAGES:
            claims = find_claims(text, {citation["key"] for citation in citations})
            notes += check_claims(claims, citations, documents)
    notes += _partition_notes(extractions)
    notes += _document_notes(documents, retracted, preflight, abstained=abstained)
    return Answer(
        question=asked["text"],
        options=asked["options"],
        text=text,
        choice=draft["choice"],
        abstained=abstained,
        written_by=model,
        citations=citations,
        references=list_references(citations, documents),
        documents=[_read_document(document) for document in documents],
        evidence=summarise_evidence(_cited_articles(citations, documents), conflict=contradicted),
        route=route,
        preflight=preflight,
        extractions=extractions,
        conflict=conflicting,
        usage=usage,
        notes=by_level(notes),
        provenance=Provenance(version=_version("briefcontext"), searched=searched),
    )


def _read_document(document: Document) -> ReadDocument:
    return ReadDocument(
        document_id=str(document.id),
        source_id=source_id(document),
        rank=document.metadata.get("rank"),
        score=document.metadata.get("score"),
    )


def _with_sources(
    extractions: Sequence[Extraction], documents: Sequence[Document], citations: Sequence[Citation]
) -> list[Extraction]:
    """Replace the keys in findings with citation numbers, or with sources that are not cited."""
    numbers = {citation["document_id"]: citation["key"] for citation in citations}
    names = {
        document_key(each): f"[{numbers.get(str(each.id)) or source_id(each)}]"
        for each in documents
    }

    def name(match: re.Match[str]) -> str:
        return names.get(match[1].upper(), match[0])

    return [{**each, "finding": _KEY.sub(name, each["finding"])} for each in extractions]


def _cited_articles(
    citations: Sequence[Citation], documents: Sequence[Document]
) -> dict[str, tuple[StudyType | None, int | None]]:
    """Return the strongest study type and the year of each cited article, by its id."""
    ids = {str(document.id): article_id(document) for document in documents}
    articles: dict[str, tuple[StudyType | None, int | None]] = {}
    for citation in citations:
        id = ids[citation["document_id"]]
        kind, year = articles.get(id, (None, None))
        kinds = (kind, citation["study_type"])
        strongest = next((each for each in get_args(StudyType) if each in kinds), None)
        articles[id] = strongest, year or citation["year"]
    return articles


def _conflict(
    extractions: Sequence[Extraction], settled: str | None, statement: str | None
) -> Conflict | None:
    """Return the conflict when partitions chose different options, or the reader reports one."""
    choices: dict[str, list[int]] = {}
    for extraction in extractions:
        if choice := extraction["choice"]:
            choices.setdefault(choice, []).append(extraction["index"])
    if len(choices) < 2 and statement is None:
        return None
    return Conflict(choices=choices, statement=statement, settled=settled)


def _choice_notes(choice: str | None, extractions: Sequence[Extraction]) -> list[Note]:
    """Return a note if there is no choice, or if no partition made it."""
    chosen = sorted({extraction["choice"] for extraction in extractions if extraction["choice"]})
    listed = ", ".join(chosen)
    if choice is None:
        partitions = f" Partitions of the documents chose {listed}." if chosen else ""
        return [note("caution", "no_choice", f"The answer chooses no option.{partitions}")]
    if not extractions or choice in chosen:
        return []
    message = f"The choice {choice} is unsupported. No partition of the documents made it: "
    return [note("caution", "choice_unsupported", f"{message}they chose {listed or 'none'}.")]


def _citation_notes(citations: Sequence[Citation], unknown: Sequence[str]) -> list[Note]:
    more = f" and {len(unknown) - _LISTED:,} more" if len(unknown) > _LISTED else ""
    listed = {
        "retracted_cited": _joined(each["source_id"] for each in citations if each["retracted"]),
        "concern_cited": _joined(
            each["source_id"] for each in citations if each["expression_of_concern"]
        ),
        "unknown_citation": _joined(unknown[:_LISTED]) + more,
        "cited_without_quote": "][".join(
            each["key"] for each in citations if each["quote"] is None
        ),
        "quote_differs": "][".join(each["key"] for each in citations if each["match"] == "fuzzy"),
    }
    none = [] if citations else [note("caution", "uncited", "The answer cites no document.")]
    return none + [
        note(level, kind, message.format(listed[kind]))
        for kind, (level, message) in _CITATION_NOTES.items()
        if listed[kind]
    ]


def _joined(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _partition_notes(extractions: Sequence[Extraction]) -> list[Note]:
    notes = []
    for extraction in extractions:
        name, error = f"Partition {extraction['index'] + 1}", extraction["error"]
        if extraction["status"] == "failed":
            message = f"{name} was not read ({', '.join(extraction['document_ids'])}): {error}"
            notes.append(note("caution", "partition_failed", message))
        elif error:
            notes.append(note("info", "partition_error", f"{name}: {error}"))
    pieces = Counter(id for extraction in extractions for id in extraction["document_ids"])
    if cut := ", ".join(id for id, count in pieces.items() if count > 1):
        message = f"Too long for the model's input window and read in pieces: {cut}."
        notes.append(note("info", "read_in_pieces", message))
    return notes


def _document_notes(
    documents: Sequence[Document],
    retracted: Sequence[str],
    preflight: Preflight,
    *,
    abstained: bool,
) -> list[Note]:
    notes = []
    if any(document.metadata.get("kind") == "demo" for document in documents):
        notes.append(note("info", "demonstration", _DEMONSTRATION))
    if caution := preflight.get("caution"):
        notes.append(note("caution", "calibration", caution))
    if retracted:  # One of them may have the answer.
        message = f"Retracted articles were left out: {', '.join(retracted)}."
        notes.append(note("caution" if abstained else "info", "retracted_left_out", message))
    return notes
