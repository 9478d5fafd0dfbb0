"""Equal requests that are made at the same time, asked once."""

import asyncio
from typing import Any
from weakref import WeakValueDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatResult

from briefcontext.evaluation.trace import TracedReplies

__all__ = ["asked_once"]


def asked_once(chat: BaseChatModel, replies: TracedReplies) -> BaseChatModel:
    """Return a model that keeps its replies in `replies`, and asks for each of them once.

    LangChain looks a reply up, asks for it, and keeps it: two equal requests at the same time both find nothing. So
    a request waits while an equal one is on its way, and takes its reply. When that one fails, the next is sent, so
    that every request still has its own retries. That holds for asynchronous calls, which are all that a run makes.
    """
    kind = type(chat)
    # The lock of a request that nobody is making any more goes by itself.
    locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def _agenerate(
        self: BaseChatModel, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        lock = locks.setdefault(replies.missed, asyncio.Lock())
        async with lock:
            if (found := replies.found_since()) is not None:
                return found
            result = await kind._agenerate(self, messages, stop, run_manager, **kwargs)
            replies.keep(result)
            return result

    body = {"_agenerate": _agenerate, "__module__": kind.__module__, "__doc__": kind.__doc__}
    copy = chat.model_copy(update={"cache": replies})
    # Its fields stay as they are: to make it anew would open its clients again.
    object.__setattr__(copy, "__class__", type(kind.__name__, (kind,), body))
    return copy
