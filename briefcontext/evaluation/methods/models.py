"""The models of a run: opened with the run's own store of replies, read by the graph, and traced call by call."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.chat_model import open_chat_model, without_streaming
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.model.reply_cache import ReplyCache, from_cache
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.errors import ModelCallError
from briefcontext.files import sha256
from briefcontext.graphs.graph import build_graph
from briefcontext.prompts import BUNDLED, Prompts
from briefcontext.retrievers.ranking_retriever import RankingRetriever

DOCUMENT = re.compile(r'<document key="(\w+)">\n(.*?)\n</document>', re.DOTALL)
"""A document as it stands in a prompt: its key, and its text."""

SHORT_ANSWER = "Answer in as few words as possible, without an explanation."
"""Added to a question whose answer is compared word by word, for every method alike, in prompts and nowhere else."""


class ShortAnswers(Prompts):
    """The same templates, which ask for answers in few words to some questions. The preflight does not see it."""

    def __init__(self, prompts: Prompts, questions: Collection[str]) -> None:
        self.texts, self._questions = prompts.texts, questions

    def render(
        self, name: str, question: str, options: Mapping[str, str], **values: Any
    ) -> list[BaseMessage]:
        asked = f"{question}\n{SHORT_ANSWER}" if question in self._questions else question
        return super().render(name, asked, options, **values)


class RunModels:
    """The chat models that a run asks.

    Args:
        model: provider:model, or a chat model.
        extract_model: another one for the extractions; the same by default.
        replies: file that keeps every reply; None for a model that costs nothing.
        prompts: templates of the user's own.
        short: questions whose answers are to have few words.
        repeat: which of a run's repeats it serves, from 0; replies to another are never taken for
            it.
        retriever: over the corpus whose rankings are read; None where all documents are given.
        force_choice: Whether multiple choice is answered with a letter even without evidence.
        kwargs: what the provider's class takes besides, such as the temperature.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        extract_model: str | BaseChatModel | None = None,
        replies: Path | None = None,
        prompts: Prompts = BUNDLED,
        short: Collection[str] = (),
        retriever: RankingRetriever | None = None,
        repeat: int = 0,
        force_choice: bool = False,
        **kwargs: Any,
    ) -> None:
        chat = _open(model, replies, repeat, kwargs)
        worker = None if extract_model is None else _open(extract_model, replies, repeat, kwargs)
        prompts = ShortAnswers(prompts, short)
        self.model = Model(chat, prompts=prompts)
        reader = StrictReader(
            chat, extract_model=worker, prompts=prompts, force_choice=force_choice
        )
        self.force_choice = force_choice
        self.graph: Any = build_graph(reader=reader, retriever=retriever)

    def forced(self, question: Question) -> bool:
        """Return whether the question must be answered with a letter."""
        return self.force_choice and bool(question["options"])

    def prompt(self, name: str, question: Question, **values: Any) -> list[BaseMessage]:
        """Return a template with a question and what else it names, as the answering model gets it."""
        return self.model.prompts.render(name, question["text"], question["options"], **values)

    async def ask(self, name: str, question: Question, budget: CallBudget, **values: Any) -> str:
        """Ask the answering model once by a template, with retries, and return its words."""
        return (
            await self.model.ask(Request(name, self.prompt(name, question, **values)), budget)
        ).text


def _open(
    model: str | BaseChatModel, replies: Path | None, repeat: int, kwargs: dict[str, Any]
) -> BaseChatModel:
    chat = open_chat_model(model, **kwargs) if isinstance(model, str) else model
    # Nobody reads along, and a request that is streamed is not the one that a batch would send.
    chat = without_streaming(chat)
    if replies is None:
        return chat
    name = (
        model if isinstance(model, str) else str(getattr(model, "model_name", type(model).__name__))
    )
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
        raise ModelCallError(
            f"{len(failed)} of {len(extractions)} partitions failed. The first: {failed[0]['error']}"
        )


class StrictReader(LLMReader):
    """A reader that fails where a partition was not read: an experiment measures the method, not what is left of it."""

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Answer from the evidence of the partitions, if it is complete."""
        refuse_unread(extractions)
        return await super().areduce(question, documents, extractions, budget)


class ReplyWantedError(httpx2.ConnectError):
    """There is no reply yet to a request that waits to be sent in a batch."""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A request and its reply, whether the reply was fetched now or kept from before."""

    stage: str
    served_model: str
    """The model's name as the provider returned it."""
    index: int
    """The partition's, from 0; 0 where there are no partitions."""
    request_sha256: str
    """Of model, parameters and prompt: equal requests are asked once in a run."""
    prompt_sha256: str
    """Of the prompt's messages."""
    output: str
    input_tokens: int
    context_tokens: int
    """Those of the input tokens that the documents took, by their share of the prompt's characters."""
    output_tokens: int
    """Tokens as the provider reported them when the call was made."""
    kept: bool
    """Whether the reply was there already, so that nothing was asked or paid now."""


class CallTrace(BaseCallbackHandler):
    """Notes the model calls of one answer, with the stage and partition that their metadata name.

    Args:
        repeat: which of a run's repeats it is, from 0; equal requests of two repeats are two
            requests.
    """

    raise_error = True
    run_inline = True

    def __init__(self, repeat: int = 0) -> None:
        self._repeat = f"\0repeat {repeat}" if repeat else ""
        self.calls: list[TracedCall] = []
        self.wanted = False
        """Whether a reply is wanted that is not there yet."""
        self._asked: dict[UUID, tuple[Mapping[str, Any], str, str, float]] = {}

    def ordered(self) -> list[TracedCall]:
        """Return the calls by stage in order of appearance, and by partition within it."""
        stages = list(dict.fromkeys(call.stage for call in self.calls))
        return sorted(self.calls, key=lambda call: (stages.index(call.stage), call.index))

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Note what a model is asked."""
        parameters = json.dumps(kwargs.get("invocation_params"), sort_keys=True, default=str)
        prompt = "\n".join(message.text for message in messages[0])
        context = sum(len(found[0]) for found in DOCUMENT.finditer(prompt)) / max(1, len(prompt))
        self._asked[run_id] = (
            kwargs.get("metadata") or {},
            parameters,
            dumps(messages[0]),
            context,
        )

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what it said."""
        metadata, parameters, prompt, context = self._asked.pop(run_id)
        for reply in response.generations[0]:
            message = reply.message if isinstance(reply, ChatGeneration) else None
            message = message if isinstance(message, AIMessage) else AIMessage("")
            usage: Mapping[str, Any] = message.usage_metadata or {}
            arguments = [call["args"] for call in message.tool_calls]
            given, made = (int(usage.get(name) or 0) for name in ("input_tokens", "output_tokens"))
            self.calls.append(
                TracedCall(
                    stage=str(metadata.get("stage", "")),
                    index=int(metadata.get("partition") or 0),
                    request_sha256=sha256(f"{parameters}\0{prompt}{self._repeat}"),
                    prompt_sha256=sha256(prompt),
                    output=reply.text
                    or (json.dumps(arguments, ensure_ascii=False) if arguments else ""),
                    input_tokens=given,
                    output_tokens=made,
                    context_tokens=round(context * given),
                    served_model=str(message.response_metadata.get("model_name") or ""),
                    kept=from_cache(message),
                )
            )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Note whether a call failed because its reply is still to be fetched."""
        self._asked.pop(run_id, None)
        cause: BaseException | None = error
        while cause is not None:
            self.wanted = self.wanted or isinstance(cause, ReplyWantedError)
            cause = cause.__cause__
