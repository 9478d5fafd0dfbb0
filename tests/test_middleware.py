"""The middleware in agents and the compressor in retrievers, over HTTP."""

import asyncio
import json
import textwrap
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, create_retriever_tool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from mcp import Client
from mcp.server import MCPServer

from briefcontext import BriefContextCompressor, BriefContextMiddleware, Settings
from briefcontext.chains.passage_reader import PassageReader
from briefcontext.errors import InputError
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply, faithful

KEY_SENTENCE = "Aspirin does lower the risk of stroke in group 8"
ASKED: Any = {"messages": [("user", "Tell me about aspirin.")]}
SEPARATOR = "\n----\n"
NO_RETRIES = Settings(max_retries=0)


def about_aspirin(call: Call) -> Reply:
    """Call the tool once, then end; as the reading model, quote the documents about aspirin."""
    if "tools" in call.body:
        if call.body["messages"][-1]["role"] == "tool":
            return Reply("Done.")
        return Reply(arguments=json.dumps({"query": QUESTION}))
    keyed = [(key, text) for key, text in call.documents if "Aspirin" in text]
    quotes = [{"key": key, "quote": text.split("\n")[-1].split(". ")[0]} for key, text in keyed]
    found = {"relevant": bool(quotes), "quotes": quotes, "finding": "", "confidence": 0.9}
    found["finding"] = " ".join(f"Aspirin helps [{key}]." for key, _ in keyed)
    return Reply(json.dumps(found))


@pytest.fixture(autouse=True)
def _script(server: OpenAIServer) -> None:
    server.script = about_aspirin


def search_tool(documents: list[Document]) -> BaseTool:
    retriever = FixedRetriever(documents=documents)
    return create_retriever_tool(
        retriever, "search", "Finds.", response_format="content_and_artifact"
    )


