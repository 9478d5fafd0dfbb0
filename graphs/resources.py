"""Knowledge bases, documents, models and readers that the settings name, opened once."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from datetime import date
from functools import partial
from itertools import accumulate
from pathlib import Path, PurePath
from typing import TypeVar, cast

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
from briefcontext.errors import InputError, KnowledgeBaseError, counted
from briefcontext.files import file_sha256
from briefcontext.graphs.settings import CALIBRATED, IOU, Settings
from briefcontext.knowledge.encoders.entailment import EntailmentModel
from briefcontext.knowledge.knowledge_base import DEMO, KnowledgeBase
from briefcontext.knowledge.pubmed.live import LIVE_PUBMED, LivePubMed
from briefcontext.knowledge.store.filters import LABELLED
from briefcontext.prompts import Prompts
from briefcontext.retrievers.calibration import CALIBRATION_FILE, Calibration
from briefcontext.retrievers.knowledge_base import LexicalSearch, retriever_over
from briefcontext.retrievers.long_document import LongDocumentRetriever, Progress
from briefcontext.retrievers.passage_ranking import PassageRanker
from briefcontext.retrievers.ranking_retriever import RankingRetriever

CROSS_ENCODER = "cross-encoder:"
"""Prefix of the name of an entailment model."""
OF_SEARCH = {"knowledge_base", "document", "retrieval", "cross_encoder"}
"""Settings that a graph with its own retriever ignores."""
OF_MODELS = {"model", "extract_model", "model_arguments", "prompts"}
"""Settings that a graph with its own model or reader ignores."""
_KEPT_OPEN = 8
"""Objects of each kind that are kept open."""
_Collection = KnowledgeBase | LivePubMed | LongDocumentRetriever
_T = TypeVar("_T")


class Resources:
    """Knowledge bases, documents, models and readers, opened by the settings that name them.

    Each is opened once. The most recently used ones stay open.
    """

    def __init__(self) -> None:
        self._opened: dict[str, OrderedDict[Hashable, object]] = defaultdict(OrderedDict)

    def _once(self, kind: str, key: Hashable, open_it: Callable[[], _T]) -> _T:
        opened = self._opened[kind]
        value = cast("_T", opened[key]) if key in opened else open_it()
        opened[key] = value
        opened.move_to_end(key)
        if len(opened) > _KEPT_OPEN:
            opened.popitem(last=False)
        return value

    def knowledge_base(self, name: str) -> KnowledgeBase | LivePubMed:
        """Return a knowledge base. Raises KnowledgeBaseError if there is no complete one."""
        live = name.startswith(LIVE_PUBMED)
        open_it = LivePubMed.from_name if live else KnowledgeBase.open
        return self._once("base", name, lambda: open_it(name))

    def collection(self, settings: Settings, progress: Progress | None = None) -> _Collection:
        """Return the knowledge base or document that the settings name.

        `progress` is called while a document is encoded.
        """
        settings = settings.resolved()
        if (path := settings.document) is None:
            return self.knowledge_base(settings.knowledge_base)
        read = partial(LongDocumentRetriever.from_file, path, progress=progress)
        return self._once("document", (path, _modified(path)), read)

    def retriever(
        self,
        settings: Settings,
        progress: Progress | None = None,
        over: LongDocumentRetriever | None = None,
    ) -> RankingRetriever:
        """Return the retriever over the settings' knowledge base or document, or over another one.

        Raises InputError, KnowledgeBaseError or MissingExtraError if it cannot be searched.
        """
        searched = over or self.collection(settings, progress)
        if isinstance(searched, KnowledgeBase):
            base, filters = searched, settings.filters
            self._once("labels", (base, filters), lambda: base.check_labels(filters))
        has_terms = "retrieval" in settings.model_fields_set or isinstance(searched, LexicalSearch)
        method = settings.retrieval if has_terms else "dense"
        return retriever_over(searched, method, settings.resolved().cross_encoder)

    def calibration(self, settings: Settings) -> Calibration | None:
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
                f"{wanted}. Make one: briefcontext calibrate --kb {settings.knowledge_base} "
                "--questions FILE --out FILE."
            )
        key = str(path), path.stat().st_mtime_ns
        return self._once("calibration", key, lambda: Calibration.read(path))

    def reader(
        self,
        settings: Settings,
        own_retriever: RankingRetriever | None = None,
        progress: Progress | None = None,
    ) -> Reader:
        """Return the reader of the model, or without a model the passage reader.

        Raises InputError for unusable prompts or settings of a model without one, and
        ModelSetupError or MissingExtraError if a model cannot be opened.
        """
        resolved = settings.resolved()
        if resolved.model is not None:
            prompts = Prompts(resolved.prompts)
            key = resolved.model_dump_json(include=OF_MODELS), prompts
            return self._once("reader", key, lambda: _llm_reader(resolved, prompts))
        for name in ("extract_model", "model_arguments", "prompts"):
            if getattr(resolved, name):
                raise InputError(f"{name} is set and model is not. Name the model (--model).")
        if own_retriever is not None:
            return PassageReader(PassageRanker(own_retriever.term_statistics))
        searched = self.collection(settings, progress)
        if isinstance(searched, LongDocumentRetriever):
            # One document does not show which words are rare elsewhere.
            return PassageReader(PassageRanker(encoder=searched.encoder.name))
        encoder = searched.manifest.encoder
        return PassageReader(PassageRanker(searched.term_statistics, encoder.name))

    def verifier(self, settings: Settings, reader: Reader) -> Verifier | None:
        """Return the verifier of the settings, or the model that answers; None without either.

        Raises ModelSetupError or MissingExtraError if a model cannot be opened.
        """
        settings = settings.resolved()
        if (name := settings.verify_model) is None:
            return ModelVerifier(reader.model) if isinstance(reader, LLMReader) else None
        if name.startswith(CROSS_ENCODER):
            folder = name.removeprefix(CROSS_ENCODER)
            load = partial(self._once, "entailment", folder, partial(EntailmentModel, folder))
            return EntailmentVerifier(load, name)
        prompts, arguments = Prompts(settings.prompts), settings.model_arguments
        key = name, settings.model_dump_json(include={"model_arguments"}), prompts
        return self._once(
            "verifier",
            key,
            lambda: ModelVerifier(Model(name, arguments=arguments, prompts=prompts)),
        )

    def searched(
        self, settings: Settings, own_retriever: RankingRetriever | None = None
    ) -> Searched:
        """Return the name and version of the collection."""
        if own_retriever is not None:
            wrapped = getattr(own_retriever, "retriever", own_retriever)
            name, manifest = own_retriever.name or type(wrapped).__name__, own_retriever.dense_over
        elif settings.document is not None:
            path = str(settings.resolved().document)
            read = partial(file_sha256, Path(path))
            digest = self._once("digest", (path, _modified(path)), read)
            name = PurePath(settings.document).name
            return Searched(name=name, version=f"sha256:{digest}", updated=None)
        else:
            # Show the name of the folder, not its path. Live PubMed has no version.
            name = PurePath(settings.knowledge_base).name or settings.knowledge_base
            base = self.collection(settings)
            manifest = base.published if isinstance(base, KnowledgeBase) else None
        if manifest is None:
            return Searched(name=name, version=None, updated=None)
        return Searched(name=name, version=str(manifest.serial), updated=manifest.updated)

    def filtered(self, settings: Settings) -> tuple[int, int] | None:
        """Return the number of passages that pass the filters, and of all; None if unknown."""
        base = self.collection(settings)
        if not isinstance(base, KnowledgeBase):
            return None
        return base.count(settings.filters, retracted=settings.include_retracted), len(base)

    def labels(self, settings: Settings) -> dict[str, list[str]]:
        """Return frequent labels by kind of filter, as far as they are known."""
        if settings.document is not None or settings.knowledge_base == DEMO:
            return {}
        base = self.collection(settings)
        return base.labels() if isinstance(base, KnowledgeBase) else {name: [] for name in LABELLED}

    def size(self, settings: Settings) -> str | None:
        """Return the number of passages and the date; None for live PubMed and the demo."""
        if settings.document is None and settings.knowledge_base == DEMO:
            return None
        collection = self.collection(settings)
        if isinstance(collection, LongDocumentRetriever):
            passages = len(collection.chunks)
            day = date.fromtimestamp(_modified(str(settings.resolved().document))).isoformat()
        elif isinstance(collection, KnowledgeBase):
            passages, day = len(collection), collection.manifest.updated[:10]
        else:
            return None
        return f"{counted(passages, 'passage')}, of {day}"

    def source(self, settings: Settings, source_id: str) -> list[Document]:
        """Return all passages of a source, in order. Raises KnowledgeBaseError if it is unknown."""
        return linked(self.collection(settings).source(source_id), settings)

    def related(self, documents: Sequence[Document], settings: Settings) -> list[Document]:
        """Return the knowledge base's other records of the documents' articles."""
        names, base = related_sources(documents), self.collection(settings)
        return base.by_names(names) if names and isinstance(base, KnowledgeBase) else []


RESOURCES = Resources()
"""The resources of the ready-made graph, which the servers and the command line share."""


def _llm_reader(settings: Settings, prompts: Prompts) -> Reader:
    arguments, extract_model = settings.model_arguments, settings.extract_model
    model = str(settings.model)
    return LLMReader(model, extract_model=extract_model, arguments=arguments, prompts=prompts)


def _modified(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        raise KnowledgeBaseError(f"There is no file {path}. Check the path.") from None


def fitting(documents: Sequence[Document], characters: int) -> list[Document]:
    """Return the first documents that together fit into a number of characters."""
    lengths = accumulate(len(document.page_content) for document in documents)
    return list(documents[: sum(length <= characters for length in lengths)])


def linked(documents: Sequence[Document], settings: Settings) -> list[Document]:
    """Return the documents, on servers without links to local files."""
    if settings.file_links:
        return list(documents)
    changed = []
    for document in documents:
        metadata = {**document.metadata, "url": web_link(document, files=False)}
        changed.append(document.model_copy(update={"metadata": metadata}))
    return changed


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
            f"A {argument} was passed, which ignores {', '.join(sorted(ignored))}. Leave out the "
            "one of them."
        )
