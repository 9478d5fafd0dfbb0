"""The answer's tokens, streamed as they come."""

import asyncio
import io
import json
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from rich.console import Console

from briefcontext.commands.progress import ProgressLines
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import Call, OpenAIServer, Reply, faithful

ROUTES: list[Any] = ["map_reduce", "vanilla", "order_preserving"]
WORDS = "Aspirin helps, it seems."


@pytest.fixture(params=[False, True], ids=["stream", "astream"])
def run(request: pytest.FixtureRequest) -> Any:
    """Stream a run; return its events and tokens, the text of its messages, and its answer."""

    def run(built: Any, **settings: Any) -> tuple[list[Any], str, Any]:
        given = {"question": QUESTION}
        arguments: Any = {
            "context": Settings(**settings),
            "stream_mode": ["custom", "messages", "values"],
        }

        async def collect() -> list[Any]:
            return [part async for part in built.astream(given, **arguments)]

        parts = asyncio.run(collect()) if request.param else list(built.stream(given, **arguments))
        by_mode: dict[str, list[Any]] = {
            mode: [p for m, p in parts if m == mode] for mode in arguments["stream_mode"]
        }
        words = "".join(message.text for message, _ in by_mode["messages"])
        answer_tokens = AnswerTokens()
        events: list[Any] = []
        for mode, part in parts:
            events += (
                answer_tokens.read(part)
                if mode == "messages"
                else [part]
                if mode == "custom"
                else []
            )
        return events, words, by_mode["values"][-1]["answer"]

    return run


def tokens(events: list[Any], attempt: int = 1) -> list[str]:
    """Return the pieces of one attempt."""
    return [
        event["text"]
        for event in events
        if event["event"] == "answer_token" and event["attempt"] == attempt
    ]


def answering(call: Call, words: str = WORDS) -> Reply:
    """Answer in these words, and extract as usual."""
    return faithful(call) if call.stage == "extract" else Reply(words)


def is_answer(call: Call) -> bool:
    return call.stage != "extract"


@pytest.mark.parametrize("route", ROUTES)
def test_tokens_come_between_the_beginning_of_the_answer_and_its_end(
    route: str, run: Any, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = answering
    events, words, answer = run(build_graph(model=chat_model, retriever=disagreeing), route=route)
    assert tokens(events) == ["Aspirin ", "helps, ", "it ", "seems."]
    assert words == WORDS
    names = [event["event"] for event in events]
    begun = names.index("reducing" if route == "map_reduce" else "answering")
    assert names[begun + 1 :] == ["answer_token"] * 4 + ["answered"]
    assert answer["text"] == WORDS
    assert answer["usage"]["input_tokens"] == sum(
        len(call.prompt) // 4 for call in server.all_calls
    )
    assert answer["usage"]["output_tokens"] > 0


def test_a_further_attempt_begins_the_answer_anew(
    run: Any, chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    half = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    choice = {"index": 0, "delta": {"role": "assistant", "content": "Aspi"}, "finish_reason": None}
    broken = f"data: {json.dumps({**half, 'choices': [choice]})}\n\ndata: {{\n\n".encode()

    def script(call: Call) -> Reply:
        first = sum(map(is_answer, server.calls)) == 1
        return Reply(raw=broken) if is_answer(call) and first else answering(call)

    server.script = script
    events, _, answer = run(build_graph(model=chat_model, retriever=disagreeing), route="vanilla")
    assert (tokens(events, 1), "".join(tokens(events, 2))) == (["Aspi"], WORDS)
    assert answer["text"] == WORDS
    assert (answer["usage"]["calls"], answer["usage"]["retries"]) == (2, 1)


def test_a_provider_without_streaming_sends_one_piece(
    run: Any, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    chat = ChatOpenAI(model="whole", base_url=server.url, api_key="none", max_retries=0)
    server.script = lambda call: (
        Reply("no streams here", status=400) if call.body.get("stream") else answering(call)
    )
    built = build_graph(model=chat, retriever=disagreeing)
    pieces = [tokens(run(built, route="vanilla")[0]) for _ in range(2)]
    assert pieces == [[WORDS], [WORDS]]
    assert [bool(call.body.get("stream")) for call in server.calls] == [True, False, False]


@pytest.fixture
def terminal() -> ProgressLines:
    """Progress on a terminal that is a string."""
    return ProgressLines(
        Console(file=io.StringIO(), force_terminal=True, width=80, height=24, highlight=False)
    )


def shown(lines: ProgressLines) -> str:
    """Return what went to the terminal."""
    file = lines.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_terminal_shows_tokens_without_control_characters(terminal: ProgressLines) -> None:
    with terminal:
        for attempt, text in [
            (1, "Lost "),
            (2, "Aspirin "),
            (2, "[red]helps\x1b]0;"),
            (2, "it seems"),
        ]:
            terminal.show({"event": "answer_token", "text": text, "attempt": attempt})
            terminal.show(
                {"event": "retrieved", "documents": 3}
            )  # A line above the answer has it drawn again.
    output = shown(terminal)
    assert "Lost" in output
    assert "Aspirin [red]helps\\u001b]0;it seems" in output
    assert "Lost Aspirin" not in output
    assert "\x1b]0;" not in output
