"""Multiple choice where models choose nothing: that is said, and no letter is made of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from starlette.testclient import TestClient

from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.plain_text import answer_text
from briefcontext.evaluation.runs.run import Run
from briefcontext.evaluation.runs.settings import RunSettings
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.page.app import create_app
from tests.conftest import FixedRetriever, make_documents
from tests.notes import kinds, messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful
from tests.questions import build_corpus, open_corpus, question

QUESTION = "Is metformin safe in severe kidney failure?"
OPTIONS = {"A": "yes", "B": "no"}
NO_CHOICES = [
    "N/A",
    "none",
    "null",
    "unknown",
    "cannot be determined",
    "insufficient evidence",
    "-",
    "—",
    "A/B",
]
SETTINGS = Settings(route="map_reduce", max_retries=0)


def _ask(
    chat: ChatOpenAI,
    server: OpenAIServer,
    choice: str | None,
    reply: str,
    settings: Settings = SETTINGS,
    *,
    forced: bool = False,
) -> dict[str, Any]:
    """Ask with partitions that all reply with one choice, and an answer that ends on `reply`."""

    def script(call: Call) -> Reply:
        found = faithful(call)
        if call.stage == "extract":
            return Reply(json.dumps({**json.loads(found.content), "choice": choice}))
        body, heading, quotes = found.content.partition("\nQuotes:")
        return Reply(f"{body}\n{reply}{heading}{quotes}")

    server.script = script
    reader = LLMReader(chat, force_choice=forced)
    built = build_graph(
        reader=reader, retriever=FixedRetriever(documents=make_documents(8, about=0))
    )
    asked: Any = {"question": QUESTION, "options": OPTIONS}
    answer: dict[str, Any] = built.invoke(asked, context=settings)["answer"]
    return answer


@pytest.mark.parametrize("words", NO_CHOICES)
@pytest.mark.parametrize("form", ["{}", "Choice: {}", '{{"choice": "{}"}}', "\\boxed{{{}}}"])
def test_replies_that_there_is_no_choice_choose_nothing(
    words: str, form: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    answer = _ask(
        chat_model, server, words, form.format(words), Settings(route="map_reduce", max_retries=0)
    )
    assert [extraction["choice"] for extraction in answer["extractions"]] == [None, None]
    assert answer["choice"] is None
    assert messages(answer, "no_choice") == ["The answer chooses no option."]


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
@pytest.mark.parametrize("beginning", ["Not answered:", "**Not answered:**", "NO ANSWER:"])
def test_a_forced_choice_that_the_answer_itself_calls_unsupported_is_marked(
    beginning: str, route: Any, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        faithful(call)
        if call.stage == "extract"
        else Reply(f"{beginning} kidneys were not studied.\nChoice: B")
    )
    reader = LLMReader(chat_model, force_choice=True)
    built = build_graph(
        reader=reader, retriever=FixedRetriever(documents=make_documents(8, about=0))
    )
    app = create_app(SETTINGS.model_copy(update={"route": route}), graph=built)
    told = TestClient(app, client=("127.0.0.1", 1), base_url="http://127.0.0.1").post(
        "/api/ask", json={"question": QUESTION, "options": OPTIONS}
    )
    answer = json.loads(told.text.splitlines()[-1])["answer"]
    assert answer["choice"] == "B"
    assert "choice_unsupported" in kinds(answer, "caution")
    assert answer_text(answer).startswith("Check:")


REPLIES = [
    ("The answer is yes.\nChoice: B", "B"),
    ("It is so.\nConflict: one says that the answer is yes.\nChoice: B", "B"),
    ("It is so.\nConflict: one says that the answer is yes.", None),
    ('It could be A or C.\n{"answer_choice": "B"}', "B"),
    ("Choice: <B>", "B"),
    ("Choice: A\nNo:\nChoice: B", "B"),
    ("Choice: N/A", None),
]


@pytest.mark.parametrize(("reply", "choice"), REPLIES)
def test_graph_and_experiments_read_one_reply_alike(
    reply: str, choice: str | None, chat_model: ChatOpenAI, server: OpenAIServer, tmp_path: Path
) -> None:
    answer = _ask(chat_model, server, None, reply, Settings(route="vanilla", max_retries=0))
    assert answer["choice"] == choice

    server.script = lambda call: Reply(reply)
    build_corpus(tmp_path / "corpus", 1)
    asked = {"id": "q", "question": question(0), "options": OPTIONS, "answer": "B"}
    (tmp_path / "asked.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    settings = RunSettings(
        "integration",
        f"jsonl:{tmp_path / 'asked.jsonl'}",
        model=chat_model,
        knowledge_base=open_corpus(str(tmp_path / "corpus")),
        methods=("vanilla", "closed_book"),
        ks=(4,),
        figures=False,
        progress=False,
    )
    Run(settings).execute(tmp_path / "run")
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "items.jsonl").read_text().splitlines()
    ]
    assert [row["choice"] for row in rows] == [choice, choice]
