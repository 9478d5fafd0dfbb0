"""The steps of the method, which the graph, the middleware and the compressor share."""

from collections.abc import Mapping, Sequence

from langchain_core.documents import Document

from briefcontext.chains.answer import Preflight, Route
from briefcontext.chains.articles import article_id, join_articles, without_superseded
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Extraction, Reader, extraction_of
from briefcontext.errors import InputError, ModelCallError
from briefcontext.files import encodable
from briefcontext.graphs.events import emit
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Partition
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.calibration import Calibration
from briefcontext.retrievers.ranking_retriever import RankingRetriever, as_ranking
from briefcontext.retrievers.rankings import (
    BM25Pool,
    TwoRankings,
    clear_top,
    dense_order,
    intersection_over_union,
)

_NAMED = 3
"""Number of signals in a reason."""


def given_ranking(documents: object, settings: Settings) -> list[Document]:
    """Return the documents of the input, best first, with id, source, rank and score.

    Raises InputError if they are not a list of documents or mappings, too many, or combined with
    filters.
    """
    if settings.filters:
        raise InputError(
            f"Filters ({settings.filters}) are for what is retrieved, and documents were given "
            "with the question. Leave out one of them."
        )
    most = settings.most_documents
    if not isinstance(documents, list | tuple):
        kind = type(documents).__name__
        raise InputError(f"documents must be a list of documents, best first, not {kind}.")
    if len(documents) > most:
        count = len(documents)
        raise InputError(f"{count:,} documents are given, and at most {most:,} are taken.")
    return as_ranking([_document(document, place) for place, document in enumerate(documents, 1)])


def _document(given: object, place: int) -> Document:
    if isinstance(given, Mapping):
        text, metadata, id = given.get("page_content"), given.get("metadata") or {}, given.get("id")
        if isinstance(text, str) and isinstance(metadata, Mapping):
            id = None if id is None else str(id)
            given = Document(page_content=text, metadata=dict(metadata), id=id)
    if not isinstance(given, Document) or not given.page_content.strip():
        raise InputError(
            f"Document {place} cannot be used: it needs a text that is not blank, as page_content. "
            "Give LangChain documents, or mappings of page_content, metadata and id, as their "
            "model_dump() gives them (not to_json())."
        )
    return given


def without_retracted(
    documents: Sequence[Document], settings: Settings
) -> tuple[list[Document], list[str]]:
    """Return the first k usable documents, and the ids of retracted articles that were left out.

    An older version of an article is also left out.
    """
    latest = without_superseded(join_articles(documents))
    if settings.include_retracted:
        return latest[: settings.top_k], []
    usable: list[Document] = []
    retracted: dict[str, None] = {}
    for document in latest:
        if len(usable) == settings.top_k:
            break
        if document.metadata.get("retracted"):
            retracted[article_id(document)] = None
        else:
            usable.append(document)
    return usable, list(retracted)


def more_to_ask(documents: Sequence[Document], wanted: int, settings: Settings) -> int:
    """Return the next number of documents to ask for if fewer than k are usable; else 0."""
    usable, _ = without_retracted(documents, settings)
    return 2 * wanted if len(usable) < settings.top_k and len(documents) >= wanted else 0


def encodable_document(document: Document) -> Document:
    """Replace lone surrogates in a document's text and metadata."""
    metadata = {
        name: encodable(value) if isinstance(value, str) else value
        for name, value in document.metadata.items()
    }
    return document.model_copy(
        update={"page_content": encodable(document.page_content), "metadata": metadata}
    )


def check_rankings(
    question: Question,
    documents: Sequence[Document],
    settings: Settings,
    *,
    statistics: TermStatistics | None = None,
    retriever: RankingRetriever | None = None,
    calibration: Calibration | None = None,
) -> tuple[Preflight, Route]:
    """Compare the documents' order with BM25's and decide the route, by a calibration if given.

    The statistics are the term frequencies of the corpus, by default those of the documents.
    """
    text = question["text"]
    if calibration is None or not documents:
        scores = BM25Pool(documents, statistics).scores(text)
        preflight = compare_rankings(documents, scores, settings)
    else:
        rankings = TwoRankings.from_documents(text, documents, statistics)
        predicted = calibration.predict(rankings)
        dense_over = None if retriever is None else retriever.dense_over
        preflight = compare_rankings(documents, rankings.bm25.tolist(), settings)
        preflight["method"] = "calibrated"
        preflight["probability"] = predicted.probability
        preflight["probability_threshold"] = predicted.threshold
        preflight["contributions"] = predicted.contributions
        preflight["caution"] = calibration.check(dense_over, settings.top_k)
    one_ranking = retriever is not None and retriever.ranks_by_bm25
    route, preflight["reason"] = _decide_route(preflight, settings, one_ranking=one_ranking)
    return preflight, route


