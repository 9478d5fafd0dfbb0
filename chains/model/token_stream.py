"""Telling the tokens of a reply as they come."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk

from briefcontext.chains.model.reasoning import Spoken

__all__ = ["Tell", "Teller"]

Tell = Callable[[str, int], None]
"""Takes a piece of a reply and the number of the attempt that it is of, from 1; a further attempt begins anew.

What was told and then turns out to be reasoning counts as an attempt, too.
"""


class Teller(BaseCallbackHandler):
    """Tells the tokens of one attempt.

    A chat model streams also within `invoke`, through its cache and into its other callbacks, when one of its
    handlers has the two methods `tap_output_…`; LangGraph's own for `messages` mode is such a one. What cannot be
    streamed is told as a whole, at the end. Reasoning in tags is not told.

    Args:
        tell: who is told.
        attempt: the number of the attempt.
        within: whether the reply is expected to begin within a thought.
    """

    run_inline = True
    """Tokens keep their order also where callbacks run in other threads."""

    def __init__(self, tell: Tell, attempt: int, *, within: bool = False) -> None:
        self._tell = tell
        self.attempt = attempt
        """The number of the attempt that was told last."""
        self._spoken = Spoken(within=within)
        self._told = False
        self._open = True

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        **_: Any,
    ) -> None:
        """Tell the text of a token; a call that was given up may still have some, which nobody waits for."""
        text = chunk.message.text if isinstance(chunk, ChatGenerationChunk) else str(token)
        if self._open:
            self._say(self._spoken.take(text))

    def _say(self, words: str) -> None:
        if self._spoken.retracted:
            self._spoken.retracted = False
            self.attempt += self._told
            self._told = False
        if words:
            self._told = True
            self._tell(words, self.attempt)

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Leave the output as it is."""
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Leave the output as it is."""
        return output

    def listening_to(self, chat: BaseChatModel) -> BaseChatModel:
        """Return a model that tells this its tokens, and is otherwise the same."""
        callbacks = chat.callbacks
        if callbacks is not None and not isinstance(callbacks, list):
            callbacks = callbacks.handlers
        return chat.model_copy(update={"callbacks": [*(callbacks or []), self]})

    def end(self, words: str | None) -> None:
        """Tell no more; a reply of which nothing was told yet is told now."""
        if self._open:
            self._say(self._spoken.end() if self._told else words or "")
        self._open = False
