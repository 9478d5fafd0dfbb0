"""The models of a run: opened with the run's own store of replies, and readers that say what they are doing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel

from briefcontext.chains.account import Account
from briefcontext.chains.chat_model import open_chat_model, without_streaming
from briefcontext.chains.extraction import Extraction
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model import Model, Reply, Request
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft
from briefcontext.chains.reply_cache import ReplyCache
from briefcontext.chains.steps import Steps, adrive
from briefcontext.errors import ModelCallError
from briefcontext.evaluation.asked_once import asked_once
from briefcontext.evaluation.given_ranking import GivenRanking
from briefcontext.evaluation.reading import as_asked
from briefcontext.evaluation.trace import TracedReplies, enter_stage, reading_stage
from briefcontext.graphs.graph import build_graph
from briefcontext.knowledge.manifest import Manifest
from briefcontext.prompts import BUNDLED, Prompts

__all__ = ["RunModels", "TracedReader"]


class RunModels:
    """The chat models that a run asks.

    Args:
        model: provider:model, or a chat model.
        extract_model: another one for the extractions; the same by default.
        replies: file that keeps every reply, and by which calls are traced; None is for a model that does both itself.
        prompts: templates of the user's own.
        manifest: of the knowledge base whose dense rankings are read; None where they are synthetic.
        kwargs: what the provider's class takes besides, such as the temperature.

    Raises:
        ModelSetupError, MissingExtraError: a model cannot be opened.
        InputError: the file of replies cannot be opened.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        extract_model: str | BaseChatModel | None = None,
        replies: Path | None,
        prompts: Prompts = BUNDLED,
        manifest: Manifest | None = None,
        **kwargs: Any,
    ) -> None:
        kept = None if replies is None else ReplyCache(replies)
        chat = self.model = TracedModel(_open(model, kept, kwargs), prompts=prompts)
        worker = None if extract_model is None else TracedModel(_open(extract_model, kept, kwargs), prompts=prompts)
        self.reader = TracedReader(LLMReader(chat, extract_model=worker, prompts=prompts))
        self.graph = build_graph(reader=self.reader, retriever=GivenRanking(manifest=manifest))

    async def ask(self, request: Request, account: Account) -> str:
        """Ask the answering model once, with retries, and return its words.

        Raises:
            ModelError: the call failed for good.
        """
        with reading_stage(request.stage):
            return (await adrive(self.model.ask(request, account))).text


def _open(model: str | BaseChatModel, kept: ReplyCache | None, kwargs: dict[str, Any]) -> BaseChatModel:
    chat = open_chat_model(model, **kwargs) if isinstance(model, str) else model
    # Nobody reads along, and a request that is streamed is not the one that a batch would send.
    chat = without_streaming(chat)
    if kept is not None:
        name = model if isinstance(model, str) else str(getattr(model, "model_name", type(model).__name__))
        chat = asked_once(chat, TracedReplies(kept, name))
    return chat


class TracedModel(Model):
    """A model whose calls are noted with their own stage.

    Documents that do not fit into the one call of a route are extracted from within it.
    """

    def ask(self, request: Request, account: Account) -> Steps[Reply]:
        """Do as `Model.ask` does."""
        enter_stage(request.stage)
        return (yield from super().ask(request, account))


class TracedReader:
    """A reader whose calls are noted with their stage and partition."""

    def __init__(self, reader: LLMReader) -> None:
        self._reader = reader

    @property
    def name(self) -> str:
        """The reader's name."""
        return self._reader.name

    def extract(self, question: Question, documents: Sequence[Document], index: int, account: Account) -> Extraction:
        """Find in one partition what bears on the question."""
        with reading_stage("extract", index):
            return self._reader.extract(as_asked(question), documents, index, _refusing_part(account))

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, account: Account
    ) -> Extraction:
        """Do as `extract` does, without blocking the event loop."""
        with reading_stage("extract", index):
            return await self._reader.aextract(as_asked(question), documents, index, _refusing_part(account))

    def reduce(
        self, question: Question, documents: Sequence[Document], extractions: Sequence[Extraction], account: Account
    ) -> Draft:
        """Answer from the evidence of the partitions.

        Raises:
            ModelCallError: a partition's reply is not there, so that the evidence would not be complete.
        """
        _refuse_part(extractions)
        with reading_stage("reduce"):
            return self._reader.reduce(as_asked(question), documents, extractions, account)

    async def areduce(
        self, question: Question, documents: Sequence[Document], extractions: Sequence[Extraction], account: Account
    ) -> Draft:
        """Do as `reduce` does, without blocking the event loop."""
        _refuse_part(extractions)
        with reading_stage("reduce"):
            return await self._reader.areduce(as_asked(question), documents, extractions, account)

    def answer(self, question: Question, documents: Sequence[Document], stage: str, account: Account) -> Draft:
        """Answer from all documents at once."""
        with reading_stage(stage):
            return self._reader.answer(as_asked(question), documents, stage, _refusing_part(account))

    async def aanswer(self, question: Question, documents: Sequence[Document], stage: str, account: Account) -> Draft:
        """Do as `answer` does, without blocking the event loop."""
        with reading_stage(stage):
            return await self._reader.aanswer(as_asked(question), documents, stage, _refusing_part(account))

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> int:
        """Return the length of the prompt that would read all documents at once."""
        return self._reader.vanilla_characters(as_asked(question), documents)


def _refusing_part(account: Account) -> Account:
    """Have a partition that is read in parts fail with any of them."""
    account.on_partition_failure = "raise"
    return account


def _refuse_part(extractions: Sequence[Extraction]) -> None:
    """An experiment measures the method, not what is left of it when a call fails."""
    failed = [extraction for extraction in extractions if extraction["status"] == "failed"]
    if failed:
        raise ModelCallError(f"{len(failed)} of {len(extractions)} partitions failed. The first: {failed[0]['error']}")
