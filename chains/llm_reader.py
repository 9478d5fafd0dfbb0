"""The reader with a language model."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel

from briefcontext.chains.extract import extract
from briefcontext.chains.extraction import Extraction
from briefcontext.chains.follow_up import rewrite_follow_up
from briefcontext.chains.model.call import Model, StructuredOutput
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft
from briefcontext.chains.reduce import reduce
from briefcontext.chains.single_call import answer, answer_prompt
from briefcontext.prompts import BUNDLED, Prompts

__all__ = ["LLMReader"]


class LLMReader:
    """Answers with a chat model: the workers extract, the allocator answers and reduces.

    Args:
        model: any LangChain chat model, or its name as `provider:model`; or a `Model`, with prompts of its own.
        extract_model: another one for the extractions; the same by default.
        arguments: what the classes of models given by name take besides: see `open_chat_model`.
        cache: SQLite file that keeps the replies of models given by name, for experiments.
        prompts: templates of your own; the bundled ones by default.
        structured_output: how models are asked for extractions: `json_schema`, `tools`, `prompt`, or `auto`, which
            goes by LangChain's profile of the model, and by the prompt's words where a provider refuses that.

    Raises:
        ModelSetupError, MissingExtraError: a model cannot be opened.
    """

    def __init__(
        self,
        model: str | BaseChatModel | Model,
        *,
        extract_model: str | BaseChatModel | Model | None = None,
        arguments: Mapping[str, Any] | None = None,
        cache: str | None = None,
        prompts: Prompts = BUNDLED,
        structured_output: StructuredOutput = "auto",
    ) -> None:
        def opened(given: str | BaseChatModel | Model) -> Model:
            if isinstance(given, Model):
                return given
            return Model(given, arguments=arguments, cache=cache, prompts=prompts, structured_output=structured_output)

        self._allocator = opened(model)
        self._worker = self._allocator if extract_model is None else opened(extract_model)

    @property
    def name(self) -> str:
        """The allocator's name."""
        return self._allocator.name

    def extract(self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget) -> Extraction:
        """Find in one partition what bears on the question."""
        return wait_for(self.aextract(question, documents, index, budget))

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Do as `extract` does, without blocking the event loop."""
        return await extract(self._worker, question, documents, index, budget)

    def reduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Answer from the evidence of the partitions."""
        return wait_for(self.areduce(question, documents, extractions, budget))

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Do as `reduce` does, without blocking the event loop."""
        return await reduce(self._allocator, question, documents, extractions, budget)

    async def arewrite(self, question: Question, earlier: Sequence[str], budget: CallBudget) -> Question:
        """Return the question that a follow-up to earlier ones means."""
        return await rewrite_follow_up(self._allocator, question, earlier, budget)

    def answer(self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget) -> Draft:
        """Answer from all documents at once."""
        return wait_for(self.aanswer(question, documents, stage, budget))

    async def aanswer(self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget) -> Draft:
        """Do as `answer` does, without blocking the event loop."""
        return await answer(self._allocator, self._worker, question, documents, stage, budget)

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> int:
        """Return the length of the prompt that would read all documents at once."""
        return sum(len(message.text) for message in answer_prompt(self._allocator.prompts, question, documents))
