"""The state graph as its callers see it, with a real client on a real server."""

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.reader import Reader, extraction_of
from briefcontext.errors import InputError, KnowledgeBaseError, ModelCallError, ModelSetupError
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


def test_rankings_that_agree_lead_to_one_vanilla_call(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    answer = build_graph(model=chat_model, retriever=agreeing).invoke(ASKED)["answer"]
    assert answer["route"] == "vanilla"
    assert answer["preflight"]["iou"] == 1.0
    assert server.stages() == ["answer"]


def test_rankings_that_disagree_lead_to_the_map(
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
            "What is the capital of France?",
            make_documents(2, about=0),
            "no term of the question occurs in any",
        ),
        (
            QUESTION,
            make_documents(16, about=0),
            "a term of the question occurs in only 1 of the 16 documents",
        ),
        (
            QUESTION,
            make_documents(2, about=0),
            "a term of the question occurs in only 1 of the 2 documents",
        ),
        (QUESTION, ALIKE, "it gives ranks 3 and 4 the same score"),
    ],
    ids=["no term", "no term in few", "one match", "one match in few", "all alike"],
)
def test_ties_are_no_ranking_to_agree_with(
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
def test_a_forced_route_is_taken_whatever_the_rankings_say(
    route: str, chat_model: ChatOpenAI, agreeing: FixedRetriever, disagreeing: FixedRetriever
) -> None:
    for retriever in (agreeing, disagreeing):
        built = build_graph(model=chat_model, retriever=retriever)
        answer = built.invoke(ASKED, context=Settings(route=route))["answer"]  # type: ignore[arg-type]
        assert answer["route"] == route
        assert "forces" in answer["preflight"]["reason"]


def test_the_order_preserving_fallback_puts_chunks_back_in_source_order(
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


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("partitions", [4, 16])
def test_all_extractions_are_in_flight_together_and_come_back_in_order(
    asynchronous: bool, partitions: int, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.together = partitions
    documents = make_documents(16, about=8)
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents))
    context = Settings(route="map_reduce", partition_size=16 // partitions)
    result = (
        asyncio.run(built.ainvoke(ASKED, context=context))
        if asynchronous
        else built.invoke(ASKED, context=context)
    )
    extractions = result["answer"]["extractions"]
    assert [extraction["index"] for extraction in extractions] == list(range(partitions))
    assert [id for extraction in extractions for id in extraction["document_ids"]] == [
        d.id for d in documents
    ]


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


def test_no_evidence_in_any_partition_is_an_abstention() -> None:
    built = build_graph(
        reader=SilentReader(), retriever=FixedRetriever(documents=make_documents(8, about=0))
    )  # type: ignore[abstract]
    answer = built.invoke(ASKED, context=Settings(route="map_reduce"))["answer"]
    assert answer["abstained"]
    assert answer["citations"] == []


@pytest.mark.parametrize(
    ("metadata", "url", "page"),
    [
        ({"pmid": 123}, "https://pubmed.ncbi.nlm.nih.gov/123/", None),
        ({"doi": "doi:10.1000/a(b)<c>"}, "https://doi.org/10.1000/a%28b%29%3Cc%3E", None),
        ({"doi": "10.1000/x", "url": "https://example.org/x"}, "https://example.org/x", None),
        ({"source": "https://example.org/y"}, "https://example.org/y", None),
        ({"source": "report.pdf", "page": 2}, None, 3),
        ({"source": "report.pdf", "page": 2, "page_label": "17"}, None, 17),
        ({"source": "book", "page": 2, "kind": "chapter"}, None, None),
        ({"pmid": "none", "doi": "n/a", "page": "two"}, None, None),
    ],
)
def test_a_vector_stores_documents_are_cited_with_link_and_page(
    metadata: dict[str, Any], url: str | None, page: int | None, chat_model: ChatOpenAI
) -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document("Aspirin does lower the risk of stroke.", metadata=metadata)])
    [citation] = build_graph(model=chat_model, retriever=store).invoke(ASKED)["answer"]["citations"]
    assert (citation["url"], citation["page"]) == (url, page)


