"""The fault test: a provider of which more calls fail than not, and questions that all end well or in so many words."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import Question
from briefcontext.chains.reader import Draft, Extraction
from briefcontext.errors import ModelCallError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

QUESTIONS = 24
AT_ONCE = 12
SEED = 4
# So few calls at once, and so much time, that none is given up before it left a busy machine:
# the server would not see it.
SETTINGS = Settings(route="map_reduce", model_timeout=4, max_concurrent_calls=16)

MALFORMED = Reply('{"relevant": true, "quotes": [{"key": ')
FAULTS = [
    Reply(status=429, headers={"Retry-After": "0"}),
    Reply(status=500),
    Reply(drop=True),
    Reply(hold=True),
    Reply(raw=b'{"id": "1", "choices": [{"index": 0, "mess'),
    Reply(""),
    MALFORMED,
]
"""Each is the reply to one call in ten. The last is whole, and its record is not; an answer has no record to break."""


class Accountant(LLMReader):
    """Reads as usual, and keeps the budgets, which outlive a reading that fails."""

    def __init__(self, model: ChatOpenAI) -> None:
        super().__init__(model)
        self.budgets: defaultdict[str, list[CallBudget]] = defaultdict(list)

    async def aextract(
        self, question: Question, documents: Sequence[Document], index: int, budget: CallBudget
    ) -> Extraction:
        """Find in one partition what bears on the question."""
        self.budgets[question["text"]].append(budget)
        return await super().aextract(question, documents, index, budget)

    async def areduce(
        self,
        question: Question,
        documents: Sequence[Document],
        extractions: Sequence[Extraction],
        budget: CallBudget,
    ) -> Draft:
        """Answer from the evidence of the partitions."""
        self.budgets[question["text"]].append(budget)
        return await super().areduce(question, documents, extractions, budget)

    def calls(self, question: str) -> int:
        """Count the calls that the ledger has for a question."""
        return sum(len(budget.calls) for budget in self.budgets[question])


def without_structured_output(call: Call) -> Reply:
    """Be a provider that takes text only, as those that run small models do; it is the quickest to talk to as well."""
    return (
        Reply("not supported", status=400)
        if call.body.keys() & {"response_format", "tools"}
        else faithful(call)
    )


class FaultyProvider:
    """Draws each reply by what is asked, and for how many times."""

    def __init__(self) -> None:
        self._attempts: Counter[str] = Counter()
        self.drawn: Counter[int] = Counter()

    def __call__(self, call: Call) -> Reply:
        """Reply, or fail in one of the ways."""
        self._attempts[call.prompt] += 1
        place = random.Random(f"{SEED} {self._attempts[call.prompt]} {call.prompt}").randrange(10)
        self.drawn[place] += 1
        if place >= len(FAULTS) or (FAULTS[place] is MALFORMED and call.stage != "extract"):
            return without_structured_output(call)
        return FAULTS[place]


@pytest.mark.slow
async def test_under_faults_every_question_ends_in_an_answer_or_a_reported_failure(
    server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    chat_model = ChatOpenAI(model="faulty", base_url=server.url, api_key="none", max_retries=0)
    documents = make_documents(16, about=8)
    reader = Accountant(chat_model)
    built = build_graph(reader=reader, retriever=FixedRetriever(documents=documents))
    # The first calls load the client's modules, which takes longer than a call may take here.
    server.script = without_structured_output
    await built.ainvoke({"question": QUESTION}, context=Settings(route="map_reduce"))
    server.arrived = 0
    provider = server.script = FaultyProvider()
    at_once = asyncio.Semaphore(AT_ONCE)

    async def ask(question: str) -> Answer | ModelCallError:
        async with at_once:
            try:
                asked: Any = {"question": question}
                answer: Answer = (await built.ainvoke(asked, context=SETTINGS))["answer"]
            except ModelCallError as error:
                return error
            return answer

    questions = [f"{QUESTION} ({number})" for number in range(QUESTIONS)]
    ends = dict(zip(questions, await asyncio.gather(*map(ask, questions)), strict=True))

    answers = {
        question: end for question, end in ends.items() if not isinstance(end, ModelCallError)
    }
    failures = [end for end in ends.values() if isinstance(end, ModelCallError)]
    in_part = [
        answer
        for answer in answers.values()
        if any(e["status"] == "failed" for e in answer["extractions"])
    ]
    unquoted = sum(
        "not of the form" in (e["error"] or "")
        for answer in answers.values()
        for e in answer["extractions"]
    )
    verified = {
        question: answer["usage"]["stages"]["verify"]["calls"]
        for question, answer in answers.items()
        if "verify" in answer["usage"]["stages"]
    }
    booked = sum(map(reader.calls, questions)) + sum(verified.values())
    with capsys.disabled():
        print(  # noqa: T201
            f"\nfault test: {QUESTIONS} questions, {server.arrived:,} calls seen, {booked:,} in "
            f"the ledger, "
            f"{len(answers) - len(in_part)} answered in full, {len(in_part)} with partitions "
            f"reported, "
            f"{len(failures)} failed and said so; {unquoted} malformed readings kept without quotes"
        )
    for question, answer in answers.items():
        assert_no_document_is_lost(answer, documents)
        assert answer["usage"]["calls"] == reader.calls(question) + verified.get(question, 0)
        assert answer["citations"]
    for failure in failures:
        assert "failed" in str(failure)
        assert "\n" not in str(failure)
    assert server.arrived == booked
    assert any("could not be read" in call.user for call in server.calls), (
        "repairs are under fault, too"
    )
    assert all(provider.drawn[place] > 0.05 * booked for place in range(len(FAULTS)))
    assert len(answers) > QUESTIONS / 2


def assert_no_document_is_lost(answer: Answer, documents: Sequence[Document]) -> None:
    """Check that each document was read, or is reported as not read."""
    read = [id for extraction in answer["extractions"] for id in extraction["document_ids"]]
    assert read == [document.id for document in documents]
    for extraction in answer["extractions"]:
        if extraction["status"] == "failed":
            ids = ", ".join(extraction["document_ids"])
            place = f"Partition {extraction['index'] + 1} was not read ({ids}): "
            assert any(
                message.startswith(place) for message in messages(answer, "partition_failed")
            )
        elif "not of the form asked for" in (extraction["error"] or ""):
            assert any(
                message.startswith(f"Partition {extraction['index'] + 1}: ")
                for message in messages(answer)
            )
            assert (extraction["finding"], extraction["quotes"]) == (MALFORMED.content.strip(), [])
        else:
            quoted = {quote["document_id"] for quote in extraction["quotes"]}
            assert quoted == set(extraction["document_ids"])
