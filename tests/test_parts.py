"""Partitions that are read in parts, of which some fail: what was read is kept, and what was not is named."""

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.chains.citation import assign_keys
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import Question, check_question
from briefcontext.chains.reader import Extraction, Quote
from briefcontext.errors import ModelCallError
from briefcontext.evaluation.methods.models import StrictReader
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.nodes import IN_PARTS
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.notes import kinds, messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

WINDOW = 1500
"""Tokens; with the instructions, a part holds two of the documents below."""

FAILURES = {
    "broken": Reply(status=500),
    "too many": Reply("content policy", status=403),
    "silent": Reply(""),
}


def make_documents(count: int, *, sentences: int = 20) -> list[Document]:
    """Make documents of which few fit into the window at once."""
    return [
        Document(
            id=f"doc-{place}",
            page_content=f"Aspirin lowers the risk of stroke in group {place}. "
            + " ".join(
                f"Patient {place}.{number} took part in the trial to its end."
                for number in range(sentences)
            ),
            metadata={"source_id": f"src-{place}", "title": f"Title {place}"},
        )
        for place in range(count)
    ]


def failing(words: str, failure: Reply) -> Any:
    """Fail to extract from what has certain words."""
    return lambda call: (
        failure if call.stage == "extract" and words in call.prompt else faithful(call)
    )


def parts(server: OpenAIServer) -> list[Call]:
    """Return the calls that read a part."""
    return [call for call in server.calls if call.stage == "extract"]


def read_ids(calls: list[Call]) -> set[str]:
    """Return the ids of the documents that calls read."""
    return {f"doc-{text[6]}" for call in calls for _, text in call.documents}


@pytest.fixture
def budget() -> CallBudget:
    """A budget of a model with a small window."""
    return CallBudget(retry_wait=0, max_retries=0, max_input_tokens=WINDOW)


def ask(reader: Any, documents: list[Document], **settings: Any) -> Answer:
    """Ask the question over documents in one partition, which exceeds the window."""
    built = build_graph(reader=reader, retriever=FixedRetriever(documents=documents))
    context = Settings(
        **{
            "route": "map_reduce",
            "partition_size": 6,
            "max_input_tokens": WINDOW,
            "max_retries": 0,
            **settings,
        }
    )
    answer: Answer = built.invoke({"question": QUESTION}, context=context)["answer"]
    return answer