@pytest.mark.parametrize("mode", STREAM_MODES)
@pytest.mark.parametrize("context", [None, {}, {"top_k": 8}, Settings(top_k=8)])
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


def test_batches_answer_each_question(chat_model: ChatOpenAI, disagreeing: FixedRetriever) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing)
    questions: list[Any] = [{"question": f"{QUESTION} ({number})"} for number in range(3)]
    together = built.batch(questions), asyncio.run(built.abatch(questions))
    for results in together:
        assert [result["answer"]["usage"]["calls"] for result in results] == [6, 6, 6]


def test_tokens_are_counted_by_stage(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    usage = build_graph(model=chat_model, retriever=disagreeing).invoke(ASKED)["answer"]["usage"]
    assert usage["calls"] == 6
    assert usage["stages"]["extract"]["calls"] == 4
    assert usage["stages"]["reduce"]["calls"] == 1
    assert usage["stages"]["verify"]["calls"] == 1
    assert usage["input_tokens"] == sum(len(call.prompt) // 4 for call in server.all_calls)
    assert 0 < usage["vanilla_input_tokens"] < usage["input_tokens"]


def test_tokens_are_counted_when_the_answer_is_streamed(
    chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing)
    *_, (_, last) = built.stream(ASKED, stream_mode=["messages", "values"])
    assert last["answer"]["usage"]["input_tokens"] > 0


@pytest.mark.parametrize(
    "context",
    [
        {"top_k": 0},
        {"partition_size": 0},
        {"iou_threshold": 1.5},
        {"route": "sideways"},
        {"topk": 3},
    ],
)
def test_settings_that_cannot_be_used_are_an_input_error(context: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(context))):
        graph.invoke(ASKED, context=context)  # type: ignore[arg-type]


@pytest.mark.parametrize("context", ["my-kb", Settings])
def test_a_context_that_is_not_settings_is_an_input_error(context: Any) -> None:
    with pytest.raises(InputError, match=r"context=Settings\(…\)"):
        graph.invoke(ASKED, context=context)
    with pytest.raises(InputError, match=r"context=Settings\(…\)"):
        asyncio.run(graph.ainvoke(ASKED, context=context))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"model": 5}, "5 cannot answer"),
        ({"reader": object()}, "object object at .* cannot answer"),
        ({"reader": LLMReader}, "LLMReader'> cannot answer"),
        ({"model": MODEL.bind(stop=["."])}, r"LLMReader\('provider:model', arguments="),
        ({"model": MODEL.with_fallbacks([MODEL])}, "without bindings or fallbacks"),
        ({"model": MODEL, "reader": LLMReader(MODEL)}, "both given"),
        ({"retriever": 5}, "int is no retriever"),
        ({"retriever": lambda question: []}, "function is no retriever"),
        ({"settings": Settings(knowledge_base="my-kb")}, "settings takes a class"),
    ],
)
def test_a_graph_is_built_of_what_can_be_used(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        build_graph(**given)


@pytest.mark.parametrize(
    "name",
    ["preflight", "knowledge_base", "document", "cross_encoder", "prompts"],
)
def test_a_place_may_be_a_path_and_is_text_in_forms(name: str) -> None:
    given: dict[str, Any] = {name: Path("/data/mine")}
    assert getattr(Settings(**given), name) == "/data/mine"
    shown = Settings.model_json_schema()["properties"][name]
    assert "string" in [kind.get("type") for kind in (shown, *shown.get("anyOf", ()))]


def test_a_file_whose_name_is_no_utf8_is_refused() -> None:
    for document in ("bad\udcff.txt", Path("bad\udcff.txt")):
        with pytest.raises(InputError, match=r"document = .*: it is not UTF-8; rename the file"):
            Settings(document=document)  # type: ignore[arg-type]


def test_a_folder_named_demo_is_not_the_bundled_base() -> None:
    with pytest.raises(KnowledgeBaseError, match="no knowledge base at demo"):
        graph.invoke(ASKED, context={"knowledge_base": Path("demo")})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_input", "complaint"),
    [
        ({"question": ""}, "empty"),
        ({"question": " \n"}, "empty"),
        ({"question": None}, "empty"),
        ({"question": 123}, "must be a text, not int"),
        ({"question": "x" * 100_000}, "100,000"),
        ({"question": "Is it?", "options": {"A": "yes"}}, "two options"),
        ({"question": "Is it?", "options": {"A": "yes", "a": "no"}}, "twice"),
        ({"question": "Is it?", "options": {"A": "yes", "B": " "}}, "'B'"),
        ({"question": "Is it?", "options": ["yes", "no"]}, "mapping"),
        ({}, "empty"),
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


def test_the_graph_is_what_langgraph_compiles() -> None:
    assert type(graph) is CompiledStateGraph


@pytest.mark.parametrize("name", ["knowledge_base", "document", "retrieval", "cross_encoder"])
def test_settings_that_a_retriever_ignores_are_refused(name: str, agreeing: FixedRetriever) -> None:
    context: Any = {name: "bm25"}
    with pytest.raises(InputError, match=f"ignores {name}"):
        build_graph(retriever=agreeing).invoke(ASKED, context=context)


def test_runs_on_one_thread_do_not_add_up(
    chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    for _ in range(2):
        answer = built.invoke(ASKED, config)["answer"]
        assert len(answer["extractions"]) == 4
        assert answer["usage"]["calls"] == 6


def test_options_hold_for_one_run_on_a_thread(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=agreeing, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    built.invoke({**ASKED, "options": {"A": "yes", "B": "no"}}, config)
    built.invoke(ASKED, config)
    assert "A. yes" in server.calls[0].prompt
    assert "A. yes" not in server.calls[1].prompt


def _failing(place: str, reply: Reply) -> Any:
    return lambda call: (
        reply if place in call.prompt and call.stage == "extract" else faithful(call)
    )


@pytest.mark.parametrize(
    "reply", [Reply(status=500), Reply(status=429), Reply(drop=True), Reply(raw=b"{")]
)
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


@pytest.mark.parametrize("status", [401, 402, 404])
def test_a_refused_key_or_unknown_model_stops_at_once(
    status: int, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: Reply("no such thing", status=status)
    with pytest.raises(ModelSetupError, match="no such thing"):
        build_graph(model=chat_model, retriever=disagreeing).invoke(ASKED)


def test_the_model_is_opened_by_name_from_the_settings(
    server: OpenAIServer, disagreeing: FixedRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    built = build_graph(retriever=disagreeing)
    answer = built.invoke(ASKED, context={"model": f"openai:named-{server.url}"})["answer"]  # type: ignore[arg-type]
    assert answer["usage"]["calls"] == 6
    assert server.calls[0].body["model"] == f"named-{server.url}"


def test_workers_and_allocator_may_be_different_models(
    server: OpenAIServer, disagreeing: FixedRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    context = Settings(model="openai:large", extract_model="openai:small")
    build_graph(retriever=disagreeing).invoke(ASKED, context=context)
    assert {(call.stage, call.body["model"]) for call in server.calls} == {
        ("extract", "small"),
        ("reduce", "large"),
    }


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
    answer = (asyncio.run(run) if asynchronous else run)["answer"]  # type: ignore[arg-type, index]
    assert len(server.calls[0].documents) == 8
    assert messages(answer, "retracted_left_out") == [
        "Retracted articles were left out: src-1, src-3."
    ]
    assert not any(citation["retracted"] for citation in answer["citations"])


def test_many_retracted_chunks_hide_no_good_document(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = make_documents(60, about=0)
    for document in documents[:40]:
        document.metadata.update(retracted=True, source_id="withdrawn")
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents))
    answer = built.invoke(ASKED, context=Settings(route="vanilla"))["answer"]
    assert len(server.calls[0].documents) == 16
    assert messages(answer, "retracted_left_out") == [
        "Retracted articles were left out: withdrawn."
    ]


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