def compare_rankings(
    documents: Sequence[Document], bm25: Sequence[float], settings: Settings
) -> Preflight:
    """Compare the top n of the dense ranking with BM25's, by the documents' BM25 scores.

    Equation 1 of BriefContext (Zhang et al., npj Digital Medicine 2025): they agree when the
    intersection over union of the two exceeds delta. The fused order of hybrid search is not
    compared, because it contains BM25's.
    """
    n, threshold = settings.preflight_top_n, settings.iou_threshold
    dense_top = [str(document.id) for document in dense_order(documents)[:n]]
    bm25_top = [str(documents[place].id) for place in clear_top(bm25, n)]
    iou = intersection_over_union(dense_top, bm25_top) if bm25_top else None
    return Preflight(
        iou=iou,
        n=n,
        threshold=threshold,
        dense_top=dense_top,
        bm25_top=bm25_top,
        consistent=None if iou is None else iou > threshold,
        method="iou",
        probability=None,
        probability_threshold=None,
        contributions=None,
        caution=None,
        reason=_no_ranking(bm25, n) if documents and not bm25_top else "",
    )


def _no_ranking(bm25: Sequence[float], n: int) -> str:
    matching = sum(score > 0 for score in bm25)
    if not matching:
        why = "no term of the question occurs in any of the documents"
    elif matching < min(n, len(bm25)):
        why = f"a term of the question occurs in only {matching} of the {len(bm25)} documents"
    else:
        why = f"it gives ranks {n} and {n + 1} the same score"
    return f"BM25 has no clear top: {why}"


def _decide_route(
    preflight: Preflight, settings: Settings, *, one_ranking: bool
) -> tuple[Route, str]:
    """Return the route and its reason. `one_ranking` means that BM25 ranked the documents."""
    if not preflight["dense_top"]:
        return "abstain", "nothing was retrieved"
    if settings.route != "auto":
        return settings.route, f"the setting route forces {settings.route}"
    if one_ranking:
        reason = "BM25 found the documents, so that there is no second ranking to compare it with"
        return "map_reduce", reason
    probability, limit = preflight["probability"], preflight["probability_threshold"]
    if probability is not None and limit is not None:
        predicted = f"the probability that the key document is misplaced is {probability:.3f}"
        strongest = list((preflight["contributions"] or {}).items())[:_NAMED]
        why = ", ".join(f"{name} {added:+.2f}" for name, added in strongest)
        if probability >= limit:
            return "map_reduce", f"{predicted}, not below {limit:.3f} ({why})"
        return settings.fallback, f"{predicted}, below {limit:.3f} ({why})"
    if preflight["consistent"] is None:
        return "map_reduce", preflight["reason"]
    overlap = f"the overlap of the two top {preflight['n']} is {preflight['iou']:.2f}"
    threshold = f"{preflight['threshold']:.2f}"
    if preflight["consistent"]:
        return settings.fallback, f"{overlap}, above {threshold}: the rankings agree"
    return "map_reduce", f"{overlap}, not above {threshold}: the rankings disagree"


def emit_route(preflight: Preflight, route: Route) -> None:
    """Emit the route and its reason."""
    reason, iou = preflight["reason"], preflight["iou"]
    emit({"event": "route_decided", "route": route, "reason": reason, "iou": iou})


def fitting_parts(
    reader: Reader,
    question: Question,
    documents: Sequence[Document],
    stage: str,
    settings: Settings,
) -> list[list[Document]]:
    """Split documents to fit the model's input window, if the reader has one."""
    divide = getattr(reader, "parts", None)
    if divide is None:
        return [list(documents)]
    parts: list[list[Document]] = divide(question, documents, stage, settings.budget())
    return parts


def partition(
    reader: Reader, question: Question, documents: Sequence[Document], settings: Settings
) -> list[list[Document]]:
    """Group documents into partitions (ContextMap) that fit the model's window."""
    size = settings.partition_size
    groups = [documents[start : start + size] for start in range(0, len(documents), size)]
    return [
        part
        for group in groups
        for part in fitting_parts(reader, question, group, "extract", settings)
    ]


def branches(question: Question, partitions: Sequence[list[Document]]) -> list[Partition]:
    """Return the input of the extraction of each partition."""
    total = len(partitions)
    return [
        Partition(index=index, partitions=total, asked=question, documents=documents)
        for index, documents in enumerate(partitions)
    ]


async def extract_from(reader: Reader, branch: Partition, budget: CallBudget) -> Extraction:
    """Extract from one partition. A failed call becomes a failed extraction."""
    index, total, documents = branch["index"], branch["partitions"], branch["documents"]
    count = len(documents)
    emit({"event": "partition_started", "index": index, "partitions": total, "documents": count})
    try:
        extraction = await reader.aextract(branch["asked"], documents, index, budget)
    except ModelCallError as error:
        extraction = extraction_of(index, documents, "failed", error=str(error))
    if extraction["status"] == "failed":
        why = extraction["error"] or ""
        emit({"event": "partition_failed", "index": index, "partitions": total, "error": why})
    else:
        emit(
            {
                "event": "partition_done",
                "index": index,
                "partitions": total,
                "status": extraction["status"],
                "quotes": len(extraction["quotes"]),
            }
        )
    return {**extraction, "finding": encodable(extraction["finding"])}
