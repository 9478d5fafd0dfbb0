"""Verification: a judge compares each cited sentence of an answer with its passages."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, Field, field_validator

from briefcontext.chains.citation import Citation
from briefcontext.chains.claims import Claim
from briefcontext.chains.context import defuse, render_passage, room_for
from briefcontext.chains.extract import AS_ASKED
from briefcontext.chains.model.call import Model, Request
from briefcontext.chains.model.event_loop import together
from briefcontext.chains.model.reply import read_record
from briefcontext.chains.model.usage import VERIFY, CallBudget, model_call
from briefcontext.chains.notes import SUPPORTED, Level, Note, note
from briefcontext.errors import BriefContextError, ModelCallError, first_line
from briefcontext.files import encodable
from briefcontext.knowledge.encoders.entailment import EntailmentModel
from briefcontext.knowledge.sentences import split_sentences

Contexts = Mapping[str, str]
"""Rendered passages by the keys of their citations."""
Verdict = Literal["contradicted", "not_stated", "partly", "supported"]
"""From the most to the least serious."""

MAX_CLAIMS = 20
"""Limit of sentences per call; models lose count in longer lists."""
PASSAGE_CHARACTERS = 2_000
"""Limit of characters of one passage that the judge sees."""
_LEAST_CHARACTERS = 100
_LONGEST_DIFFERENCE = 200
_NOTES: Mapping[Verdict, tuple[Level, str]] = {
    "contradicted": ("danger", "Contradicted by"),
    "not_stated": ("caution", "Not stated in"),
    "partly": ("caution", "Supported in part by"),
    "supported": ("info", "Supported by"),
}


class Judgement(NamedTuple):
    """The verdict on a sentence."""

    verdict: Verdict
    difference: str = ""
    """The difference, in the judge's words."""


class Verification(NamedTuple):
    """The verdicts on the sentences of an answer."""

    judgements: Mapping[Claim, Judgement]
    error: str | None = None
    """Why some sentences have no verdict."""


