"""The graph as a tool of an agent, and as a node of another graph."""

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from briefcontext import briefcontext_tool, build_graph
from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.graphs.tool import NAME
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply, faithful

QUESTIONS = ["Does aspirin lower the risk of stroke?", "Was vitamin 3 studied among volunteers?"]


class TestUnit(ToolsUnitTests):
    """LangChain's own suite."""

    @property
    def tool_constructor(self) -> BaseTool:
        return briefcontext_tool()

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"question": "Which drug is first choice for type 2 diabetes?"}


class TestIntegration(ToolsIntegrationTests):
    """LangChain's own suite, which runs the tool."""

    @property
    def tool_constructor(self) -> BaseTool:
        return briefcontext_tool()

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"question": "Which drug is first choice for type 2 diabetes?"}


def _call(arguments: dict[str, Any]) -> Any:
    return {"type": "tool_call", "id": "call", "name": NAME, "args": arguments}


@pytest.fixture
def tool(chat_model: ChatOpenAI, disagreeing: FixedRetriever) -> BaseTool:
    return briefcontext_tool(
        build_graph(model=chat_model, retriever=disagreeing),
        settings={"max_retries": 0, "route": "map_reduce"},
    )


def test_the_model_gets_a_short_text_and_the_caller_the_answer(
    tool: BaseTool, disagreeing: FixedRetriever
) -> None:
    disagreeing.documents[0].metadata.update(
        url="https://example.org/0", year=2020, title="One\nSources:\n[2] Two"
    )
    message = tool.invoke(_call({"question": QUESTION}))
    answer = message.artifact
    assert message.status == "success"
    assert message.content.startswith(answer["text"])
    listed = message.content.partition("\n\nSources:\n")[2].split("\n\n")[0].splitlines()
    assert len(listed) == len(answer["citations"]) == 16
    assert listed[0] == "[1] One Sources: [2] Two · 2020 · src-0 · https://example.org/0"
    assert "Copied" not in message.content
    assert answer["extractions"][0]["quotes"]


def test_an_abstention_is_said_plainly(chat_model: ChatOpenAI) -> None:
    tool = briefcontext_tool(build_graph(model=chat_model, retriever=FixedRetriever(documents=[])))
    message = tool.invoke(_call({"question": QUESTION}))
    assert message.content.startswith("NO ANSWER: ")
    assert message.artifact["abstained"]


@pytest.mark.parametrize(
    ("arguments", "results"),
    [
        ({"question": "  "}, "The question is empty."),
        ({"question": QUESTION, "options": {"A": "yes"}}, "at least two options"),
        ({}, "The arguments cannot be used: question: Field required."),
        (
            {"question": QUESTION, "filters": {"year": "2015-"}},
            "The arguments cannot be used: filters.year: ",
        ),
    ],
)
def test_a_bad_question_is_an_error_for_the_model(
    arguments: dict[str, Any], results: str, tool: BaseTool, server: OpenAIServer
) -> None:
    message = tool.invoke(_call(arguments))
    assert message.status == "error"
    assert results in message.content
    assert not server.calls


def test_setup_errors_are_raised() -> None:
    with pytest.raises(KnowledgeBaseError, match="nowhere"):
        briefcontext_tool(settings={"knowledge_base": "nowhere"}).invoke({"question": QUESTION})
    with pytest.raises(InputError, match="top_k"):
        briefcontext_tool(settings={"top_k": 0})
    not_settings: Any = 5
    with pytest.raises(InputError, match="settings = 5"):
        briefcontext_tool(settings=not_settings)


def _two_questions(call: Call) -> Reply:
    """Reply as an agent that asks two questions at once, and as the model of the readers."""
    offered = [tool["function"]["name"] for tool in call.body.get("tools", [])]
    if NAME not in offered:
        return faithful(call)
    results = [message["content"] for message in call.body["messages"] if message["role"] == "tool"]
    if results:
        return Reply(f"I read {len(results)} results.")
    return Reply(arguments=[json.dumps({"question": question}) for question in QUESTIONS])


ASKED: Any = {"messages": [("user", "Compare aspirin and vitamin 3.")]}


def test_an_agent_asks_two_questions_at_once(
    tool: BaseTool, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = _two_questions
    server.together = 8
    agent = create_agent(chat_model, [tool], checkpointer=InMemorySaver())
    messages = agent.invoke(ASKED, {"configurable": {"thread_id": "one"}})["messages"]
    asked, first, second, last = messages[1:]
    assert isinstance(asked, AIMessage)
    assert [call["args"]["question"] for call in asked.tool_calls] == QUESTIONS
    assert isinstance(first, ToolMessage)
    assert [message.tool_call_id for message in (first, second)] == [
        call["id"] for call in asked.tool_calls
    ]
    assert all("[1] Title 0 · src-0" in message.content for message in (first, second))
    assert all(len(message.artifact["extractions"]) == 4 for message in (first, second))
    assert last.content == "I read 2 results."
    assert server.together == 0, "the eight extractions of both questions were in flight at once"


class Case(TypedDict, total=False):
    """The state of another graph, which shares two keys."""

    patient: str
    question: str
    answer: Any
    letter: str


class Desk(TypedDict):
    """The context of another graph."""

    desk: str


def _write(case: Case) -> Case:
    return {"letter": f"{case['patient']}: {case['answer']['text']}"}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("context", [None, {"desk": "three"}])
async def test_the_graph_is_a_node_of_another_graph(
    asynchronous: bool, context: Any, chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    builder: Any = StateGraph(Case, context_schema=Desk)
    builder.add_node("literature", build_graph(model=chat_model, retriever=disagreeing))
    builder.add_node("letter", _write)
    builder.add_edge(START, "literature").add_edge("literature", "letter").add_edge("letter", END)
    outer = builder.compile(checkpointer=InMemorySaver())
    given, config = {"patient": "P", "question": QUESTION}, {"configurable": {"thread_id": "one"}}
    run = await outer.ainvoke(given, config, context=context) if asynchronous else None
    result = run or outer.invoke(given, config, context=context)
    assert set(result) == {"patient", "question", "answer", "letter"}
    assert result["answer"]["route"] == "map_reduce"
    assert result["letter"].startswith("P: Point holds [1].")
