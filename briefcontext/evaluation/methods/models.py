"""The models of a run, with its store of replies and a trace of their calls."""

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
from briefcontext.chains.model.reply_cache import ReplyCache, from_cache
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.errors import ModelCallError
from briefcontext.files import sha256
from briefcontext.graphs.graph import build_graph
from briefcontext.prompts import BUNDLED, Prompts
from briefcontext.retrievers.ranking_retriever import RankingRetriever

DOCUMENT = re.compile(r'<document key="(\w+)">\n(.*?)\n</document>', re.DOTALL)

SHORT_ANSWER = "Answer in as few words as possible, without an explanation."
"""Added in prompts to a question whose answer is compared word by word, for every method."""


class ShortAnswers(Prompts):
    """The same templates, which ask for short answers to some questions."""

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
        extract_model: another one for the extractions.
        replies: file that keeps every reply, if any.
        prompts: templates.
        short: questions that need short answers.
        repeat: number of the repeat, from 0; each has separate replies.
        retriever: over the corpus whose rankings are read; None if all documents are given.
        force_choice: answer multiple choice with a letter even without evidence.
        kwargs: further arguments of the provider's class, such as the temperature.
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
        """Return True if the question must be answered with a letter."""
        return self.force_choice and bool(question["options"])

    def prompt(self, name: str, question: Question, **values: Any) -> list[BaseMessage]:
        """Return the messages of a template with a question and other values."""
        return self.model.prompts.render(name, question["text"], question["options"], **values)

    async def ask(self, name: str, question: Question, budget: CallBudget, **values: Any) -> str:
        """Ask the answering model by a template, and return its reply."""
        return (
            await self.model.ask(Request(name, self.prompt(name, question, **values)), budget)
        ).text


def _open(
    model: str | BaseChatModel, replies: Path | None, repeat: int, kwargs: dict[str, Any]
) -> BaseChatModel:
    chat = open_chat_model(model, **kwargs) if isinstance(model, str) else model
    # A streamed request differs from the one that a batch sends.
    chat = without_streaming(chat)
    if replies is None:
        return chat
    name = (
        model if isinstance(model, str) else str(getattr(model, "model_name", type(model).__name__))
    )
    return chat.model_copy(update={"cache": RunReplies(replies, name, repeat)})


class RunReplies(ReplyCache):
    """The replies of one model in a run. A key has no address, so that a server may move."""

    def __init__(self, path: Path, model: str, repeat: int = 0) -> None:
        super().__init__(path, model)
        self._repeat = f"repeat {repeat}" if repeat else ""

    def _key(self, prompt: str, llm_string: str) -> str:
        # LangChain writes the serialised model, a line, and the parameters of the call.
        return super()._key(prompt, llm_string.rpartition("---")[2] + self._repeat)


def refuse_unread(extractions: Sequence[Extraction]) -> None:
    """Raise ModelCallError if a partition was not read."""
    failed = [extraction for extraction in extractions if extraction["status"] == "failed"]
    if failed:
        raise ModelCallError(
            f"{len(failed)} of {len(extractions)} partitions failed: {failed[0]['error']}"
        )


class StrictReader(LLMReader):
    """A reader that fails if a partition was not read."""

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Answer from the evidence of all partitions."""
        refuse_unread(extractions)
        return await super().areduce(question, documents, extractions, budget)


class ReplyWantedError(httpx2.ConnectError):
    """A reply that a batch has still to get."""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """A request and its reply, from the model or from the store."""

    stage: str
    served_model: str
    index: int
    request_sha256: str
    """Digest of model, parameters and prompt: equal requests are asked once in a run."""
    prompt_sha256: str
    output: str
    input_tokens: int
    context_tokens: int
    """Input tokens of the documents, by their share of the prompt's characters."""
    output_tokens: int
    kept: bool


class CallTrace(BaseCallbackHandler):
    """The model calls of one answer, with the stage and partition in their metadata."""

    raise_error = True
    run_inline = True

    def __init__(self, repeat: int = 0) -> None:
        self._repeat = f"\0repeat {repeat}" if repeat else ""
        self.calls: list[TracedCall] = []
        self.wanted = False
        """True if a batch has still to get a reply."""
        self._asked: dict[UUID, tuple[Mapping[str, Any], str, str, float]] = {}

    def ordered(self) -> list[TracedCall]:
        """Return the calls by stage, in order of appearance, and by partition."""
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
        """Keep the request."""
        parameters = json.dumps(kwargs.get("invocation_params"), sort_keys=True, default=str)
        prompt = "\n".join(message.text for message in messages[0])
        context = sum(len(match[0]) for match in DOCUMENT.finditer(prompt)) / max(1, len(prompt))
        self._asked[run_id] = (
            kwargs.get("metadata") or {},
            parameters,
            dumps(messages[0]),
            context,
        )

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the reply."""
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
        """Check if a call failed because a batch has still to get its reply."""
        self._asked.pop(run_id, None)
        cause: BaseException | None = error
        while cause is not None:
            self.wanted = self.wanted or isinstance(cause, ReplyWantedError)
            cause = cause.__cause__