class Passage(NamedTuple):
    """A cited passage."""

    document: Document
    quotes: Sequence[tuple[int, int]]
    """The places of the quotes in the document's text."""

    def context(self, limit: int = PASSAGE_CHARACTERS) -> str:
        """Return the text, or for a longer one the quotes with the sentences around them."""
        text = self.document.page_content
        if len(text.strip()) <= limit:
            return text.strip()
        quotes = self.quotes or [(0, 0)]
        windows = []
        for start, end in quotes:
            margin = max(limit // len(quotes) - (end - start), 0) // 2
            windows.append((start - margin, end + margin + max(margin - start, 0)))
        shown, last = "", 0
        for start, end in split_sentences(text):
            if any(begin <= start and end <= stop for begin, stop in windows):
                shown += " … " if text[last:start].strip() else " "
                shown += text[start:end]
                last = end
        return (shown.strip() or text)[:limit]


Passages = Mapping[str, Passage]
"""Passages by the keys of their citations."""


def cited_passages(
    citations: Sequence[Citation], documents: Sequence[Document]
) -> dict[str, Passage]:
    """Return the cited passages, by the citations' keys."""
    by_id = {str(document.id): document for document in documents}
    passages = {}
    for citation in citations:
        ends = [(quote["start"], quote["end"]) for quote in citation["quotes"]]
        quotes = [(start, end) for start, end in ends if start is not None and end is not None]
        passages[citation["key"]] = Passage(by_id[citation["document_id"]], quotes)
    return passages


def verdict_notes(claims: Sequence[Claim], verification: Verification, judge: str) -> list[Note]:
    """Return a note on each sentence, in the judge's words and with the judge's name."""
    notes, judgements = [], verification.judgements
    for claim in claims:
        if claim not in judgements:
            continue
        verdict, difference = judgements[claim]
        level, words = _NOTES[verdict]
        said = f": “{difference}”" if difference and verdict != SUPPORTED else "."
        message = f"{words} [{']['.join(claim.keys)}], says {judge}{said}"
        notes.append(note(level, verdict, message, (claim.start, claim.end)))
    if missing := sum(claim not in judgements for claim in claims):
        reason = verification.error or f"{judge} gave no verdict on them."
        message = f"Cited sentences that were not verified: {missing} of {len(claims)}. {reason}"
        notes.append(note("caution", "not_verified", message))
    return notes


class _Verdict(BaseModel):
    model_config = AS_ASKED

    sentence: int
    verdict: Verdict
    difference: str = Field(description="At most 15 words.")

    @field_validator("verdict", mode="before")
    @classmethod
    def _as_word(cls, given: Any) -> Any:
        return given.strip().lower().replace(" ", "_") if isinstance(given, str) else given

    @field_validator("difference", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> str:
        return " ".join(encodable(str(given or "")).split())[:_LONGEST_DIFFERENCE]


class Verdicts(BaseModel):
    """The verdict on each sentence."""

    model_config = AS_ASKED

    verdicts: list[_Verdict]


class ModelVerifier:
    """Verifies with a chat model, in one call for all sentences that fit."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    async def averify(
        self, question: str, claims: Sequence[Claim], passages: Passages, budget: CallBudget
    ) -> Verification:
        """Return the verdicts of all calls. Those of a failed call are missing."""
        try:
            room = room_for(self._model, budget, self._prompt(question, [], {}))
        except ModelCallError as error:
            return Verification({}, str(error))
        calls = [self._ask(question, *group, budget) for group in _groups(claims, passages, room)]
        found = await together(calls)
        judgements = {claim: judged for each in found for claim, judged in each.judgements.items()}
        return Verification(judgements, next((each.error for each in found if each.error), None))

    def _prompt(
        self, question: str, claims: Sequence[Claim], contexts: Contexts
    ) -> list[BaseMessage]:
        cited = dict.fromkeys(key for claim in claims for key in claim.keys)
        passages = "\n".join(contexts[key] for key in cited)
        sentences = "\n".join(_sentence(number, claim) for number, claim in enumerate(claims, 1))
        return self._model.prompts.render(
            "verify", question, {}, passages=passages, sentences=sentences
        )

    async def _ask(
        self, question: str, claims: Sequence[Claim], contexts: Contexts, budget: CallBudget
    ) -> Verification:
        """Request verdicts, and once more if the reply is unreadable."""
        messages = self._prompt(question, claims, contexts)
        try:
            reply = await self._model.ask(Request(VERIFY, messages, Verdicts), budget)
            try:
                return _read(reply.text, claims)
            except ValueError as error:
                problem = first_line(error)[:200]
            repair = self._model.prompts.render("repair", question, {}, error=problem)
            messages = [*messages, AIMessage(reply.text or "{}"), *repair]
            reply = await self._model.ask(Request(VERIFY, messages, Verdicts), budget)
            return _read(reply.text, claims)
        except ValueError as error:
            problem = f"The reply of {self.name} could not be read: {first_line(error)[:200]}."
        except BriefContextError as error:
            problem = str(error)
        return Verification({}, problem)


def _sentence(number: int, claim: Claim) -> str:
    words = " ".join(defuse(claim.text).split())
    return f'<sentence number={number} cites="{", ".join(claim.keys)}">{words}</sentence>'


def _read(reply: str, claims: Sequence[Claim]) -> Verification:
    """Return the verdicts of a reply; for several on one sentence, the most serious."""
    judgements: dict[Claim, Judgement] = {}
    for each in Verdicts.model_validate(read_record(reply, "verdicts")).verdicts:
        if 1 <= each.sentence <= len(claims):
            claim, judged = claims[each.sentence - 1], Judgement(each.verdict, each.difference)
            judgements[claim] = min(judgements.get(claim, judged), judged, key=_place)
    return Verification(judgements)


def _place(judged: Judgement) -> int:
    return get_args(Verdict).index(judged.verdict)


def _groups(
    claims: Sequence[Claim], passages: Passages, room: int | None
) -> list[tuple[list[Claim], Contexts]]:
    """Group claims, in order, so that each group fits with its passages.

    A claim whose shortest passages do not fit is left out.
    """
    groups: list[tuple[list[Claim], Contexts]] = []
    for claim in claims:
        contexts = _contexts(claim, passages, room)
        if contexts is None:
            continue
        before, shown = groups[-1] if groups else ([], {})
        group = [*before, claim], {**contexts, **shown}
        fits = len(group[0]) <= MAX_CLAIMS and (room is None or _length(*group) <= room)
        if groups and fits:
            groups[-1] = group
        else:
            groups.append(([claim], contexts))
    return groups


def _contexts(claim: Claim, passages: Passages, room: int | None) -> Contexts | None:
    """Return the passages of a claim as the judge sees them; None if they do not fit."""
    cited = {key: passages[key] for key in claim.keys}
    limit = PASSAGE_CHARACTERS
    if room is not None:
        empty = {key: render_passage(key, passage.document, "") for key, passage in cited.items()}
        limit = min(limit, (room - _length([claim], empty)) // len(cited))
    if limit < _LEAST_CHARACTERS:
        return None
    return {
        key: render_passage(key, passage.document, passage.context(limit))
        for key, passage in cited.items()
    }


def _length(claims: Sequence[Claim], contexts: Contexts) -> int:
    texts = [*contexts.values(), *(_sentence(MAX_CLAIMS, claim) for claim in claims)]
    return sum(len(text) + 1 for text in texts)


class EntailmentVerifier:
    """Verifies with an entailment model, which describes no difference.

    A sentence with several passages is compared with each of them and with all together.
    """

    def __init__(self, open_model: Callable[[], EntailmentModel], name: str) -> None:
        self._open = open_model
        self.name = name

    async def averify(
        self, question: str, claims: Sequence[Claim], passages: Passages, budget: CallBudget
    ) -> Verification:
        """Return the verdicts, computed in a thread."""
        pairs: list[tuple[str, str]] = []
        owners: list[Claim] = []
        for claim in claims:
            texts = [passages[key].context() for key in claim.keys]
            texts += [" ".join(texts)] if len(texts) > 1 else []
            pairs += [(text, claim.text) for text in texts]
            owners += [claim] * len(texts)
        started = time.time()
        try:
            scores = await asyncio.to_thread(lambda: self._open().judge(pairs))
        except BriefContextError as error:
            return Verification({}, str(error))
        characters = sum(len(text) + len(sentence) for text, sentence in pairs)
        times = started, time.time()
        budget.calls.append(model_call(VERIFY, self.name, "ok", times, characters))
        by_claim: dict[Claim, list[Mapping[Any, float]]] = {}
        for claim, score in zip(owners, scores, strict=True):
            by_claim.setdefault(claim, []).append(score)
        return Verification({claim: _judged(each) for claim, each in by_claim.items()})


def _judged(scores: Sequence[Mapping[Any, float]]) -> Judgement:
    """Return the verdict of several passages; support by one of them is support."""
    likely = {max(score, key=score.__getitem__) for score in scores}
    if "supported" in likely:
        return Judgement("supported")
    return Judgement("contradicted" if "contradicted" in likely else "not_stated")


Verifier = ModelVerifier | EntailmentVerifier
