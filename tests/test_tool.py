"""The graph and the retrievers as tools of an agent, and the graph as a part of somebody else's graph."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import BaseTool, create_retriever_tool
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from typing_extensions import TypedDict

from briefcontext import Settings, briefcontext_tool, build_graph
from briefcontext.chains.passage_reader import PassageReader
from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.tool import NAME
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.retrievers import DenseRetriever
from tests.conftest import QUESTION, FixedRetriever, make_documents
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source
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


async def test_sync_and_async_tell_the_same(tool: BaseTool) -> None:
    given = _call({"question": QUESTION})
    waited = await tool.ainvoke(given)
    assert waited.content == tool.invoke(given).content


async def test_a_question_alone_may_be_given_as_text(tool: BaseTool) -> None:
    told = tool.invoke({"question": QUESTION})
    assert told == tool.invoke(QUESTION) == tool.run(QUESTION) == await tool.ainvoke(QUESTION)


def test_an_abstention_is_said_plainly(chat_model: ChatOpenAI) -> None:
    tool = briefcontext_tool(build_graph(model=chat_model, retriever=FixedRetriever(documents=[])))
    message = tool.invoke(_call({"question": QUESTION}))
    assert message.content.startswith("NO ANSWER: No answer was found in the documents.")
    assert message.artifact["abstained"]


def test_what_was_not_read_is_told(tool: BaseTool, server: OpenAIServer) -> None:
    server.script = lambda call: (
        Reply("no", status=500) if "number 12 " in call.prompt else faithful(call)
    )
    told = tool.invoke(_call({"question": QUESTION})).content
    assert "Check:\n- Partition 4 was not read (doc-12, doc-13, doc-14, doc-15)" in told


def test_of_many_cautions_those_on_what_is_cited_come_first(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: (
        Reply("no", status=500) if "Vitamin" in call.prompt else faithful(call)
    )
    disagreeing.documents[8].metadata["retracted"] = True
    settings = Settings(max_retries=0, route="map_reduce", partition_size=1, include_retracted=True)
    tool = briefcontext_tool(
        build_graph(model=chat_model, retriever=disagreeing), settings=settings
    )
    told = tool.invoke(_call({"question": QUESTION})).content
    assert told.startswith(
        "Check:\n- Danger: Retracted articles are cited: src-8.\n- Partition 1 was not read"
    )
    assert "- more notes: 8\n" in told


def test_options_and_a_conflict_are_told(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    def divided(call: Call) -> Reply:
        if call.stage != "extract":
            return Reply(f"It is so [{call.user.split('[')[1].split(']')[0]}].\nChoice: A")
        choice = "A" if "group 0" in call.prompt else "B"
        quotes = [
            {"key": key, "quote": text.split("\n")[-1].split(". ")[0]}
            for key, text in call.documents
        ]
        return Reply(
            json.dumps({"relevant": True, "quotes": quotes, "finding": "So.", "choice": choice})
        )

    server.script = divided
    retriever = FixedRetriever(documents=make_documents(2, about=0))
    settings = Settings(route="map_reduce", partition_size=1)
    tool = briefcontext_tool(build_graph(model=chat_model, retriever=retriever), settings=settings)
    message = tool.invoke(_call({"question": QUESTION, "options": {"A": "yes", "B": "no"}}))
    assert message.artifact["conflict"]["choices"] == {"A": [0], "B": [1]}
    assert "contradicts itself: 1 partition chose A, 1 partition chose B." in message.content


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"question": "  "}, "The question is empty."),
        ({"question": QUESTION, "options": {"A": "yes"}}, "at least two options"),
        ({}, "The arguments cannot be used: question: Field required."),
        ({"question": 3}, "The arguments cannot be used: question: "),
        ({"question": QUESTION, "years": "2015-"}, "The arguments cannot be used: years: "),
        (
            {"question": QUESTION, "filters": {"year": "2015-"}},
            "The arguments cannot be used: filters.year: ",
        ),
    ],
)
def test_a_bad_question_is_an_error_that_the_model_reads(
    arguments: dict[str, Any], told: str, tool: BaseTool, server: OpenAIServer
) -> None:
    message = tool.invoke(_call(arguments))
    assert message.status == "error"
    assert told in message.content
    assert not server.calls


def test_failed_calls_are_an_error_that_the_model_reads(
    tool: BaseTool, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply("overloaded", status=503)
    message = tool.invoke(_call({"question": QUESTION}))
    assert message.status == "error"
    assert message.content.startswith("All 4 partitions failed.")


def test_what_only_the_developer_can_mend_is_raised() -> None:
    with pytest.raises(KnowledgeBaseError, match="nowhere"):
        briefcontext_tool(settings={"knowledge_base": "nowhere"}).invoke({"question": QUESTION})
    with pytest.raises(InputError, match="top_k"):
        briefcontext_tool(settings={"top_k": 0})
    not_settings: Any = 5
    with pytest.raises(
        InputError, match="settings = 5: it should be a valid dictionary or instance of Settings"
    ):
        briefcontext_tool(settings=not_settings)


def _two_questions(call: Call) -> Reply:
    """Be an agent that asks both questions at once, and then tells what it was told; and be the readers' model."""
    offered = [tool["function"]["name"] for tool in call.body.get("tools", [])]
    if NAME not in offered:
        return faithful(call)
    told = [message["content"] for message in call.body["messages"] if message["role"] == "tool"]
    if told:
        return Reply(f"I was told {len(told)} things.")
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
    assert last.content == "I was told 2 things."
    assert server.together == 0, "the eight extractions of both questions were in flight at once"


