"""Knowledge bases, documents, models and readers that the settings name, opened once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path, PurePath

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel

from briefcontext.chains.answer import Searched
from briefcontext.chains.articles import related_sources
from briefcontext.chains.citation import web_link
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.call import Model
from briefcontext.chains.passage_reader import PassageReader
from briefcontext.chains.reader import Reader
from briefcontext.chains.verify import EntailmentVerifier, ModelVerifier, Verifier
from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.files import file_sha256
from briefcontext.graphs.settings import CALIBRATED, IOU, Settings
from briefcontext.knowledge.encoders.entailment import EntailmentModel
from briefcontext.knowledge.knowledge_base import DEMO, KnowledgeBase
from briefcontext.knowledge.pubmed.live import LIVE_PUBMED, LivePubMed
from briefcontext.knowledge.store.filters import LABELLED, Filters
from briefcontext.knowledge.store.manifest import Manifest
from briefcontext.prompts import Prompts
from briefcontext.retrievers.calibration import CALIBRATION_FILE, Calibration
from briefcontext.retrievers.knowledge_base import LexicalSearch, retriever_over
from briefcontext.retrievers.long_document import LongDocumentRetriever, Progress
from briefcontext.retrievers.passage_ranking import PassageRanker
from briefcontext.retrievers.ranking_retriever import RankingRetriever

CROSS_ENCODER = "cross-encoder:"
"""Begins the name of an entailment model."""
_KEPT_OPEN = 8
OF_SEARCH = {"knowledge_base", "document", "retrieval", "cross_encoder"}
"""Settings that a graph with its own retriever ignores."""
OF_MODELS = {"model", "extract_model", "model_arguments", "prompts"}
"""Settings that a graph with its own model or reader ignores."""


def retriever(
    settings: Settings, progress: Progress | None = None, over: LongDocumentRetriever | None = None
) -> RankingRetriever:
    """Return the retriever over the settings' knowledge base or document, or over another one.

    `progress` is called while a document is encoded.

    Raises:
        InputError: The method or a filter does not fit the knowledge base.
        KnowledgeBaseError: The knowledge base is missing, broken or unfinished.
        MissingExtraError: The encoder's package is not installed.
    """
    settings = settings.resolved()
    searched = over or _searched(settings, progress)
    if isinstance(searched, KnowledgeBase):
        _check_labels(searched, settings.filters)
    has_terms = "retrieval" in settings.model_fields_set or isinstance(searched, LexicalSearch)
    return retriever_over(
        searched, settings.retrieval if has_terms else "dense", settings.cross_encoder
    )


def searched(settings: Settings, own_retriever: RankingRetriever | None = None) -> Searched:
    """Return the name and version of the collection."""
    resolved = settings.resolved()
    if settings.document is not None:
        path = str(resolved.document)
        digest = _digest(path, _modified(path))
        return Searched(
            name=PurePath(settings.document).name, version=f"sha256:{digest}", updated=None
        )
    manifest: Manifest | None
    if own_retriever is not None:
        name = (
            own_retriever.name or type(getattr(own_retriever, "retriever", own_retriever)).__name__
        )
        manifest = own_retriever.dense_over
    else:
        # Show only the folder's name. Live PubMed has no version.
        name = PurePath(settings.knowledge_base).name or settings.knowledge_base
        base = knowledge_base(resolved.knowledge_base)
        manifest = base.published if isinstance(base, KnowledgeBase) else None
    if manifest is None:
        return Searched(name=name, version=None, updated=None)
    return Searched(name=name, version=str(manifest.serial), updated=manifest.updated)


def calibration(settings: Settings) -> Calibration | None:
    """Return the calibration of the settings, or None. Raises InputError if it is unusable."""
    if settings.preflight == IOU:
        return None
    if settings.preflight != CALIBRATED:
        path = Path(settings.preflight)
        wanted = "'iou', 'calibrated', or a calibration file"
    else:
        path = Path(settings.resolved().knowledge_base) / CALIBRATION_FILE
        wanted = f"a knowledge base with a {CALIBRATION_FILE}"
    if not path.is_file():
        raise InputError(
            f"preflight = {settings.preflight!r}: there is no calibration {path.name}. Use "
            f"{wanted}. "
            f"Make one: briefcontext calibrate --kb {settings.knowledge_base} "
            "--questions FILE --out FILE."
        )
    return _calibration(str(path), path.stat().st_mtime_ns)


@lru_cache(_KEPT_OPEN)
def _calibration(path: str, modified: int) -> Calibration:
    return Calibration.read(path)


def _searched(
    settings: Settings, progress: Progress | None
) -> KnowledgeBase | LivePubMed | LongDocumentRetriever:
    if (path := settings.document) is not None:
        return _document(_DocumentFile(path, _modified(path), progress))
    return knowledge_base(settings.knowledge_base)


def filtered(settings: Settings) -> tuple[int, int] | None:
    """Return the number of passages that pass the filters, and of all; None if unknown."""
    searched = _searched(settings.resolved(), None)
    if not isinstance(searched, KnowledgeBase):
        return None
    return searched.count(settings.filters, retracted=settings.include_retracted), len(searched)


def labels(settings: Settings) -> dict[str, list[str]]:
    """Return frequent labels by kind of filter, as far as they are known."""
    if settings.document is not None or settings.knowledge_base == DEMO:
        return {}
    searched = knowledge_base(settings.resolved().knowledge_base)
    return (
        searched.labels()
        if isinstance(searched, KnowledgeBase)
        else {name: [] for name in LABELLED}
    )


def size(settings: Settings) -> str | None:
    """Return the number of passages and their date in words; None for live PubMed and the demo."""
    settings = settings.resolved()
    if settings.document is None and settings.knowledge_base == DEMO:
        return None
    searched = _searched(settings, None)
    if settings.document is not None and isinstance(searched, LongDocumentRetriever):
        passages = len(searched.chunks)
        day = date.fromtimestamp(_modified(settings.document)).isoformat()
    elif isinstance(searched, KnowledgeBase):
        passages, day = len(searched), searched.manifest.updated[:10]
    else:
        return None
    return f"{passages:,} passage{'s' * (passages != 1)}, of {day}"


def fitting(documents: Sequence[Document], characters: int) -> list[Document]:
    """Return the first documents that together fit into a number of characters."""
    lengths = accumulate(len(document.page_content) for document in documents)
    return [
        document
        for document, length in zip(documents, lengths, strict=True)
        if length <= characters
    ]


def source(settings: Settings, source_id: str) -> list[Document]:
    """Return all passages of one source, in order. Raises KnowledgeBaseError for an unknown one."""
    return linked(_searched(settings.resolved(), None).source(source_id), settings)


def related(documents: Sequence[Document], settings: Settings) -> list[Document]:
    """Return the knowledge base's other records of the documents' articles."""
    names, searched = related_sources(documents), _searched(settings.resolved(), None)
    return searched.named(names) if names and isinstance(searched, KnowledgeBase) else []


def linked(documents: Sequence[Document], settings: Settings) -> list[Document]:
    """Return the documents, on servers without links to local files."""
    if settings.file_links:
        return list(documents)
    return [
        document.model_copy(
            update={"metadata": {**document.metadata, "url": web_link(document, files=False)}}
        )
        for document in documents
    ]


def reader(
    settings: Settings,
    own_retriever: RankingRetriever | None = None,
    progress: Progress | None = None,
) -> Reader:
    """Return the reader of the settings: the model's, or without a model the passage reader.

    `progress` is called while a document is encoded.

    Raises:
        InputError: The prompts are unusable, or settings of a model are set without a model.
        ModelSetupError, MissingExtraError: A model cannot be opened.
    """
    settings = settings.resolved()
    if settings.model is not None:
        of_models = settings.model_dump_json(include=OF_MODELS)
        return _llm_reader(of_models, Prompts(settings.prompts))
    for name in ("extract_model", "model_arguments", "prompts"):
        if getattr(settings, name):
            raise InputError(f"{name} is set and model is not. Name the model (--model).")
    if own_retriever is not None:
        return PassageReader(PassageRanker(own_retriever.term_statistics))
    searched = _searched(settings, progress)
    encoder = (
        searched.encoder
        if isinstance(searched, LongDocumentRetriever)
        else searched.manifest.encoder
    )
    return PassageReader(PassageRanker(searched.term_statistics, encoder.name))


def as_reader(given: object) -> Reader | None:
    """Return the reader of a model, a reader as it is, or None. Raises InputError for others."""
    if isinstance(given, str | BaseChatModel):
        return LLMReader(given)
    if given is None or (isinstance(given, Reader) and not isinstance(given, type)):
        return given
    raise InputError(
        f"{given!r:.100} cannot answer. Pass a chat model without bindings or fallbacks, its name "
        "as provider:model, or as reader= an LLMReader or another Reader; a retriever goes in as "
        "retriever=. For arguments of the model: LLMReader('provider:model', arguments={…})."
    )


def refuse_ignored(settings: Settings, names: Collection[str], argument: str) -> None:
    """Raise InputError for settings that have no effect beside this argument."""
    fields = type(settings).model_fields
    ignored = [name for name in names if getattr(settings, name) != fields[name].default]
    if ignored:
        raise InputError(
            f"A {argument} was passed, which ignores {', '.join(sorted(ignored))}. Leave out these "
            f"settings, or the {argument}."
        )


@lru_cache(_KEPT_OPEN)
def knowledge_base(name: str) -> KnowledgeBase | LivePubMed:
    """Open a knowledge base once. Raises KnowledgeBaseError if there is no complete one."""
    if name.startswith(LIVE_PUBMED):
        return LivePubMed.from_name(name)
    return KnowledgeBase.open(name)


@lru_cache(_KEPT_OPEN)
def _check_labels(base: KnowledgeBase, filters: Filters) -> None:
    base.check_labels(filters)


def _modified(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        raise KnowledgeBaseError(f"There is no file {path}. Check the path.") from None


@lru_cache(_KEPT_OPEN)
def _digest(path: str, modified: float) -> str:
    return file_sha256(Path(path))


@dataclass(frozen=True)
class _DocumentFile:
    """Cache key of a file: its path and time of modification."""

    path: str
    modified: float
    progress: Progress | None = field(compare=False)


@lru_cache(_KEPT_OPEN)
def _document(file: _DocumentFile) -> LongDocumentRetriever:
    return LongDocumentRetriever.from_file(file.path, progress=file.progress)


@lru_cache(_KEPT_OPEN)
def _llm_reader(of_models: str, prompts: Prompts) -> Reader:
    settings = Settings.model_validate_json(of_models)
    return LLMReader(
        str(settings.model),
        extract_model=settings.extract_model,
        arguments=settings.model_arguments,
        prompts=prompts,
    )


def verifier(settings: Settings, reader: Reader) -> Verifier | None:
    """Return the verifier of the settings, or the model that answers; None without either.

    Raises ModelSetupError or MissingExtraError if a model cannot be opened.
    """
    settings = settings.resolved()
    if (name := settings.verify_model) is None:
        return ModelVerifier(reader.model) if isinstance(reader, LLMReader) else None
    if name.startswith(CROSS_ENCODER):
        folder = name.removeprefix(CROSS_ENCODER)
        return EntailmentVerifier(partial(_entailment_model, folder), name)
    return _model_verifier(
        settings.model_dump_json(include=OF_MODELS), name, Prompts(settings.prompts)
    )


@lru_cache(_KEPT_OPEN)
def _model_verifier(of_models: str, name: str, prompts: Prompts) -> Verifier:
    settings = Settings.model_validate_json(of_models)
    return ModelVerifier(Model(name, arguments=settings.model_arguments, prompts=prompts))


@lru_cache(_KEPT_OPEN)
def _entailment_model(name: str) -> EntailmentModel:
    return EntailmentModel(name)
