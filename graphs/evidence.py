"""Evidence in the documents of another retriever, by the steps of the graph."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from typing_extensions import TypedDict

from briefcontext.chains.answer import Preflight
from briefcontext.chains.articles import source_id
from briefcontext.chains.citation import Citation, assign_keys, cite, document_key, number_citations
from briefcontext.chains.model.event_loop import together
from briefcontext.chains.model.usage import Usage, estimate_tokens, summarise
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Extraction, Quote, Reader
from briefcontext.errors import InputError
from briefcontext.graphs.documents import encodable_document
from briefcontext.graphs.resources import OF_MODELS, RESOURCES, as_reader, refuse_ignored
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Partition
from briefcontext.graphs.steps import (
    branches,
    check_rankings,
    emit_route,
    extract_from,
    partition,
)
from briefcontext.retrievers.ranking_retriever import as_ranking

_PLACE = "briefcontext_place"
"""Metadata key of a document's place in the list that was passed."""


class EvidenceArtifact(TypedDict):
    """The artifact of a tool message whose documents were replaced by evidence."""

    documents: list[Document]
    """The tool's documents, in its order, each with an id."""
    extractions: list[Extraction]
    """One extraction for each partition, in order."""
    citations: list[Citation]
    """The documents with evidence, each with its located quotes."""
    preflight: Preflight
    """The comparison of the two rankings."""
    usage: Usage
    """Calls and tokens of the extractions."""
    artifact: Any
    """The tool's own artifact, unless it is the list of documents."""


@dataclass(frozen=True)
class Evidence:
    """The documents of one query, read in partitions."""

    query: str
    documents: list[Document]
    """The passed documents, with the ids that quotes refer to."""
    ranking: list[Document]
    """The same documents, each with its citation key."""
    branches: list[Partition]
    extractions: list[Extraction]
    preflight: Preflight
    usage: Usage

    @property
    def quotes(self) -> list[Quote]:
        """All quotes, in the order of the documents' partitions."""
        return [quote for extraction in self.extractions for quote in extraction["quotes"]]

    @property
    def citations(self) -> list[Citation]:
        """A citation of each document, with its located quotes, if any."""
        return number_citations(cite(*self.ranking), self.ranking, self.quotes)[1]

    @property
    def unusable(self) -> list[tuple[list[Document], str]]:
        """Partitions without usable quotes because of an error, with the error."""
        return [
            (branch["documents"], extraction["error"])
            for branch, extraction in zip(self.branches, self.extractions, strict=True)
            if extraction["error"] and not extraction["quotes"]
        ]

    @property
    def findings(self) -> list[str]:
        """The finding of each extraction, on one line, with source ids for keys; "" if unusable."""
        sources = {document_key(document): source_id(document) for document in self.ranking}
        findings = []
        for extraction in self.extractions:
            finding = extraction["finding"] if extraction["quotes"] else ""
            for key, source in sources.items():
                finding = finding.replace(key, source)
            findings.append(" ".join(finding.split()))
        return findings

    def finding(self, document_id: str | None) -> str:
        """Return the findings that quote a document."""
        return " ".join(
            finding
            for finding, extraction in zip(self.findings, self.extractions, strict=True)
            if any(quote["document_id"] == document_id for quote in extraction["quotes"])
        )


def open_reader(
    model: str | BaseChatModel | Reader | None, settings: Settings | Mapping[str, Any] | None
) -> tuple[Reader, Settings]:
    """Return the reader of a model, or else of the settings, and the settings.

    Raises:
        InputError: There is no model, or the settings cannot be used.
        ModelSetupError, MissingExtraError: The model cannot be opened.
    """
    chosen = settings if isinstance(settings, Settings) else Settings(**dict(settings or {}))
    reader = as_reader(model)
    if reader is not None:
        refuse_ignored(chosen, OF_MODELS, "model")
        return reader, chosen
    if chosen.model is None:
        raise InputError("There is no model to read documents with. Pass one: provider:model.")
    return RESOURCES.reader(chosen), chosen


async def find_evidence(
    reader: Reader, settings: Settings, documents: Sequence[Document], query: str
) -> Evidence | None:
    """Read documents in partitions; return None if the preflight finds no need.

    Raises:
        InputError: The query is empty or too long.
        ModelSetupError: The provider refuses the key or does not know the model.
    """
    question, began = check_question(query), time.time()
    placed = [
        document.model_copy(update={"metadata": {**document.metadata, _PLACE: place}})
        for place, document in enumerate(documents)
        if document.page_content.strip()
    ]
    ranking = [encodable_document(document) for document in as_ranking(placed)]
    calibration = RESOURCES.calibration(settings)
    preflight, route = await asyncio.to_thread(
        check_rankings, question, ranking, settings, calibration=calibration
    )
    emit_route(preflight, route)
    if route != "map_reduce":
        return None
    ranking = assign_keys(question["text"], ranking)
    parts = branches(question, partition(reader, question, ranking, settings))
    budget = settings.budget()
    extractions = await together(extract_from(reader, part, budget) for part in parts)
    characters = reader.vanilla_characters(question, ranking)
    tokens = None if characters is None else estimate_tokens(characters, budget.calls)
    return Evidence(
        query=question["text"],
        documents=[
            documents[document.metadata[_PLACE]].model_copy(update={"id": document.id})
            for document in ranking
        ],
        ranking=ranking,
        branches=parts,
        extractions=extractions,
        preflight=preflight,
        usage=summarise(budget.calls, seconds=time.time() - began, vanilla_input_tokens=tokens),
    )
