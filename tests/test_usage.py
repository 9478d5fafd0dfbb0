"""What an answer used and cost, beside what vanilla would have."""

from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.chains.model.usage import ModelCall, summarise
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import OpenAIServer, Reply, faithful

ASKED: Any = {"question": QUESTION}


def a_call(**fields: Any) -> ModelCall:
    """Make a call that went well."""
    usual = {
        "stage": "extract",
        "model": "m",
        "status": "ok",
        "attempt": 1,
        "input_characters": 400,
    }
    tokens = {
        "input_tokens": 100,
        "cached_input_tokens": 0,
        "output_tokens": 10,
        "started": 1.0,
        "ended": 2.0,
    }
    return ModelCall(**{**usual, **tokens, **fields})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("calls", "retries"),
    [
        ([], 0),
        ([a_call()], 0),
        ([a_call(status="failed"), a_call(attempt=2, status="failed"), a_call(attempt=3)], 2),
        ([a_call(status="failed"), a_call(attempt=2, status="cached")], 0),
    ],
)
def test_a_retry_is_a_further_attempt_that_went_out(calls: list[ModelCall], retries: int) -> None:
    usage = summarise(calls, seconds=0)
    assert usage["retries"] == retries
    assert sum(part["retries"] for part in usage["stages"].values()) == retries


def test_the_map_is_set_beside_what_vanilla_really_uses(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    built = build_graph(model=chat_model, retriever=disagreeing)
    mapped, vanilla = (
        built.invoke(ASKED, context=Settings(route=route, verify=False))["answer"]["usage"]
        for route in ("map_reduce", "vanilla")
    )
    assert mapped["vanilla_input_tokens"] == pytest.approx(vanilla["input_tokens"], rel=0.02)
    assert mapped["vanilla_output_tokens"] == pytest.approx(vanilla["output_tokens"], rel=0.1)
    assert mapped["output_ratio"] == mapped["output_tokens"] / mapped["vanilla_output_tokens"]
    assert vanilla["vanilla_output_tokens"] == vanilla["output_tokens"]
    assert vanilla["input_ratio"] == pytest.approx(1, rel=0.02)


def test_what_was_never_written_is_not_estimated(
    chat_model: ChatOpenAI, server: OpenAIServer, disagreeing: FixedRetriever
) -> None:
    server.script = lambda call: (
        Reply('{"relevant": false}') if call.stage == "extract" else faithful(call)
    )
    usage = build_graph(model=chat_model, retriever=disagreeing).invoke(ASKED)["answer"]["usage"]
    assert usage["vanilla_input_tokens"] > 0
    assert (usage["vanilla_output_tokens"], usage["output_ratio"]) == (None, None)


def test_the_verification_is_left_out_of_the_ratios() -> None:
    calls = [a_call(), a_call(stage="verify")]
    usage = summarise(calls, seconds=0, vanilla_input_tokens=50, vanilla_output_tokens=10)
    assert (usage["input_tokens"], usage["input_ratio"], usage["output_ratio"]) == (200, 2.0, 1.0)