def misplaced(count: int) -> list[Document]:
    """Return documents of which that in the middle is about the question."""
    return make_documents(count, about=count // 2)


def tool_messages(result: Any) -> list[ToolMessage]:
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


def ask(chat: ChatOpenAI, search: BaseTool, *middleware: BriefContextMiddleware) -> ToolMessage:
    agent = create_agent(chat, [search], middleware=middleware)
    (message,) = tool_messages(agent.invoke(ASKED))
    return message


def test_the_model_gets_located_quotes_with_their_sources(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    message = ask(chat_model, search_tool(misplaced(16)), BriefContextMiddleware(chat_model))
    assert server.calls[-1].body["messages"][-1]["content"] == message.content
    assert message.content == textwrap.dedent(
        f"""\
        Query: {QUESTION}
        Documents read: 16. With evidence: 1.

        Title 8 · src-8
        - "{KEY_SENTENCE}" (characters 0–48)

        In the words of the model that read them:
        - Aspirin helps [src-8]."""
    )


def test_the_artifact_keeps_documents_extractions_preflight_and_usage(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = misplaced(16)
    message = ask(chat_model, search_tool(documents), BriefContextMiddleware(chat_model))
    artifact = message.artifact
    assert artifact["documents"] == documents
    assert [extraction["status"] for extraction in artifact["extractions"]] == [
        "none",
        "none",
        "evidence",
        "none",
    ]
    (citation,) = artifact["citations"]
    assert (citation["document_id"], citation["quotes"][0]["start"]) == ("doc-8", 0)
    assert not artifact["preflight"]["consistent"]
    assert artifact["usage"]["calls"] == server.stages().count("extract") == 4
    assert artifact["usage"]["input_tokens"] > 0
    assert message.tool_call_id == "function-0-0"


def test_a_message_stays_when_the_rankings_agree(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    search = search_tool(agreeing.documents)
    message = ask(chat_model, search, BriefContextMiddleware(chat_model))
    assert message == ask(chat_model, search).model_copy(
        update={"id": message.id, "tool_call_id": message.tool_call_id}
    )
    assert "extract" not in server.stages()


def test_a_setting_of_the_route_overrules_the_preflight(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    settings = {"route": "map_reduce", "partition_size": 8}
    message = ask(
        chat_model,
        search_tool(agreeing.documents),
        BriefContextMiddleware(chat_model, None, settings),
    )
    assert "With evidence: 3." in message.content
    assert server.stages().count("extract") == 2


@pytest.mark.parametrize(("count", "calls"), [(0, 0), (1, 0), (4, 0), (5, 2), (200, 50)])
def test_only_more_documents_than_a_partition_are_read(
    count: int, calls: int, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    message = ask(chat_model, search_tool(misplaced(count)), BriefContextMiddleware(chat_model))
    assert server.stages().count("extract") == calls
    assert ("Documents read: " in message.content) == bool(calls)
    if calls:
        assert f"Documents read: {count}. With evidence: 1." in message.content
        assert len(message.artifact["documents"]) == count
        assert f"group {count // 2}" in message.content


def test_documents_of_a_failed_extraction_stay_in_the_message(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        if "number 12 " in call.prompt and "tools" not in call.body:
            return Reply("overloaded", status=503)
        return about_aspirin(call)

    server.script = script
    middleware = BriefContextMiddleware(chat_model, settings=NO_RETRIES)
    documents = misplaced(16)
    message = ask(chat_model, search_tool(documents), middleware)
    assert KEY_SENTENCE in message.content
    assert "Documents that could not be read, in full: 4." in message.content
    assert "overloaded" in message.content
    kept = [document.page_content in message.content for document in documents]
    assert kept == [False] * 12 + [True] * 4
    assert message.artifact["extractions"][3]["status"] == "failed"
    assert message.artifact["usage"]["failed_calls"] == 1


def test_all_documents_stay_if_all_extractions_fail(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        about_aspirin(call) if "tools" in call.body else Reply("down", status=500)
    )
    documents = misplaced(16)
    middleware = BriefContextMiddleware(chat_model, settings=NO_RETRIES)
    message = ask(chat_model, search_tool(documents), middleware)
    assert all(document.page_content in message.content for document in documents)


@pytest.mark.parametrize(
    "record",
    [
        {"relevant": True, "quotes": [{"key": "", "quote": "Words of no document at all."}]},
        {"relevant": True, "quotes": [], "finding": "Aspirin cures everything."},
    ],
    ids=["the quotes are invented", "there are no quotes"],
)
def test_documents_stay_if_nothing_that_was_written_is_in_them(
    record: dict[str, Any], chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        about_aspirin(call) if "tools" in call.body else Reply(json.dumps(record))
    )
    documents = misplaced(8)
    message = ask(chat_model, search_tool(documents), BriefContextMiddleware(chat_model))
    assert all(document.page_content in message.content for document in documents)
    assert "cures everything" not in message.content


def test_several_tool_calls_are_read_at_once(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    def script(call: Call) -> Reply:
        if "tools" in call.body and call.body["messages"][-1]["role"] == "user":
            return Reply(
                arguments=[json.dumps({"query": f"{QUESTION} {word}"}) for word in ("A", "B", "C")]
            )
        return about_aspirin(call)

    server.script, server.together = script, 12
    middleware = BriefContextMiddleware(chat_model)
    agent = create_agent(chat_model, [search_tool(misplaced(16))], middleware=[middleware])
    messages = tool_messages(agent.invoke(ASKED))
    assert [message.content.split("\n")[0] for message in messages] == [
        f"Query: {QUESTION} {word}" for word in ("A", "B", "C")
    ]
    assert all(message.artifact["usage"]["calls"] == 4 for message in messages)
    assert server.together == 0


async def test_progress_is_streamed_and_tokens_of_extractions_are_not(
    chat_model: ChatOpenAI,
) -> None:
    agent = create_agent(
        chat_model, [search_tool(misplaced(16))], middleware=[BriefContextMiddleware(chat_model)]
    )
    events, tokens = [], []
    async for mode, part in agent.astream(ASKED, stream_mode=["custom", "messages"]):
        if mode == "custom":
            events.append(part["event"])
        elif part[0].type == "AIMessageChunk":
            tokens.append(part[0].text)
    assert events[0] == "route_decided"
    assert events.count("partition_started") == events.count("partition_done") == 4
    assert "".join(tokens) == "Done."


async def test_an_asynchronous_agent_gets_the_same_message(chat_model: ChatOpenAI) -> None:
    search = search_tool(misplaced(16))
    middleware = BriefContextMiddleware(chat_model)
    agent = create_agent(chat_model, [search], middleware=[middleware])
    (message,) = tool_messages(await agent.ainvoke(ASKED))
    expected = await asyncio.to_thread(ask, chat_model, search, middleware)
    assert message.content == expected.content


def test_a_resumed_agent_does_not_read_again(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    down = True

    def script(call: Call) -> Reply:
        if "tools" in call.body and call.body["messages"][-1]["role"] == "tool" and down:
            return Reply("down", status=500)
        return about_aspirin(call)

    server.script = script
    agent = create_agent(
        chat_model,
        [search_tool(misplaced(16))],
        middleware=[BriefContextMiddleware(chat_model)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "one"}}
    with pytest.raises(Exception, match="down"):
        agent.invoke(ASKED, config)
    down = False
    result = agent.invoke(None, config)
    (message,) = tool_messages(result)
    assert result["messages"][-1].content == "Done."
    # LangGraph restores documents in messages as dictionaries.
    restored = [Document.model_validate(each) for each in message.artifact["documents"]]
    assert restored == misplaced(16)
    assert server.stages().count("extract") == 4


def as_text(documents: list[Document]) -> str:
    return SEPARATOR.join(document.page_content for document in documents)


async def test_documents_of_an_mcp_tool_are_split_at_the_separator(chat_model: ChatOpenAI) -> None:
    server = MCPServer("papers")

    @server.tool("search")
    def search_papers(query: str) -> str:
        return as_text(misplaced(16))

    async with Client(server) as client:

        async def call(query: str) -> list[dict[str, Any]]:
            result = await client.call_tool("search", {"query": query})
            return [block.model_dump(include={"type", "text"}) for block in result.content]

        search = StructuredTool.from_function(coroutine=call, name="search", description="Finds.")
        middleware = BriefContextMiddleware(chat_model, tools={"search": SEPARATOR})
        agent = create_agent(chat_model, [search], middleware=[middleware])
        (message,) = tool_messages(await agent.ainvoke(ASKED))
    assert "Documents read: 16. With evidence: 1.\n\ndocument 9" in message.content
    assert f'"{KEY_SENTENCE}" (characters 0–48)' in message.content


def message_of(output: Any, artifact: Any = None) -> Any:
    """Run a middleware over a tool's output that a node of tools has formatted."""

    @tool("search", response_format="content_and_artifact")
    def search(query: str) -> Any:
        """Find."""
        return output, artifact

    return search.invoke(call_of({"query": QUESTION}))


def call_of(arguments: dict[str, Any]) -> Any:
    return {"type": "tool_call", "id": "1", "name": "search", "args": arguments}


def through(
    middleware: BriefContextMiddleware, message: Any, arguments: dict[str, Any] | None = None
) -> Any:
    call = call_of({"query": QUESTION} if arguments is None else arguments)
    runtime: Any = None
    request = ToolCallRequest(tool_call=call, tool=None, state={}, runtime=runtime)
    return middleware.wrap_tool_call(request, lambda _: message)


def test_a_list_of_documents_is_read_without_an_artifact(chat_model: ChatOpenAI) -> None:
    documents = [
        Document(
            page_content=document.page_content,
            metadata={"source": f'it\'s "{place}"\n', "years": {"added": 2020}},
        )
        for place, document in enumerate(misplaced(16))
    ]
    message = through(BriefContextMiddleware(chat_model), message_of(documents))
    assert f'it\'s "8"\n- "{KEY_SENTENCE}"' in message.content
    assert [document.metadata for document in message.artifact["documents"]] == [
        document.metadata for document in documents
    ]


def test_metadata_that_is_no_literal_becomes_text(chat_model: ChatOpenAI) -> None:
    documents = misplaced(16)
    for document in documents:
        document.metadata["added"] = date(2020, 1, 1)
    message = through(BriefContextMiddleware(chat_model), message_of(documents))
    metadata = message.artifact["documents"][8].metadata
    assert metadata == documents[8].metadata | {"added": "datetime.date(2020, 1, 1)"}


UNTOUCHED: dict[str, Any] = {
    "no documents": message_of("Nothing was found."),
    "documents as text, without a separator": message_of(as_text(misplaced(16))),
    "another artifact": message_of("Text", {"documents": misplaced(16)}),
    "an error": ToolMessage("no", artifact=misplaced(16), tool_call_id="1", status="error"),
    "a command": Command(update={"messages": []}),
    "text like a list of documents": message_of("[Document(page_content=open('x'))]"),
    "text that ends early": message_of("[Document(page_content='a'), Docu"),
    "blank documents": message_of("", [Document(page_content=" ", id=str(n)) for n in range(9)]),
}


@pytest.mark.parametrize("message", UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_a_result_without_documents_stays(
    message: Any, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    assert through(BriefContextMiddleware(chat_model), message) is message
    assert not server.calls


@pytest.mark.parametrize(
    ("arguments", "is_read"),
    [
        ({"query": QUESTION, "language": "en"}, True),
        ({"question": QUESTION, "language": "en"}, True),
        ({"input": QUESTION, "k": 4}, True),
        ({"text": QUESTION, "k": 4}, True),
        ({"text": QUESTION, "language": "en"}, False),
        ({"k": 4}, False),
        ({"query": " "}, False),
        ({"query": "a" * 30_000}, False),
    ],
)
def test_the_query_is_an_argument_of_the_call(
    arguments: dict[str, Any], is_read: bool, chat_model: ChatOpenAI
) -> None:
    message = message_of("", misplaced(16))
    result = through(BriefContextMiddleware(chat_model), message, arguments)
    assert (result is not message) == is_read


@pytest.mark.parametrize(
    ("tools", "is_read"),
    [
        (None, True),
        (["search"], True),
        ([search_tool([])], True),
        ({"search": SEPARATOR}, True),
        (["other"], False),
        ([], False),
    ],
)
def test_tools_can_be_named(tools: Any, is_read: bool, chat_model: ChatOpenAI) -> None:
    message = message_of("", misplaced(16))
    assert (through(BriefContextMiddleware(chat_model, tools), message) is not message) == is_read


def test_a_tool_that_fails_is_left_alone(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    @tool("search")
    def search(query: str) -> str:
        """Find."""
        raise ConnectionError("no connection")

    with pytest.raises(ConnectionError, match="no connection"):
        ask(chat_model, search, BriefContextMiddleware(chat_model))
    assert "extract" not in server.stages()


def test_the_artifact_of_a_tool_of_text_is_kept(chat_model: ChatOpenAI) -> None:
    message = message_of(as_text(misplaced(16)), {"pages": 3})
    middleware = BriefContextMiddleware(chat_model, {"search": SEPARATOR})
    assert through(middleware, message).artifact["artifact"] == {"pages": 3}


def test_a_retracted_source_is_labelled(chat_model: ChatOpenAI) -> None:
    documents = misplaced(16)
    documents[8].metadata["retracted"] = True
    message = through(BriefContextMiddleware(chat_model), message_of("", documents))
    assert "RETRACTED" in message.content.split("\n")[3]


def test_long_documents_are_read_in_pieces(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    documents = misplaced(5)
    filler = "Vitamins were studied in healthy volunteers at length. " * 120
    documents[2].page_content = f"{filler}Aspirin does lower the risk of stroke. {filler}"

    def script(call: Call) -> Reply:
        quote = "Aspirin does lower the risk of stroke."
        if quote not in call.prompt:
            return Reply(json.dumps({"relevant": False}))
        quotes = [{"key": key, "quote": quote} for key, text in call.documents if quote in text]
        return Reply(json.dumps({"relevant": True, "quotes": quotes, "finding": "Yes."}))

    server.script = script
    middleware = BriefContextMiddleware(chat_model, settings={"max_input_tokens": 2048})
    message = through(middleware, message_of("", documents))
    assert server.stages().count("extract") > 2
    place = f"(characters {len(filler)}–{len(filler) + 38})"
    assert place in message.content


@pytest.mark.parametrize("kind", [BriefContextMiddleware, BriefContextCompressor])
def test_arguments_that_cannot_be_used_are_refused(
    kind: Callable[..., Any], chat_model: ChatOpenAI
) -> None:
    with pytest.raises(InputError, match="no model"):
        kind()
    with pytest.raises(InputError, match="partition_sise"):
        kind(chat_model, settings={"partition_sise": 2})
    with pytest.raises(InputError, match="ignores extract_model"):
        kind(chat_model, settings={"extract_model": "openai:other"})
    with pytest.raises(InputError, match="cannot answer"):
        kind(3)


def test_the_model_can_come_from_the_settings(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    settings = {"model": "openai:answers", "extract_model": "openai:reads"}
    message = through(BriefContextMiddleware(settings=settings), message_of("", misplaced(16)))
    assert KEY_SENTENCE in message.content
    assert {call.body["model"] for call in server.calls} == {"reads"}


def test_a_reader_without_a_model_quotes_passages() -> None:
    message = through(BriefContextMiddleware(PassageReader()), message_of("", misplaced(16)))
    assert KEY_SENTENCE in message.content
    assert message.artifact["usage"]["calls"] == 0


def test_the_compressor_cuts_documents_to_their_quotes(chat_model: ChatOpenAI) -> None:
    documents = misplaced(16)
    documents[4] = make_documents(16, about=4)[4]
    first, second = BriefContextCompressor(chat_model).compress_documents(documents, QUESTION)
    assert (first.id, second.id) == ("doc-4", "doc-8")
    assert second.page_content == KEY_SENTENCE
    (quote,) = second.metadata["quotes"]
    assert documents[8].page_content[quote["start"] : quote["end"]] == second.page_content
    assert second.metadata["finding"] == "Aspirin helps [src-8]."
    own = {"source_id": "src-8", "title": "Title 8", "start": 0, "chunk_index": 0}
    assert {**second.metadata, "quotes": 0, "finding": 0} == {**own, "quotes": 0, "finding": 0}


async def test_the_compressor_is_also_asynchronous(chat_model: ChatOpenAI) -> None:
    compressor = BriefContextCompressor(chat_model)
    compressed = await compressor.acompress_documents(misplaced(16), QUESTION)
    assert [document.id for document in compressed] == ["doc-8"]


def test_the_compressor_returns_agreeing_documents_as_they_are(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    compressor = BriefContextCompressor(chat_model)
    assert compressor.compress_documents(agreeing.documents, QUESTION) == agreeing.documents
    assert compressor.compress_documents([], QUESTION) == []
    assert not server.calls


def test_the_compressor_keeps_documents_that_could_not_be_read(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        Reply("no", status=500) if "number 0 " in call.prompt else about_aspirin(call)
    )
    compressor = BriefContextCompressor(chat_model, NO_RETRIES)
    documents = misplaced(16)
    compressed = compressor.compress_documents(documents, QUESTION)
    assert [document.id for document in compressed] == ["doc-0", "doc-1", "doc-2", "doc-3", "doc-8"]
    assert compressed[0].page_content == documents[0].page_content
    assert "500" in compressed[0].metadata["error"]


class Names(BaseCallbackHandler):
    """Keeps the names of the chat model's runs."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_chat_model_start(self, *arguments: Any, name: str = "", **options: Any) -> None:
        self.names.append(name)


async def test_callbacks_are_passed_on(chat_model: ChatOpenAI) -> None:
    compressor, search = BriefContextCompressor(chat_model), search_tool(misplaced(16))
    names = Names()
    await asyncio.to_thread(compressor.compress_documents, misplaced(16), QUESTION, [names])
    await compressor.acompress_documents(misplaced(16), QUESTION, [names])
    assert len(names.names) == 8
    agent = create_agent(chat_model, [search], middleware=[BriefContextMiddleware(chat_model)])
    usage = UsageMetadataCallbackHandler()
    result = await agent.ainvoke(ASKED, {"callbacks": [usage]})
    (message,) = tool_messages(result)
    total = sum(each["input_tokens"] for each in usage.usage_metadata.values())
    assert total > message.artifact["usage"]["input_tokens"] > 0


def test_a_compressed_retriever_is_a_tool(
    chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    retriever = ContextualCompressionRetriever(
        base_compressor=BriefContextCompressor(chat_model), base_retriever=disagreeing
    )
    search: Any = create_retriever_tool(retriever, "search", "Finds.")
    assert [line[:16] for line in search.invoke({"query": QUESTION}).split("\n\n")] == [
        "Aspirin does low"
    ] * 3


def test_faithful_quotes_of_all_documents_are_listed(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: about_aspirin(call) if "tools" in call.body else faithful(call)
    message = ask(
        chat_model, search_tool(disagreeing.documents), BriefContextMiddleware(chat_model)
    )
    titles = [line for line in message.content.splitlines() if line.startswith("Title ")]
    assert titles == [f"Title {place} · src-{place}" for place in range(16)]


def test_the_example_of_the_readme_is_type_checked() -> None:
    root = Path(__file__).parents[1]
    blocks = (root / "README.md").read_text(encoding="utf-8").split("```python\n")[1:]
    block = next(block for block in blocks if "BriefContextMiddleware" in block).split("```")[0]
    example = block.partition("\n\n")[2]
    assert "create_agent(" in example
    # `make type` checks this file.
    checked = (root / "tests" / "user_code.py").read_text(encoding="utf-8")
    assert textwrap.indent(example, "    ") in checked
