"""The answer that every route ends in: the same fields in Python, in JSON and over a server."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Literal, NotRequired, get_args

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.articles import article_id, source_id
from briefcontext.chains.citation import KEY, Citation, document_key, number_citations
from briefcontext.chains.model.usage import Usage
from briefcontext.chains.passage_reader import PASSAGES
from briefcontext.chains.question import Question, language_note, languages
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.chains.references import Evidence, Reference, list_references, summarise_evidence
from briefcontext.chains.support import NO_CITATION, Doubt, find_doubts
from briefcontext.study_type import StudyType

NO_ANSWER = "No answer was found in the documents."
"""What is said above the reason of an abstention."""
DEMONSTRATION = "The documents are texts written for this project as a demonstration, and not literature: rely on none."
_LISTED = 10
_KEY = re.compile(rf"\[?({KEY})\]?", re.ASCII | re.IGNORECASE)
_version = cache(version)
"""Cached, as it searches all packages that are installed."""

Route = Literal["map_reduce", "vanilla", "order_preserving", "abstain"]


class Preflight(TypedDict):
    """The preflight check: the overlap of the two rankings, and the route it led to."""

    iou: float | None
    """Intersection over union of the two top n; null if nothing was retrieved or BM25 has no top n."""
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
    """The rank among all retrieved documents, from 1; retracted articles that were left out count."""
    score: float | None
    """The retriever's score; null if it gives none."""


class Searched(TypedDict):
    """The collection that was searched, in the state that was searched."""

    name: str | None
    """The name of the knowledge base or file, or the class of your own retriever; null for documents
    that came with the question."""
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
    doubts: list[Doubt]
    """Sentences that cite nothing or say something that their citations do not."""
    cautions: list[str]
    """Safety warnings, to be shown before the answer."""
    warnings: list[str]
    """Other notes: quotes that were not found, parts that were not read, sentences without a citation."""
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
    """Make the answer from a reader's draft: number its citations, and report what cannot be traced."""
    separator = "\0"
    written = (draft["text"], draft["conflict"] or "", *draft.get("cautions", []))
    texts = separator.join(text.replace(separator, "") for text in written)
    numbered, citations, unknown = number_citations(texts, documents, draft["quotes"])
    text, statement, *cautions = numbered.split(separator)
    text = text.strip()
    numbers = {citation["document_id"]: citation["key"] for citation in citations}
    named = {document_key(each): f"[{numbers.get(str(each.id)) or source_id(each)}]" for each in documents}
    extractions = [Extraction(**{**each, "finding": _in_names(each["finding"], named)}) for each in extractions]
    conflict = find_conflict(extractions, draft["choice"], statement.strip() or None)
    articles = _cited_articles(citations, documents)
    doubts = [] if draft["abstained"] or model == PASSAGES else find_doubts(text, citations, documents)
    warnings = list(draft["warnings"])
    unread = []
    for extraction in extractions:
        place, error = f"Partition {extraction['index'] + 1}", extraction["error"]
        if extraction["status"] == "failed":
            unread.append(f"{place} was not read ({', '.join(extraction['document_ids'])}): {error}")
        elif error:
            warnings.append(f"{place}: {error}")
    read = Counter(id for extraction in extractions for id in extraction["document_ids"])
    if cut := [id for id, pieces in read.items() if pieces > 1]:
        warnings.append(f"Too long for the model's input window, and so read in pieces: {', '.join(cut)}.")
    if asked["options"] and (unchosen := _unchosen(draft["choice"], extractions)):
        cautions.insert(0, unchosen)
    if not draft["abstained"]:
        cautions += _unsupported(citations, [*doubts, *find_doubts(statement, citations, documents)])
    cautions += unread  # They may be many, and a model is told the first cautions only.
    if any(document.metadata.get("kind") == "demo" for document in documents):
        warnings.insert(0, DEMONSTRATION)
    why_nothing = cautions if draft["abstained"] else warnings
    if note := language_note(asked["text"], documents):
        why_nothing.append(note)
    if caution := preflight.get("caution"):
        warnings.append(caution)
    if retracted:  # One of them may have had the answer.
        why_nothing.append(f"Left out, as retracted: {len(retracted)} ({', '.join(retracted)}).")
    if unknown:
        more = f" and {len(unknown) - _LISTED:,} more" if len(unknown) > _LISTED else ""
        warnings.append(f"Citations of no retrieved document were taken out: {', '.join(unknown[:_LISTED])}{more}.")
    if not draft["abstained"]:
        warnings += _citation_warnings(citations, doubts)
        if differ := languages(text, documents):
            warnings.append(
                f"Only figures were compared with the documents: the answer is in {differ[0]}, these in {differ[1]}."
            )
    if loose := [citation["key"] for citation in citations if citation["match"] == "fuzzy"]:
        warnings.append(
            f"Quoted in other words than the document's, which are shown: [{']['.join(dict.fromkeys(loose))}]."
        )
    return Answer(
        question=asked["text"],
        options=asked["options"],
        text=text,
        choice=draft["choice"],
        abstained=draft["abstained"],
        written_by=model,
        citations=citations,
        references=list_references(citations, documents),
        documents=[
            ReadDocument(
                document_id=str(document.id),
                source_id=source_id(document),
                rank=document.metadata.get("rank"),
                score=document.metadata.get("score"),
            )
            for document in documents
        ],
        # Whether passages agree is unknown without a model.
        evidence=summarise_evidence(articles, conflict=None if model == PASSAGES else bool(conflict)),
        route=route,
        preflight=preflight,
        extractions=extractions,
        conflict=conflict,
        usage=usage,
        doubts=doubts,
        cautions=cautions,
        warnings=warnings,
        provenance=Provenance(version=_version("briefcontext"), searched=searched),
    )


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