@pytest.mark.parametrize(
    ("failure", "route"),
    [("broken", "vanilla"), ("too many", "order_preserving"), ("silent", "map_reduce")],
)
def test_a_part_that_fails_is_named_and_the_others_are_kept(
    failure: str, route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = failing("in group 5", FAILURES[failure])
    answer = ask(chat_model, make_documents(6), route=route)
    (failed,) = [
        extraction for extraction in answer["extractions"] if extraction["status"] == "failed"
    ]
    lost = {*failed["document_ids"]}
    assert lost == read_ids([call for call in parts(server) if "in group 5" in call.prompt])
    assert 0 < len(lost) < 6
    (caution,) = messages(answer, "partition_failed")
    assert caution.startswith(
        f"Partition {failed['index'] + 1} was not read ({', '.join(sorted(lost))}): "
    )
    assert {citation["document_id"] for citation in answer["citations"]} == {
        f"doc-{n}" for n in range(6)
    } - lost
    assert answer["usage"]["calls"] == len(server.all_calls)


def test_a_document_of_which_one_piece_was_not_read_is_named(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = failing("Patient 0.199 ", Reply(status=500))
    answer = ask(chat_model, make_documents(1, sentences=200))
    count = len(parts(server))
    assert count > 2
    (caution,) = messages(answer, "partition_failed")
    assert caution.startswith(f"Partition {count} was not read (doc-0): ")
    (pieces,) = messages(answer, "read_in_pieces")
    assert pieces.endswith(": doc-0.")
    assert sum(len(extraction["quotes"]) for extraction in answer["extractions"]) == count - 1


def test_an_abstention_does_not_claim_that_what_was_not_read_has_nothing(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        return Reply(status=500) if "in group 5" in call.prompt else Reply('{"relevant": false}')

    server.script = script
    answer = ask(chat_model, make_documents(6))
    assert answer["abstained"]
    count = len(answer["extractions"])
    assert f"of {count} partitions 1 could not be read" in answer["text"]
    assert any("doc-5" in message for message in messages(answer, "partition_failed"))


def test_all_parts_failing_is_a_failure(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    server.script = lambda call: Reply(status=500)
    with pytest.raises(
        ModelCallError, match=r"All \d partitions failed.*was called once and failed"
    ):
        ask(chat_model, make_documents(6))
    assert len(server.calls) > 1


@pytest.mark.parametrize("route", ["map_reduce", "vanilla"])
def test_an_experiment_takes_no_part_for_the_whole(
    route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = failing("in group 5", Reply(status=500))
    with pytest.raises(
        ModelCallError, match=r"1 of \d partitions failed.*was called once and failed"
    ):
        ask(StrictReader(chat_model), make_documents(6), route=route)


@pytest.mark.parametrize("step", ["extract", "answer"])
async def test_what_exceeds_the_window_is_not_sent(
    step: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    documents = assign_keys(QUESTION, make_documents(6))
    read: Any = getattr(LLMReader(chat_model), f"a{step}")
    rest: Any = (0, budget) if step == "extract" else ("vanilla", budget)
    with pytest.raises(
        ModelCallError, match=r"input window of scripted, 1,500 tokens, has no room"
    ):
        await read(check_question(QUESTION), documents, *rest)
    assert server.calls == []


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_condensed_evidence_that_was_cut_off_is_no_evidence(
    finish: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Reply("Half of what the evi", finish=finish)
    documents = assign_keys(QUESTION, make_documents(6, sentences=40))
    extractions = [
        Extraction(
            index=index,
            document_ids=[str(document.id)],
            status="evidence",
            finding="",
            quotes=[
                Quote(
                    text=document.page_content,
                    document_id=str(document.id),
                    start=0,
                    end=1,
                    match="exact",
                )
            ],
            choice=None,
            confidence=None,
            error=None,
        )
        for index, document in enumerate(documents)
    ]
    with pytest.raises(ModelCallError, match="Condensed evidence was cut off by"):
        wait_for(
            LLMReader(chat_model).areduce(check_question(QUESTION), documents, extractions, budget)
        )
    assert all("condense" in call.system for call in server.calls)


@pytest.mark.parametrize(
    ("route", "read"), [("order_preserving", "543210"), ("vanilla", "012345"), ("auto", "543210")]
)
def test_parts_are_read_in_the_order_of_the_one_call_that_they_replace_and_that_is_said(
    route: str, read: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = make_documents(6)
    for place, document in enumerate(documents):
        document.metadata |= {"source_id": "one", "start": 100 - place}
        document.page_content = "aspirin stroke " * (6 - place) + document.page_content
    answer = ask(chat_model, documents, route=route, fallback="order_preserving", iou_threshold=0.0)
    assert answer["route"] == "map_reduce"
    assert [id for extraction in answer["extractions"] for id in extraction["document_ids"]] == [
        f"doc-{place}" for place in read
    ]
    assert kinds(answer).count(IN_PARTS) == 1


def test_an_abstention_says_that_the_documents_were_read_in_parts(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply('{"relevant": false}')
    answer = ask(chat_model, make_documents(6), route="vanilla")
    assert answer["abstained"]
    assert kinds(answer) == [IN_PARTS]


class Passing:
    """A reader of the user's own that passes everything on."""

    def __init__(self, within: LLMReader) -> None:
        self._within = within

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)


class Adding(LLMReader):
    """A reader of the user's own that adds words to the question."""

    async def aextract(self, question: Question, *rest: Any) -> Extraction:
        """Extract with words of its own."""
        return await super().aextract(
            {**question, "text": f"{question['text']} {'Be brief. ' * 15}"}, *rest
        )


@pytest.mark.parametrize("own", [lambda model: Passing(LLMReader(model)), Adding])
@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_a_reader_of_the_users_own_reads_in_parts_too(
    own: Any, route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    answer = ask(own(chat_model), make_documents(2, sentences=200), route=route)
    assert len(answer["extractions"]) > 4
    assert {extraction["status"] for extraction in answer["extractions"]} == {"evidence"}


def test_a_title_that_each_piece_quotes_is_quoted_once(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    title = "Aspirin for the prevention of stroke in adults"

    def script(call: Call) -> Reply:
        if call.stage != "extract":
            return faithful(call)
        return Reply(
            json.dumps(
                {"relevant": True, "quotes": [{"key": "", "quote": title}], "finding": "So it is."}
            )
        )

    server.script = script
    (document,) = make_documents(1, sentences=150)
    document.metadata["title"] = title
    answer = ask(chat_model, [document])
    assert len(answer["extractions"]) > 1
    assert [
        [quote["text"] for quote in citation["quotes"]] for citation in answer["citations"]
    ] == [[title]]
