"""The state graph as its callers see it, with a real client on a real server."""

import asyncio
import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.reader import Reader, extraction_of
from briefcontext.errors import InputError, ModelCallError
from briefcontext.graphs.graph import build_graph, graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

ASKED: Any = {"question": QUESTION}
NO_RETRIES = Settings(max_retries=0)
MODEL = FakeListChatModel(responses=["It is so."])
STREAM_MODES: list[Any] = ["values", "updates", "custom", "messages", "debug", "tasks"]
MERMAID = Path(__file__).with_name("graph.mmd")


def test_drawn_graph_is_the_one_on_record() -> None:
    assert graph.get_graph().draw_mermaid().strip() == MERMAID.read_text().strip()


def test_preflight_answers_in_one_call_when_rankings_agree(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    answer = build_graph(model=chat_model, retriever=agreeing).invoke(ASKED)["answer"]
    assert answer["route"] == "vanilla"
    assert answer["preflight"]["iou"] == 1.0
    assert server.stages() == ["answer"]


def test_preflight_maps_when_rankings_disagree(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    answer = build_graph(model=chat_model, retriever=disagreeing).invoke(ASKED)["answer"]
    assert answer["route"] == "map_reduce"
    assert answer["preflight"]["iou"] == 0.0
    assert answer["preflight"]["dense_top"] == ["doc-0", "doc-1", "doc-2"]
    assert answer["preflight"]["bm25_top"] == ["doc-8", "doc-9", "doc-10"]
    assert sorted(server.stages()) == ["extract"] * 4 + ["reduce"]


ALIKE = [
    make_documents(16, about=0)[0].model_copy(update={"id": f"doc-{place}"}) for place in range(16)
]


@pytest.mark.parametrize(
    ("asked", "documents", "why"),
    [
        (
            "What is the capital of France?",
            make_documents(16, about=0),
            "no term of the question occurs in any",
        ),
        (
            QUESTION,
            make_documents(16, about=0),
            "a term of the question occurs in only 1 of the 16 documents",
        ),
        (QUESTION, ALIKE, "it gives ranks 3 and 4 the same score"),
    ],
    ids=["no term", "one match", "all alike"],
)
def test_preflight_maps_when_bm25_has_no_clear_top(
    asked: str, documents: list[Document], why: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    answer = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents)).invoke(
        {"question": asked}
    )
    preflight = answer["answer"]["preflight"]
    assert answer["answer"]["route"] == "map_reduce"
    assert (preflight["iou"], preflight["consistent"], preflight["bm25_top"]) == (None, None, [])
    assert preflight["dense_top"] == [document.id for document in documents[:3]]
    assert f"BM25 has no clear top: {why}" in preflight["reason"]
    assert server.stages()[-1] == "reduce"


def test_nothing_retrieved_leads_to_an_abstention_without_a_call(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    answer = build_graph(model=chat_model, retriever=FixedRetriever(documents=[])).invoke(ASKED)[
        "answer"
    ]
    assert answer["route"] == "abstain"
    assert answer["abstained"]
    assert answer["citations"] == []
    assert server.calls == []


@pytest.mark.parametrize("route", ["map_reduce", "vanilla", "order_preserving"])
def test_a_forced_route_ignores_the_rankings(
    route: str, chat_model: ChatOpenAI, agreeing: FixedRetriever, disagreeing: FixedRetriever
) -> None:
    for retriever in (agreeing, disagreeing):
        built = build_graph(model=chat_model, retriever=retriever)
        answer = built.invoke(ASKED, context=Settings(route=route))["answer"]
        assert answer["route"] == route
        assert "forces" in answer["preflight"]["reason"]


def test_the_order_preserving_fallback_restores_source_order(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = [
        Document(
            id=f"long#{place}",
            page_content=f"Aspirin lowers stroke risk, part {place} of it.",
            metadata={"source_id": "long", "start": place * 100, "chunk_index": place},
        )
        for place in (2, 0, 1)
    ]
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents))
    answer = built.invoke(ASKED, context=Settings(fallback="order_preserving"))["answer"]
    assert answer["route"] == "order_preserving"
    texts = [text for _, text in server.calls[0].documents]
    assert [text[-8] for text in texts] == ["0", "1", "2"]


@given(count=st.integers(1, 40), size=st.integers(1, 50))
def test_partitions_are_disjoint_complete_and_in_order(count: int, size: int) -> None:
    context = Settings(route="map_reduce", top_k=count, partition_size=size)
    groups = [
        e["document_ids"] for e in _silent().invoke(ASKED, context=context)["answer"]["extractions"]
    ]
    assert [id for group in groups for id in group] == [f"doc-{place}" for place in range(count)]
    assert all(len(group) == size for group in groups[:-1])
    assert 0 < len(groups[-1]) <= size


@cache
def _silent() -> Any:
    return build_graph(
        reader=SilentReader(), retriever=FixedRetriever(documents=make_documents(40, about=0))
    )


class SilentReader(Reader):
    """Reads, and finds nothing."""

    name = "silent"

    async def aextract(self, question: Any, documents: Any, index: int, budget: Any) -> Any:
        return extraction_of(index, documents, "none")

    def vanilla_characters(self, question: Any, documents: Any) -> None:
        return None


@pytest.mark.parametrize("mode", STREAM_MODES)
@pytest.mark.parametrize("context", [None, {"top_k": 8}])
def test_every_stream_mode_works_with_and_without_context(
    mode: Any, context: Any, chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing)

    async def collect() -> list[Any]:
        return [part async for part in built.astream(ASKED, context=context, stream_mode=mode)]

    parts = list(built.stream(ASKED, context=context, stream_mode=mode))
    assert [type(part) for part in asyncio.run(collect())][:1] == [type(part) for part in parts][:1]
    if mode == "values":
        assert parts[-1]["answer"]["citations"]
    if mode == "messages":
        assert {metadata["langgraph_node"] for _, metadata in parts} <= {"reduce", "vanilla"}
        assert "".join(message.text for message, _ in parts).startswith("Point holds")


@pytest.mark.parametrize("context", [{"top_k": 0}, {"route": "sideways"}, {"topk": 3}])
def test_settings_that_cannot_be_used_are_an_input_error(context: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(context))):
        graph.invoke(ASKED, context=context)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"model": 5}, "5 cannot answer"),
        ({"model": MODEL.bind(stop=["."])}, r"LLMReader\('provider:model', arguments="),
        ({"model": MODEL, "reader": LLMReader(MODEL)}, "both given"),
        ({"retriever": 5}, "int is no retriever"),
        ({"settings": Settings(knowledge_base="my-kb")}, "settings takes a class"),
    ],
)
def test_a_graph_is_built_of_what_can_be_used(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        build_graph(**given)


@pytest.mark.parametrize(
    ("given_input", "complaint"),
    [
        ({"question": ""}, "empty"),
        ({"question": 123}, "must be a text, not int"),
        ({"question": "x" * 100_000}, "100,000"),
        ({"question": "Is it?", "options": {"A": "yes"}}, "two options"),
        ({"question": "Is it?", "options": ["yes", "no"]}, "mapping"),
    ],
)
def test_input_that_cannot_be_used_is_an_input_error(
    given_input: Any,
    complaint: str,
    chat_model: ChatOpenAI,
    server: OpenAIServer,
    agreeing: FixedRetriever,
) -> None:
    built = build_graph(model=chat_model, retriever=agreeing)
    with pytest.raises(InputError, match=complaint):
        built.invoke(given_input)
    with pytest.raises(InputError, match=complaint):
        asyncio.run(built.ainvoke(given_input))
    assert server.calls == []


def test_runs_on_one_thread_do_not_add_up(
    chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    for _ in range(2):
        answer = built.invoke(ASKED, config)["answer"]
        assert len(answer["extractions"]) == 4
        assert answer["usage"]["calls"] == 6


def _failing(place: str, reply: Reply) -> Any:
    return lambda call: (
        reply if place in call.prompt and call.stage == "extract" else faithful(call)
    )


@pytest.mark.parametrize("reply", [Reply(status=500), Reply(drop=True)])
def test_a_partition_that_fails_is_reported_and_the_others_are_kept(
    reply: Reply, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = _failing("group 8", reply)
    built = build_graph(model=chat_model, retriever=disagreeing)
    results = (
        built.invoke(ASKED, context=NO_RETRIES),
        asyncio.run(built.ainvoke(ASKED, context=NO_RETRIES)),
    )
    for answer in (result["answer"] for result in results):
        statuses = [extraction["status"] for extraction in answer["extractions"]]
        assert statuses == ["evidence", "evidence", "failed", "evidence"]
        assert any(
            "doc-8, doc-9, doc-10, doc-11" in message
            for message in messages(answer, "partition_failed")
        )


def test_all_partitions_failing_is_an_error(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply(status=500)
    built = build_graph(model=chat_model, retriever=disagreeing)
    with pytest.raises(ModelCallError, match="All 4 partitions failed"):
        built.invoke(ASKED, context=NO_RETRIES)
    with pytest.raises(ModelCallError, match="All 4 partitions failed"):
        asyncio.run(built.ainvoke(ASKED, context=NO_RETRIES))


def test_multiple_choice_reports_partitions_that_disagree(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    def divided(call: Call) -> Reply:
        reply = faithful(call)
        if call.stage == "extract":
            letter = "A" if "group 8" in call.prompt else "B"
            return Reply(json.dumps({**json.loads(reply.content), "choice": letter}))
        return Reply(f"{reply.content}\nChoice: A")

    server.script = divided
    built = build_graph(model=chat_model, retriever=disagreeing)
    answer = built.invoke({**ASKED, "options": {"A": "yes", "B": "no"}})["answer"]
    assert answer["choice"] == "A"
    assert answer["conflict"] == {
        "choices": {"B": [0, 1, 3], "A": [2]},
        "statement": None,
        "settled": "A",
    }
    assert "Choice:" not in answer["text"]


def _retracted(documents: list[Document], *places: int) -> FixedRetriever:
    for place in places:
        documents[place].metadata["retracted"] = True
    return FixedRetriever(documents=documents)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_retracted_articles_are_left_out_and_counted(
    asynchronous: bool, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    built = build_graph(model=chat_model, retriever=_retracted(make_documents(12, about=0), 1, 3))
    context = Settings(top_k=8, route="vanilla")
    run = (
        built.ainvoke(ASKED, context=context)
        if asynchronous
        else built.invoke(ASKED, context=context)
    )
    answer = (asyncio.run(run) if asynchronous else run)["answer"]
    assert len(server.calls[0].documents) == 8
    assert messages(answer, "retracted_left_out") == [
        "Retracted articles were left out: src-1, src-3."
    ]
    assert not any(citation["retracted"] for citation in answer["citations"])


def test_retracted_articles_are_kept_on_demand_and_labelled(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    built = build_graph(model=chat_model, retriever=_retracted(make_documents(8, about=0), 1))
    answer = built.invoke(ASKED, context=Settings(include_retracted=True, route="map_reduce"))[
        "answer"
    ]
    assert [citation["source_id"] for citation in answer["citations"] if citation["retracted"]] == [
        "src-1"
    ]
    assert messages(answer, "retracted_cited") == ["Retracted articles are cited: src-1."]
    assert "(RETRACTED)" in server.calls[-1].user


_names = (f"refused-{number}" for number in itertools.count())


@pytest.fixture
def built(server: OpenAIServer, disagreeing: FixedRetriever) -> Any:
    """A graph with a model of a unique name."""
    chat = ChatOpenAI(model=next(_names), base_url=server.url, api_key="none", max_retries=0)
    return build_graph(model=chat, retriever=disagreeing)


def refusal(status: int) -> Reply:
    """Refuse in the form of OpenAI's errors, which others share."""
    return Reply(raw=json.dumps({"error": {"message": "Not today."}}).encode(), status=status)


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_a_refusal_of_the_model_is_an_abstention(
    route: Any, built: Any, server: OpenAIServer
) -> None:
    """OpenAI has a field for it, beside a content that is null."""
    server.script = lambda call: Reply(refusal="I'm sorry, I cannot help with that request.")
    answer = built.invoke(ASKED, context=Settings(route=route))["answer"]
    assert answer["abstained"]
    assert answer["text"] == "I'm sorry, I cannot help with that request."
    assert answer["usage"]["retries"] == 0


INVENTED = {
    "relevant": True,
    "quotes": [{"key": "2A2A", "quote": "Nobody ever wrote these words."}],
    "finding": "Yes.",
}


def _abstention(chat: ChatOpenAI, documents: list[Document]) -> str:
    built = build_graph(model=chat, retriever=FixedRetriever(documents=documents))
    answer = built.invoke(ASKED, context=Settings(route="map_reduce", max_retries=0))["answer"]
    assert answer["abstained"]
    return answer["text"]


def _first_fails(call: Call) -> Reply:
    return Reply(status=500) if "Title 0" in call.user else Reply('{"relevant": false}')


def _first_invents(call: Call) -> Reply:
    return Reply(json.dumps(INVENTED) if "Title 0" in call.user else '{"relevant": false}')


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (lambda call: Reply('{"relevant": false}'), "none of them contains evidence"),
        (_first_fails, "of 2 partitions 1 could not be read"),
        (_first_invents, "1 gave only quotes that are not in them"),
    ],
    ids=["nothing relevant", "a partition failed", "quotes invented"],
)
def test_an_abstention_names_its_reason(
    script: Any, reason: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = script
    text = _abstention(chat_model, make_documents(8, about=0))
    assert reason in text
    assert ("They may contain evidence" in text) == ("none of them" not in text)