async def test_an_agent_surfaces_the_progress_of_each_question(
    tool: BaseTool, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = _two_questions
    agent = create_agent(chat_model, [tool])
    told: dict[Any, list[str]] = {}
    async for namespace, event in agent.astream(ASKED, stream_mode="custom", subgraphs=True):
        told.setdefault(namespace, []).append(event["event"])
    assert len(told) == 2
    for events in told.values():
        assert events[:2] == ["retrieved", "route_decided"]
        assert events[-4:] == ["reducing", "verifying", "verified", "answered"]


@pytest.mark.parametrize("given", ["to the tool", "as the agent's context"])
def test_settings_are_passed_through(
    given: str, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = _two_questions
    settings = Settings(route="vanilla", top_k=3)
    to_tool = settings if given == "to the tool" else None
    tool = briefcontext_tool(build_graph(model=chat_model, retriever=disagreeing), settings=to_tool)
    agent: Any = create_agent(chat_model, [tool], context_schema=Settings)
    result = agent.invoke(ASKED, context=None if to_tool else settings)
    answers = [
        message.artifact for message in result["messages"] if isinstance(message, ToolMessage)
    ]
    assert [(answer["route"], len(answer["citations"])) for answer in answers] == [
        ("vanilla", 3)
    ] * 2


class Brief(Settings):
    """Settings with defaults of their own."""

    top_k: int = 3
    route: Any = "vanilla"


def test_a_graphs_own_defaults_hold_wherever_no_settings_are_given(
    chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    brief = build_graph(model=chat_model, retriever=disagreeing, settings=Brief)
    asked: Any = {"question": QUESTION}
    outer: Any = StateGraph(Case)
    outer.add_node("literature", brief).add_edge(START, "literature")
    told = briefcontext_tool(brief).invoke(_call(asked))
    for answer in (
        brief.invoke(asked)["answer"],
        outer.compile().invoke(asked)["answer"],
        told.artifact,
    ):
        assert (answer["route"], len(answer["documents"])) == ("vanilla", 3)
    told = briefcontext_tool(brief, settings={"partition_size": 2}).invoke(_call(asked))
    assert (told.artifact["route"], len(told.artifact["documents"])) == ("vanilla", 3)


@pytest.fixture
def dated(tmp_path: Path) -> Iterator[KnowledgeBase]:
    build(
        tmp_path,
        source(
            "a",
            *(record(str(year), "Aspirin and stroke.", year=year) for year in range(2000, 2020)),
        ),
    )
    with KnowledgeBase.open(tmp_path, encoder=HashingEncoder()) as opened:
        yield opened


@pytest.mark.parametrize("given", ["to the tool", "as the agent's context"])
def test_filters_of_a_call_take_the_place_of_the_settings(given: str, dated: KnowledgeBase) -> None:
    settings = Settings(route="vanilla", top_k=3, years="2018-")  # type: ignore[arg-type]
    to_tool = settings if given == "to the tool" else None
    graph = build_graph(reader=PassageReader(), retriever=DenseRetriever(knowledge_base=dated))
    tool = briefcontext_tool(graph, settings=to_tool)

    def asked(**arguments: Any) -> set[int]:
        call = AIMessage(
            "", tool_calls=[_call({"question": "Does aspirin help in stroke?", **arguments})]
        )
        node: Any = StateGraph(MessagesState, context_schema=Settings)
        node.add_node("tools", ToolNode([tool])).add_edge(START, "tools")
        result = node.compile().invoke({"messages": [call]}, context=None if to_tool else settings)
        return {
            int(citation["source_id"]) for citation in result["messages"][-1].artifact["citations"]
        }

    assert set() < asked() <= {2018, 2019}
    assert set() < asked(filters={"years": "2003-2005"}) <= {2003, 2004, 2005}


def test_filters_that_cannot_be_used_are_told_to_the_model(tool: BaseTool) -> None:
    message = tool.invoke(_call({"question": QUESTION, "filters": {"years": "long ago"}}))
    assert (message.status, "years" in message.content) == ("error", True)
    message = tool.invoke(_call({"question": QUESTION, "filters": {"authors": ["Smith"]}}))
    assert (message.status, "filters.authors" in message.content) == ("error", True)


def test_a_retriever_is_a_tool_whose_text_can_be_cited() -> None:
    prompt = PromptTemplate.from_template("{source_id}: {title}\n{page_content}")
    tool = create_retriever_tool(
        DenseRetriever(knowledge_base="demo", k=2),
        "search_passages",
        "Finds passages of medical literature.",
        document_prompt=prompt,
        response_format="content_and_artifact",
    )
    question = "Which drug is first choice for type 2 diabetes?"
    message = tool.invoke(
        {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": question}}
    )
    assert len(message.artifact) == 2
    for document in message.artifact:
        assert (
            f"{document.metadata['source_id']}: {document.metadata['title']}\n{document.page_content}"
            in message.content
        )


class Case(TypedDict, total=False):
    """The state of somebody else's graph; none of its keys but two is known here."""

    patient: str
    question: str
    answer: Any
    letter: str


class Desk(TypedDict):
    """Somebody else's context."""

    desk: str


def _write(case: Case) -> Case:
    return {"letter": f"{case['patient']}: {case['answer']['text']}"}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("context", [None, {"desk": "three"}])
async def test_the_graph_is_a_node_of_somebody_elses(
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


async def test_a_node_with_keys_of_its_own_calls_the_graph(
    chat_model: ChatOpenAI, disagreeing: FixedRetriever
) -> None:
    inner = build_graph(model=chat_model, retriever=disagreeing)

    class Ward(TypedDict, total=False):
        worry: str
        read: Any

    async def read(state: Ward) -> Ward:
        given: Any = {"question": state["worry"]}
        return {"read": (await inner.ainvoke(given, context=Settings(route="vanilla")))["answer"]}

    builder: Any = StateGraph(Ward)
    builder.add_node("read", read)
    builder.add_edge(START, "read").add_edge("read", END)
    outer = builder.compile()
    modes: Any = ["custom", "messages", "values"]
    parts = [
        part async for part in outer.astream({"worry": QUESTION}, stream_mode=modes, subgraphs=True)
    ]
    events = [part["event"] for _, mode, part in parts if mode == "custom"]
    tokens = AnswerTokens()
    streamed = "".join(
        token["text"]
        for _, mode, part in parts
        if mode == "messages"
        for token in tokens.read(part)
    )
    assert events == [
        "retrieved",
        "route_decided",
        "answering",
        "verifying",
        "verified",
        "answered",
    ]
    final = [part for namespace, mode, part in parts if mode == "values" and not namespace][-1]
    assert set(final) == {"worry", "read"}
    assert final["read"]["route"] == "vanilla"
    assert streamed.startswith("Point holds [")