def _in_names(finding: str, named: Mapping[str, str]) -> str:
    """Put numbers in the place of a finding's keys, or the sources of what the answer does not cite."""
    return _KEY.sub(lambda found: named.get(found[1].upper(), found[0]), finding)


def find_conflict(
    extractions: Sequence[Extraction], settled: str | None, statement: str | None = None
) -> Conflict | None:
    """Return the conflict when partitions chose different options, or the reader reports one."""
    choices: dict[str, list[int]] = {}
    for extraction in extractions:
        if choice := extraction["choice"]:
            choices.setdefault(choice, []).append(extraction["index"])
    if len(choices) < 2 and statement is None:
        return None
    return Conflict(choices=choices, statement=statement, settled=settled)


def _unchosen(choice: str | None, extractions: Sequence[Extraction]) -> str | None:
    if chosen := sorted({extraction["choice"] for extraction in extractions if extraction["choice"]}):
        if choice is None:
            return "No option was chosen by the answer; partitions of the documents chose some."
        return (
            None
            if choice in chosen
            else f"No partition of the documents chose {choice}: they chose {', '.join(chosen)}."
        )
    if choice is None:
        return "No option was chosen" + (
            ", neither by a partition of the documents nor by the answer." if extractions else " by the answer."
        )
    return (
        f"The choice {choice} is unsupported: no partition of the documents chose an option." if extractions else None
    )


def _unsupported(citations: Sequence[Citation], doubts: Sequence[Doubt]) -> list[str]:
    cautions = [] if citations else ["The answer cites no document, so nothing in it can be traced."]
    if wrong := [doubt for doubt in doubts if doubt["reason"] != NO_CITATION]:
        count, verb = ("One sentence", "says") if len(wrong) == 1 else (f"{len(wrong)} sentences", "say")
        said = "; ".join(dict.fromkeys(doubt["reason"] for doubt in wrong))
        cautions.append(f"{count} of the answer {verb} what the cited documents do not ({said}).")
    if retracted := dict.fromkeys(citation["source_id"] for citation in citations if citation["retracted"]):
        cautions.append(f"Retracted articles are cited: {', '.join(retracted)}.")
    if doubtful := dict.fromkeys(citation["source_id"] for citation in citations if citation["expression_of_concern"]):
        cautions.append(f"Articles under an expression of concern are cited: {', '.join(doubtful)}.")
    return cautions


def _citation_warnings(citations: Sequence[Citation], doubts: Sequence[Doubt]) -> list[str]:
    warnings = []
    if bare := [citation["key"] for citation in citations if citation["quote"] is None]:
        warnings.append(f"Cited without a quote that stands in the document: [{']['.join(bare)}].")
    if citations and (uncited := sum(doubt["reason"] == NO_CITATION for doubt in doubts)):
        count, verb = ("One", "carries") if uncited == 1 else (uncited, "carry")
        warnings.append(f"{count} of the answer's sentences {verb} no citation.")
    return warnings
