"""The method inside other agents and retrievers: a middleware and a document compressor."""

import ast
import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.types import Command
from pydantic import PrivateAttr
from typing_extensions import TypedDict

from briefcontext.chains.answer import Preflight
from briefcontext.chains.articles import source_id
from briefcontext.chains.citation import (
    Citation,
    CitedQuote,
    assign_keys,
    cite,
    document_key,
    number_citations,
)
from briefcontext.chains.model.event_loop import together, wait_for
from briefcontext.chains.model.usage import Usage, estimate_tokens, summarise
from briefcontext.chains.plain_text import describe_source
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Extraction, Quote, Reader
from briefcontext.chains.references import list_references, place_words
from briefcontext.errors import InputError
from briefcontext.graphs.resources import OF_MODELS, RESOURCES, as_reader, refuse_ignored
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.state import Partition
from briefcontext.graphs.steps import (
    branches,
    check_rankings,
    emit_route,
    encodable_document,
    extract_from,
    partition,
)
from briefcontext.retrievers.ranking_retriever import as_ranking

Result = ToolMessage | Command[Any]
_QUERY_ARGUMENTS = ("query", "question", "input")
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

    def findings(self, *ids: str | None) -> list[str]:
        """Return the findings that quote any of the documents, with source ids for keys."""
        sources = {document_key(document): source_id(document) for document in self.ranking}
        findings = []
        for extraction in self.extractions:
            if not any(quote["document_id"] in ids for quote in extraction["quotes"]):
                continue
            finding = " ".join(extraction["finding"].split())
            for key, source in sources.items():
                finding = finding.replace(key, source)
            findings += [finding] if finding else []
        return findings


def open_reader(
    model: str | BaseChatModel | Reader | None, settings: Settings | Mapping[str, Any] | None
) -> tuple[Reader, Settings]:
    """Return the reader of a model, or else of the settings, and the settings.

    Raises InputError without a model or with unusable settings, and ModelSetupError or
    MissingExtraError if the model cannot be opened.
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

    Raises InputError for an empty or too long query, and ModelSetupError for a refused key.
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


class BriefContextMiddleware(AgentMiddleware[Any, Any, Any]):
    """Replaces the documents that a tool returns by the evidence in them.

    If a tool returns more documents than the setting `partition_size`, the preflight compares
    their order with BM25's for the tool's query. If the two agree, the message stays as it is.
    Otherwise the documents are read in partitions, and the agent's model gets the quotes that bear
    on the query, each with its source and place. The documents of a partition that could not be
    read stay in the message. The message's artifact becomes an `EvidenceArtifact`.

    Args:
        model: Chat model that reads, its name as `provider:model`, or a `Reader`. By default the
            setting `model`.
        tools: Tools to apply to, by default all that return LangChain documents, as their artifact
            or as their whole result. A mapping of names to separators is for tools that return
            documents as text.
        settings: `partition_size`, and the settings of the preflight, of models and of their calls.

    Raises:
        InputError: An argument cannot be used.
        ModelSetupError, MissingExtraError: The model cannot be opened.
    """

    def __init__(
        self,
        model: str | BaseChatModel | Reader | None = None,
        tools: Sequence[str | BaseTool] | Mapping[str, str] | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.tools = []  # The agent gets no tools from here.
        self._reader, self._settings = open_reader(model, settings)
        self._separators = dict(tools) if isinstance(tools, Mapping) else {}
        named = [tools] if isinstance(tools, str) else tools or []
        names = {tool.name if isinstance(tool, BaseTool) else tool for tool in named}
        self._names = None if tools is None else names

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]
    ) -> Result:
        """Run the tool; return its message, or the evidence in it."""
        return wait_for(self._message(request.tool_call, handler(request)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """Run the tool; return its message, or the evidence in it."""
        return await self._message(request.tool_call, await handler(request))

    async def _message(self, call: Mapping[str, Any], message: Result) -> Result:
        applies = self._names is None or call["name"] in self._names
        if not applies or not isinstance(message, ToolMessage) or message.status == "error":
            return message
        documents = _documents(message, self._separators.get(call["name"]))
        query = _query(call["args"])
        if query is None or len(documents) <= self._settings.partition_size:
            return message
        evidence = await find_evidence(self._reader, self._settings, documents, query)
        if evidence is None:
            return message
        artifact = EvidenceArtifact(
            documents=evidence.documents,
            extractions=evidence.extractions,
            citations=[citation for citation in evidence.citations if citation["quotes"]],
            preflight=evidence.preflight,
            usage=evidence.usage,
            artifact=None if message.artifact is documents else message.artifact,
        )
        return message.model_copy(update={"content": evidence_text(evidence), "artifact": artifact})


class BriefContextCompressor(BaseDocumentCompressor):
    """Cuts documents to the quotes that bear on a query.

    If the preflight finds that the documents' order agrees with BM25's, they are returned as they
    are. Otherwise they are read in partitions, and those with evidence are returned in their order.
    The text of each is its quotes. Its metadata has the `finding` of its partition, and `quotes`
    with their offsets in the whole text. The documents of a partition that could not be read are
    returned whole, with the reason as `error` in their metadata.

    The arguments and errors are those of `BriefContextMiddleware`.
    """

    _reader: Reader = PrivateAttr()
    _settings: Settings = PrivateAttr()

    def __init__(
        self,
        model: str | BaseChatModel | Reader | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._reader, self._settings = open_reader(model, settings)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the documents with evidence on a query, cut to it."""
        return self._compression(documents).invoke(query, RunnableConfig(callbacks=callbacks))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the documents with evidence on a query, cut to it."""
        config = RunnableConfig(callbacks=callbacks)
        return await self._compression(documents).ainvoke(query, config)

    def _compression(
        self, documents: Sequence[Document]
    ) -> RunnableLambda[str, Sequence[Document]]:
        # Model calls inherit the callbacks of the runnable that they are made in.
        async def compress(query: str) -> Sequence[Document]:
            if not documents:
                return documents
            evidence = await find_evidence(self._reader, self._settings, documents, query)
            return documents if evidence is None else _compressed(evidence)

        return RunnableLambda(
            lambda query: wait_for(compress(query)), compress, type(self).__name__
        )


def _query(arguments: Mapping[str, Any]) -> str | None:
    """Return the argument with the name of a query, or the only text; None without one."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    named = [texts[name] for name in _QUERY_ARGUMENTS if name in texts]
    query = named[:1] or list(texts.values())
    try:
        return check_question(query[0])["text"] if len(query) == 1 else None
    except InputError:
        return None


