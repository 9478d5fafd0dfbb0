"""The steps of the method, which the graph, the middleware and the compressor share."""

from collections.abc import Sequence

from langchain_core.documents import Document

from briefcontext.chains.answer import Preflight, Route
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Extraction, Reader, extraction_of
from briefcontext.errors import ModelCallError
from briefcontext.files import encodable
from briefcontext.graphs.events import (
    PartitionDone,
    PartitionFailed,
    PartitionStarted,
    RouteDecided,
    emit,
)
from briefcontext.graphs.routing import compare_rankings, decide_route, with_prediction
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Partition
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.calibration import Calibration
from briefcontext.retrievers.ranking_retriever import RankingRetriever
from briefcontext.retrievers.rankings import BM25Pool, TwoRankings


def check_rankings(
    question: Question,
    documents: Sequence[Document],
    settings: Settings,
    *,
    statistics: TermStatistics | None = None,
    retriever: RankingRetriever | None = None,
    calibration: Calibration | None = None,
) -> tuple[Preflight, Route]:
    """Compare the documents' order with BM25's and decide the route.

    Args:
        question: The question of the documents.
        documents: The documents, best first, with scores.
        settings: With the kind of preflight and its thresholds.
        statistics: Term frequencies of the corpus. By default those of the documents.
        retriever: The retriever that ranked the documents, if it is known.
        calibration: The calibration that decides instead of the overlap.
    """
    text = question["text"]
    if calibration is None or not documents:
        scores = BM25Pool(documents, statistics).scores(text)
        preflight = compare_rankings(documents, scores, settings)
    else:
        dense_over = None if retriever is None else retriever.dense_over
        caution = calibration.check(dense_over, settings.top_k)
        rankings = TwoRankings.from_documents(text, documents, statistics)
        compared = compare_rankings(documents, rankings.bm25.tolist(), settings)
        preflight = with_prediction(compared, calibration.predict(rankings), caution)
    one_ranking = retriever is not None and retriever.ranks_by_bm25
    route, reason = decide_route(preflight, settings, one_ranking=one_ranking)
    return Preflight(**{**preflight, "reason": reason}), route


def emit_route(preflight: Preflight, route: Route) -> None:
    """Emit the route and its reason."""
    event = RouteDecided(
        event="route_decided", route=route, reason=preflight["reason"], iou=preflight["iou"]
    )
    emit(event)


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
    started = PartitionStarted(
        event="partition_started", index=index, partitions=total, documents=len(documents)
    )
    emit(started)
    try:
        extraction = await reader.aextract(branch["asked"], documents, index, budget)
    except ModelCallError as error:
        extraction = extraction_of(index, documents, "failed", error=str(error))
    status, failure = extraction["status"], extraction["error"] or ""
    if status == "failed":
        failed = PartitionFailed(
            event="partition_failed", index=index, partitions=total, error=failure
        )
        emit(failed)
    else:
        done = PartitionDone(
            event="partition_done",
            index=index,
            partitions=total,
            status=status,
            quotes=len(extraction["quotes"]),
        )
        emit(done)
    return Extraction(**{**extraction, "finding": encodable(extraction["finding"])})
