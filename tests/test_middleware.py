"""The middleware in agents and the compressor in retrievers, over HTTP."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest
from langchain_core.documents import Document
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, create_retriever_tool, tool
from langchain_openai import ChatOpenAI

from briefcontext import BriefContextCompressor, BriefContextMiddleware, Settings
from briefcontext.chains.passage_reader import PassageReader
from briefcontext.errors import InputError
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply

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


def test_a_message_stays_when_the_rankings_agree(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    search = search_tool(agreeing.documents)
    message = ask(chat_model, search, BriefContextMiddleware(chat_model))
    assert message == ask(chat_model, search).model_copy(
        update={"id": message.id, "tool_call_id": message.tool_call_id}
    )
    assert "extract" not in server.stages()


@pytest.mark.parametrize(("count", "calls"), [(0, 0), (4, 0), (5, 2)])
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


def as_text(documents: list[Document]) -> str:
    return SEPARATOR.join(document.page_content for document in documents)


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


UNTOUCHED: dict[str, Any] = {
    "no documents": message_of("Nothing was found."),
    "documents as text, without a separator": message_of(as_text(misplaced(16))),
    "another artifact": message_of("Text", {"documents": misplaced(16)}),
    "an error": ToolMessage("no", artifact=misplaced(16), tool_call_id="1", status="error"),
    "text like a list of documents": message_of("[Document(page_content=open('x'))]"),
}


@pytest.mark.parametrize("message", UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_a_result_without_documents_stays(
    message: Any, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    assert through(BriefContextMiddleware(chat_model), message) is message
    assert not server.calls


@pytest.mark.parametrize(
    ("tools", "is_read"),
    [(None, True), (["search"], True), ({"search": SEPARATOR}, True), (["other"], False)],
)
def test_tools_can_be_named(tools: Any, is_read: bool, chat_model: ChatOpenAI) -> None:
    message = message_of("", misplaced(16))
    assert (through(BriefContextMiddleware(chat_model, tools), message) is not message) == is_read


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


def test_the_compressor_returns_agreeing_documents_as_they_are(
    chat_model: ChatOpenAI, server: OpenAIServer, agreeing: FixedRetriever
) -> None:
    compressor = BriefContextCompressor(chat_model)
    assert compressor.compress_documents(agreeing.documents, QUESTION) == agreeing.documents
    assert compressor.compress_documents([], QUESTION) == []
    assert not server.calls


def test_the_example_of_the_readme_is_type_checked() -> None:
    root = Path(__file__).parents[1]
    blocks = (root / "README.md").read_text(encoding="utf-8").split("```python\n")[1:]
    block = next(block for block in blocks if "BriefContextMiddleware" in block).split("```")[0]
    example = block.partition("\n\n")[2]
    assert "create_agent(" in example
    # `make type` checks this file.
    checked = (root / "tests" / "user_code.py").read_text(encoding="utf-8")
    assert textwrap.indent(example, "    ") in checked