def _documents(message: ToolMessage, separator: str | None) -> list[Document]:
    """Return the documents in a tool's message."""
    artifact, content = message.artifact, message.content
    listed = artifact if isinstance(artifact, list) else []
    if listed and all(isinstance(document, Document) for document in listed):
        return listed
    if not separator:
        return _printed(message.text)
    blocks = [content] if isinstance(content, str) else content
    texts = [block if isinstance(block, str) else str(block.get("text", "")) for block in blocks]
    pieces = [piece.strip() for text in texts for piece in text.split(separator)]
    return [
        Document(page_content=piece, metadata={"source": f"document {number}"})
        for number, piece in enumerate(filter(None, pieces), start=1)
    ]


def _printed(text: str) -> list[Document]:
    """Return the documents of a list that LangChain printed into a message; none for other text."""
    if not text.startswith("[Document("):
        return []
    try:
        listed: Any = ast.parse(text, mode="eval").body
        return [
            Document(**{field.arg: _literal(field.value) for field in call.keywords})
            for call in listed.elts
        ]
    except (AttributeError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return []


def _literal(node: ast.AST) -> Any:
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_literal(key): _literal(value) for key, value in pairs if key}
    try:
        return ast.literal_eval(node)
    except ValueError:  # Another object in the metadata, such as a date.
        return ast.unparse(node)


def evidence_text(evidence: Evidence) -> str:
    """Return the quotes by source, the findings, and the documents that could not be read."""
    citations, documents = evidence.citations, evidence.ranking
    cited = [citation for citation in citations if citation["quotes"]]
    sources = {
        key: describe_source(reference, citations)
        for reference in list_references(citations, documents)
        for key in reference["keys"]
    }
    headings = {citation["document_id"]: sources[citation["key"]] for citation in citations}
    parts = [
        f"Query: {' '.join(evidence.query.split())}\n"
        f"Documents read: {len(documents)}. With evidence: {len(cited)}."
    ]
    for citation in cited:
        lines = [f"- {_located(quote)}" for quote in citation["quotes"]]
        parts.append("\n".join([headings[citation["document_id"]], *lines]))
    ids = [document.id for document in documents]
    findings = [f"- {finding}" for finding in evidence.findings(*ids)]
    if findings:
        parts.append("\n".join(["In the words of the model that read them:", *findings]))
    for group, reason in evidence.unusable:
        parts.append(f"Documents that could not be read, in full: {len(group)}. {reason}")
        parts += [f"{headings[str(each.id)]}\n{each.page_content.strip()}" for each in group]
    return "\n\n".join(parts)


def _located(quote: CitedQuote) -> str:
    characters = "" if quote["start"] is None else f"characters {quote['start']}–{quote['end']}"
    place = ", ".join(filter(None, [place_words(quote), characters]))
    return f'"{" ".join(quote["text"].split())}" ({place})'


def _compressed(evidence: Evidence) -> list[Document]:
    errors = {document.id: reason for group, reason in evidence.unusable for document in group}
    compressed = []
    for document in evidence.documents:
        text, metadata = document.page_content, document.metadata
        quotes = [quote for quote in evidence.quotes if quote["document_id"] == document.id]
        if error := errors.get(document.id):
            metadata = {**metadata, "error": error}
        elif quotes:
            text = "\n".join(quote["text"] for quote in quotes)
            finding = " ".join(evidence.findings(document.id))
            metadata = {**metadata, "finding": finding, "quotes": quotes}
        else:
            continue
        update = {"page_content": text, "metadata": metadata}
        compressed.append(document.model_copy(update=update))
    return compressed
