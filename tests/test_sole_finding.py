"""`reduce: auto`: a single partition's finding is the answer where nothing has to be weighed, and says as much."""

import json
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import FixedRetriever, make_documents
from tests.openai_server import Call, OpenAIServer, Reply

QUESTION = "Does aspirin lower the risk of stroke?"
OPTIONS = {"A": "yes", "B": "no"}
FINDING = "Aspirin lowers the risk of stroke."
QUOTE = "Aspirin does lower the risk of stroke in group 0."
OTHER_QUOTE = "Vitamin number 1 was studied among healthy volunteers."
PARTITIONS = 4
NOT_WEIGHED = "A single partition has evidence, and its finding is the answer: no second call weighed it."


def _ask(
    chat: ChatOpenAI,
    server: OpenAIServer,
    *,
    quotes: tuple[str, ...] = (QUOTE,),
    others: Reply | None = None,
    options: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    **record: Any,
) -> dict[str, Any]:
    """Ask of 16 documents: the first partition replies with a record, the others with nothing unless with `others`."""

    def script(call: Call) -> Reply:
        if call.stage == "reduce":
            return Reply("It was weighed.\nChoice: B")
        keys = {text: key for key, words in call.documents for text in quotes if text in words}
        if not keys:
            return others or Reply('{"relevant": false}')
        given = [{"key": keys.get(text, ""), "quote": text} for text in quotes]
        return Reply(json.dumps({"relevant": True, "quotes": given, "finding": FINDING, "confidence": 0.9, **record}))

    server.script = script
    built = build_graph(reader=chat, retriever=FixedRetriever(documents=make_documents(16, about=0)))
    context = Settings(**{"route": "map_reduce", "reduce": "auto", "max_retries": 0, **(settings or {})})
    answer: dict[str, Any] = built.invoke({"question": QUESTION, "options": options}, context=context)["answer"]
    return answer


def test_a_sole_finding_is_the_answer_with_its_citation_and_no_further_call(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    answer = _ask(chat_model, server)
    assert answer["text"] == "Aspirin lowers the risk of stroke [1]."
    assert [(citation["source_id"], citation["quote"]) for citation in answer["citations"]] == [("src-0", QUOTE)]
    assert server.stages() == ["extract"] * PARTITIONS
    assert answer["usage"]["calls"] == PARTITIONS
    assert answer["usage"]["vanilla_output_tokens"] > 0
    assert (answer["cautions"], answer["doubts"]) == ([], [])
    assert answer["warnings"] == [NOT_WEIGHED]


@pytest.mark.parametrize(
    "asked",
    [
        {"settings": {"reduce": "always"}},
        {"finding": ""},
        {"finding": "It does. Bleeding is more frequent."},
        {"finding": "one sentence"},
        {"quotes": (QUOTE, "Nobody wrote this.")},
        {"quotes": (QUOTE, OTHER_QUOTE)},
        {"others": Reply('{"relevant": true, "quotes": [], "finding": "It does not."}')},
        {"others": Reply("It does not.")},
        {"options": OPTIONS},
        {"options": OPTIONS, "choice": "A", "settings": {"force_choice": True}},
    ],
)
def test_what_has_to_be_weighed_is_reduced(asked: dict[str, Any], chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    answer = _ask(chat_model, server, **asked)
    assert server.stages().count("reduce") == 1
    assert answer["text"] == "It was weighed."


def test_the_choice_is_that_of_the_finding(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    answer = _ask(chat_model, server, options=OPTIONS, choice="A")
    assert (answer["choice"], answer["text"]) == ("A", "Aspirin lowers the risk of stroke [1].")
    assert "reduce" not in server.stages()


def test_a_finding_that_its_source_does_not_support_is_doubted(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    answer = _ask(chat_model, server, finding="Aspirin lowers the risk of stroke by 40%.")
    assert answer["doubts"][0]["missing"] == ["40%"]
    assert answer["cautions"] == [
        "One sentence of the answer says what the cited documents do not (not in what it cites: 40%)."
    ]


def test_partitions_that_were_not_read_are_told(chat_model: ChatOpenAI, server: OpenAIServer) -> None:
    answer = _ask(chat_model, server, others=Reply(status=500))
    assert "reduce" not in server.stages()
    assert [caution.split(" (")[0] for caution in answer["cautions"]] == [
        f"Partition {number} was not read" for number in (2, 3, 4)
    ]
