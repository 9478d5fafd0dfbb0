"""A LangChain callback that records the model calls of one answer."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx2
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.load import dumps
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from briefcontext.files import sha256

__all__ = ["DOCUMENT", "CallTrace", "ReplyWantedError", "TracedCall"]


DOCUMENT = re.compile(r'<document key="(\w+)">\n(.*?)\n</document>', re.DOTALL)
"""A document as it stands in a prompt: its key, and its text."""


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
        repeat: which of a run's repeats it is, from 0; equal requests of two repeats are two requests.
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
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note what a model is asked."""
        parameters = json.dumps(kwargs.get("invocation_params"), sort_keys=True, default=str)
        prompt = "\n".join(message.text for message in messages[0])
        context = sum(len(found[0]) for found in DOCUMENT.finditer(prompt)) / max(1, len(prompt))
        self._asked[run_id] = (metadata or {}, parameters, dumps(messages[0]), context)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what it said."""
        metadata, parameters, prompt, context = self._asked.pop(run_id)
        for reply in response.generations[0]:
            message: Any = reply.message if isinstance(reply, ChatGeneration) else None
            usage: dict[str, Any] = dict(getattr(message, "usage_metadata", None) or {})
            self.calls.append(
                TracedCall(
                    stage=str(metadata.get("stage", "")),
                    index=int(metadata.get("partition") or 0),
                    request_sha256=sha256(f"{parameters}\0{prompt}{self._repeat}"),
                    prompt_sha256=sha256(prompt),
                    output=reply.text or _arguments(getattr(message, "tool_calls", [])),
                    input_tokens=int(usage.get("input_tokens") or 0),
                    output_tokens=int(usage.get("output_tokens") or 0),
                    context_tokens=round(context * int(usage.get("input_tokens") or 0)),
                    served_model=str(getattr(message, "response_metadata", {}).get("model_name") or ""),
                    # LangChain marks a reply from its cache with a total cost of zero.
                    kept=usage.get("total_cost") == 0,
                )
            )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Note whether a call failed because its reply is still to be fetched."""
        self._asked.pop(run_id, None)
        cause: BaseException | None = error
        while cause is not None:
            self.wanted = self.wanted or isinstance(cause, ReplyWantedError)
            cause = cause.__cause__


def _arguments(calls: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([call["args"] for call in calls], ensure_ascii=False) if calls else ""
