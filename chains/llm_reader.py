"""The reader with a language model."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage

from briefcontext.chains.articles import article_id
from briefcontext.chains.citation import document_key
from briefcontext.chains.context import (
    MAX_ADDED,
    group_to_fit,
    render_condensed,
    render_documents,
    render_evidence,
    room_for,
    split_to_fit,
)
from briefcontext.chains.extract import extract, extract_prompt, ground_all, lost_quotes
from briefcontext.chains.model.call import Model, Reply, Request, StructuredOutput
from briefcontext.chains.model.event_loop import together
from briefcontext.chains.model.reply import cut_warning
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.notes import Note, note
from briefcontext.chains.parsing.answer_parser import parse_draft, read_reply, why_no_answer
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.errors import ModelCallError, counted
from briefcontext.prompts import BUNDLED, Prompts

MAX_ROUNDS = 5
"""Rounds in which evidence may be condensed until it fits."""

_QUESTION_MARKS = ("?", "？", "؟")
_QUESTION_LABEL = re.compile(r"^\W*(?:(?:[\w-]+ ){0,3}question|follow-up)\W*:", re.IGNORECASE)


class LLMReader:
    """Answers with a chat model: workers extract, and the allocator answers and reduces.

    Args:
        model: Any LangChain chat model, its name as `provider:model`, or a `Model`.
        extract_model: Another model for the extractions. By default the same.
        arguments: Arguments of models given by name: see `open_chat_model`.
        prompts: Prompt templates. By default the bundled ones.
        structured_output: See `StructuredOutput`; `auto` falls back to `prompt`.
        force_choice: Answer multiple choice with a letter even without evidence, for benchmarks.

    Raises:
        ModelSetupError, MissingExtraError: A model cannot be opened.
    """

    def __init__(
        self,
        model: str | BaseChatModel | Model,
        *,
        extract_model: str | BaseChatModel | Model | None = None,
        arguments: Mapping[str, Any] | None = None,
        prompts: Prompts = BUNDLED,
        structured_output: StructuredOutput = "auto",
        force_choice: bool = False,
    ) -> None:
        self.force_choice = force_choice

        def opened(given: str | BaseChatModel | Model) -> Model:
            if isinstance(given, Model):
                return given
            return Model(
                given, arguments=arguments, prompts=prompts, structured_output=structured_output
            )

        self._allocator = opened(model)
        self._worker = self._allocator if extract_model is None else opened(extract_model)

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self._allocator.name

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self._allocator

    def parts(
        self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget
    ) -> list[list[Document]]:
        """Split documents, in order, to fit the input window of the model that reads them.

        The stage is `extract` or one that answers. Documents that alone exceed the window are cut
        (see `split_to_fit`). Raises ModelCallError if there is no room for documents.
        """
        if stage == "extract":
            room = room_for(self._worker, budget, extract_prompt(self._worker, question, []))
        else:
            prompt = self._answer_prompt(question, [], forced=self._forced(question))
            room = room_for(self._allocator, budget, prompt)
        return split_to_fit(documents, room)

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Extract the evidence of one partition: see `extract`."""
        return await extract(self._worker, question, documents, index, budget)

    async def aanswer(
        self, question: Question, documents: Sequence[Document], stage: str, budget: CallBudget
    ) -> Draft:
        """Answer in one call over all documents.

        Raises ModelCallError if a call failed for good, or the documents exceed the input window.
        """
        forced = self._forced(question)
        prompt = self._answer_prompt(question, documents, forced=forced)
        room_for(self._allocator, budget, prompt, least=-MAX_ADDED)
        request = Request(stage, prompt)
        reply, notes = await self._ask_for_answer(question, request, documents, budget)
        parts = read_reply(reply.text)
        quotes, lost = ground_all(parts.quotes, documents)
        if message := lost_quotes(lost, len(parts.quotes)):
            notes.append(note("caution", "quote_not_found", message))
        return parse_draft(parts, question, quotes, notes, forced=forced, cut=reply.cut)

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Answer from the partitions with evidence in one call (ContextReduce).

        Evidence that exceeds the model's input window is condensed in groups, one call each, until
        it fits. The quotes stay unchanged. Raises ModelCallError if condensing fails.
        """
        forced = self._forced(question)
        by_id = {str(document.id): document for document in documents}
        evidence = [extraction for extraction in extractions if extraction["status"] == "evidence"]

        def prompt(evidence: str) -> list[BaseMessage]:
            asked, options = question["text"], question["options"]
            return self._allocator.prompts.render(
                "reduce", asked, options, may_abstain=not forced, evidence=evidence
            )

        room = room_for(self._allocator, budget, prompt("")) or math.inf
        texts = [text for each in evidence for text in render_evidence(each, by_id, room)]
        texts = texts or ["No reader found any evidence."]
        rounds = 0
        while len("\n".join(texts)) > room:
            rounds += 1
            texts = await self._condense(question, texts, room, rounds, budget)
        request = Request("reduce", prompt("\n".join(texts)))
        reply, notes = await self._ask_for_answer(question, request, documents, budget)
        quotes = [quote for extraction in evidence for quote in extraction["quotes"]]
        if rounds:
            message = "The evidence exceeds the model's input window and was condensed, in "
            notes.append(note("info", "condensed", f"{message}{counted(rounds, 'round')}."))
        parts = read_reply(reply.text)
        return parse_draft(parts, question, quotes, notes, forced=forced, cut=reply.cut)

    async def arewrite(
        self, question: Question, earlier: Sequence[str], budget: CallBudget
    ) -> Question:
        """Rewrite a follow-up to earlier questions as a complete question with the same options.

        Raises ModelCallError if the model wrote no question.
        """
        listed = "\n".join(f"- {' '.join(each.split())}" for each in earlier)
        messages = self._allocator.prompts.render("follow_up", question["text"], {}, earlier=listed)
        reply = await self._allocator.ask(Request("follow_up", messages), budget)
        # Some models announce the question before writing it.
        lines = (_QUESTION_LABEL.sub("", line) for line in reply.text.splitlines())
        asked = [line.strip(' \t*"“”') for line in lines if any(map(str.isalpha, line))]
        written = next((line for line in asked if line.endswith(_QUESTION_MARKS)), "")
        if reply.cut or not written:
            raise ModelCallError(
                f"{self.name} did not rewrite the follow-up as a question. Ask a whole question."
            )
        return check_question(written, question["options"])

    def vanilla_characters(self, question: Question, documents: Sequence[Document]) -> int:
        """Return the length of the prompt with all documents."""
        return sum(len(message.text) for message in self._answer_prompt(question, documents))

    def _forced(self, question: Question) -> bool:
        return self.force_choice and bool(question["options"])

    def _answer_prompt(
        self, question: Question, documents: Sequence[Document], *, forced: bool = False
    ) -> list[BaseMessage]:
        text, options, context = question["text"], question["options"], render_documents(documents)
        return self._allocator.prompts.render(
            "answer", text, options, may_abstain=not forced, documents=context
        )

    async def _ask_for_answer(
        self,
        question: Question,
        request: Request,
        documents: Sequence[Document],
        budget: CallBudget,
    ) -> tuple[Reply, list[Note]]:
        """Return the model's answer, streamed, and a note if it was requested twice.

        A reply that repeats the prompt or has no sentence is requested once more.
        """
        model, instruction = self._allocator, str(request.messages[0].text)
        # Traces show these numbers instead of ids.
        ids = list(dict.fromkeys(map(article_id, documents)))
        articles = {
            document_key(document): ids.index(article_id(document)) for document in documents
        }
        request = replace(request, streamed=True, articles=articles)
        reply = await model.ask(request, budget)
        if (reason := why_no_answer(reply.text, question, instruction)) is None:
            return reply, []
        repair = model.prompts.render("again", question["text"], {}, error=reason)
        messages = [*request.messages, AIMessage(reply.text), *repair]
        second = await model.ask(replace(request, messages=messages, again=True), budget)
        instruction = "\n".join([instruction, *(message.text for message in repair)])
        if (still := why_no_answer(second.text, question, instruction)) is not None:
            raise ModelCallError(
                f"{model.name} gave no answer, twice; of its last reply: {still}. "
                "Use a larger model."
            )
        message = f"The model's first reply was not an answer ({reason}) and was asked for again."
        return second, [note("info", "asked_again", message)]

    async def _condense(
        self, question: Question, texts: Sequence[str], room: float, rounds: int, budget: CallBudget
    ) -> list[str]:
        model = self._allocator
        if rounds > MAX_ROUNDS or max(map(len, texts)) > room:
            raise ModelCallError(
                f"The evidence does not fit into the input window of {model.name}; rounds of "
                f"condensing: {rounds - 1}. Use a model with a larger window for the answer, or "
                "retrieve fewer documents."
            )
        prompts = [
            model.prompts.render("condense", question["text"], {}, evidence="\n".join(group))
            for group in group_to_fit(texts, room)
        ]
        replies = await together(model.ask(Request("reduce", prompt), budget) for prompt in prompts)
        for reply in replies:
            if reply.cut:  # Evidence is lost, and there is no way to know which.
                raise ModelCallError(cut_warning(reply.cut, "Condensed evidence"))
        return [render_condensed(reply.text) for reply in replies]
