"""The models of a run: opened with the run's own store of replies, and read by the graph."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage

from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.chat_model import open_chat_model, without_streaming
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.model.reply_cache import ReplyCache
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.errors import ModelCallError
from briefcontext.graphs.graph import build_graph
from briefcontext.prompts import BUNDLED, Prompts
from briefcontext.retrievers.ranking_retriever import RankingRetriever

__all__ = ["SHORT_ANSWER", "RunModels", "StrictReader", "refuse_unread", "shortly"]

SHORT_ANSWER = "Answer in as few words as possible, without an explanation."
"""Added to a question whose answer is compared word by word, for every method alike, in prompts and nowhere else."""


def shortly(question: str) -> str:
    """Return a question as a model gets it that is to answer in few words."""
    return f"{question}\n{SHORT_ANSWER}"


class ShortAnswers(Prompts):
    """The same templates for questions that are to be answered in few words.

    Only prompts have what is added to the question: the preflight compares rankings by the question itself.
    """

    def __init__(self, prompts: Prompts) -> None:
        self.texts = prompts.texts

    def render(self, name: str, question: str, options: Mapping[str, str], **values: Any) -> list[BaseMessage]:
        """Fill a template for one question."""
        return super().render(name, shortly(question), options, **values)


class RunModels:
    """The chat models that a run asks.

    Args:
        model: provider:model, or a chat model.
        extract_model: another one for the extractions; the same by default.
        replies: file that keeps every reply; None for a model that costs nothing.
        prompts: templates of the user's own.
        repeat: which of a run's repeats it serves, from 0; replies to another are never taken for it.
        retriever: over the corpus whose rankings are read; None where all documents are given.
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
        retriever: RankingRetriever | None = None,
        repeat: int = 0,
        **kwargs: Any,
    ) -> None:
        chat = _open(model, replies, repeat, kwargs)
        worker = None if extract_model is None else _open(extract_model, replies, repeat, kwargs)
        self.model = Model(chat, prompts=prompts)

        @lru_cache
        def graph(short: bool) -> Any:
            own = ShortAnswers(prompts) if short else prompts
            return build_graph(reader=StrictReader(chat, extract_model=worker, prompts=own), retriever=retriever)

        self.graph = graph
        """Makes the graph whose reader asks for short answers, or for such as they come."""

    def prompt(self, name: str, question: Question, **values: Any) -> list[BaseMessage]:
        """Return a template with a question and what else it names, as the answering model gets it."""
        return self.model.prompts.render(name, question["text"], question["options"], **values)

    async def ask(self, name: str, question: Question, budget: CallBudget, **values: Any) -> str:
        """Ask the answering model once by a template, with retries, and return its words.

        Raises:
            ModelError: the call failed for good.
        """
        return (await self.model.ask(Request(name, self.prompt(name, question, **values)), budget)).text


def _open(model: str | BaseChatModel, replies: Path | None, repeat: int, kwargs: dict[str, Any]) -> BaseChatModel:
    chat = open_chat_model(model, **kwargs) if isinstance(model, str) else model
    # Nobody reads along, and a request that is streamed is not the one that a batch would send.
    chat = without_streaming(chat)
    if replies is None:
        return chat
    name = model if isinstance(model, str) else str(getattr(model, "model_name", type(model).__name__))
    return chat.model_copy(update={"cache": RunReplies(replies, name, repeat)})


class RunReplies(ReplyCache):
    """The replies of one model in a run. Its address is no part of a key: a run goes on when its server has moved."""

    def __init__(self, path: Path, model: str, repeat: int = 0) -> None:
        super().__init__(path, model)
        self._repeat = f"repeat {repeat}" if repeat else ""

    def _key(self, prompt: str, llm_string: str) -> str:
        # LangChain writes: the model's serialised form, a line, and the parameters of the call.
        return super()._key(prompt, llm_string.rpartition("---")[2] + self._repeat)


def refuse_unread(extractions: Sequence[Extraction]) -> None:
    """Raise a `ModelCallError` where a partition was not read."""
    if failed := [extraction for extraction in extractions if extraction["status"] == "failed"]:
        raise ModelCallError(f"{len(failed)} of {len(extractions)} partitions failed. The first: {failed[0]['error']}")


class StrictReader(LLMReader):
    """A reader that fails where a part of the documents was not read.

    An experiment measures the method, not what is left of it when a call fails.
    """

    async def areduce(
        self, question: Question, documents: Sequence[Document], extractions: Sequence[Extraction], budget: CallBudget
    ) -> Draft:
        """Answer from the evidence of the partitions.

        Raises:
            ModelCallError: a partition was not read, so that the evidence would not be complete.
        """
        refuse_unread(extractions)
        return await super().areduce(question, documents, extractions, budget)
