"""What a provider refuses for good: one who asks, so that asking stops, or what was sent, which is that one call."""

import itertools
import json
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.errors import ModelSetupError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

ASKED: Any = {"question": QUESTION}

_names = (f"refused-{number}" for number in itertools.count())


@pytest.fixture
def built(server: OpenAIServer, disagreeing: FixedRetriever) -> Any:
    """A graph with a model of a name of its own."""
    chat = ChatOpenAI(model=next(_names), base_url=server.url, api_key="none", max_retries=0)
    return build_graph(model=chat, retriever=disagreeing)


def refusal(http: int, /, **error: Any) -> Reply:
    """Refuse in the form of OpenAI's errors, which others share."""
    return Reply(raw=json.dumps({"error": {"param": None, **error}}).encode(), status=http)


ABOUT_WHO_ASKS = {
    "OpenAI, place": refusal(
        403,
        message="Country, region, or territory not supported",
        type="request_forbidden",
        code="unsupported_country_region_territory",
    ),
    "OpenAI, model": refusal(
        403, message="Project p does not have access to model m", code="model_not_found"
    ),
    "Anthropic": refusal(403, type="permission_error", message="Request not allowed"),
    "Gemini": refusal(
        403, code=403, status="PERMISSION_DENIED", message="The caller has no rights"
    ),
    "a key": refusal(403, message="Invalid API key", type="forbidden"),
}
ABOUT_WHAT_WAS_SENT = {
    "OpenRouter": refusal(
        403,
        code=403,
        message="Your chosen model requires moderation and your input was flagged",
        metadata={
            "reasons": ["violence"],
            "flagged_input": "no permission to access the project's key",
        },
    ),
    "a policy": refusal(
        403, message="Access to this content is not allowed by our content policy", type="forbidden"
    ),
    "no reason": refusal(403, message="Forbidden"),
}
OUT_OF_QUOTA = {
    "OpenAI": refusal(
        429,
        message="You exceeded your current quota, please check your plan and billing details.",
        type="insufficient_quota",
        code="insufficient_quota",
    ),
    "OpenAI, prepaid": refusal(
        429, message="No credit.", type="billing", code="credit_balance_exhausted"
    ),
    "OpenRouter": refusal(402, message="Insufficient credits.", code=402),
}


@pytest.mark.parametrize("case", ABOUT_WHO_ASKS)
def test_a_refusal_of_the_one_who_asks_ends_the_question(
    case: str, built: Any, server: OpenAIServer
) -> None:
    server.script = lambda call: ABOUT_WHO_ASKS[case]
    with pytest.raises(ModelSetupError, match=r"refuses the call.*Check the model's name, its key"):
        built.invoke(ASKED, context=Settings(route="vanilla"))
    assert len(server.calls) == 1


@pytest.mark.parametrize("case", ABOUT_WHAT_WAS_SENT)
def test_a_refusal_of_what_was_sent_is_one_partition_that_was_not_read(
    case: str, built: Any, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        ABOUT_WHAT_WAS_SENT[case] if "Vitamin number 5 " in call.prompt else faithful(call)
    )
    answer = built.invoke(ASKED)["answer"]
    assert [extraction["status"] for extraction in answer["extractions"]] == [
        "evidence",
        "failed",
    ] + ["evidence"] * 2
    assert messages(answer, "partition_failed")[0].startswith(
        "Partition 2 was not read (doc-4, doc-5, doc-6, doc-7)"
    )
    assert sum("Vitamin number 5 " in call.prompt for call in server.calls) == 1


@pytest.mark.parametrize("case", OUT_OF_QUOTA)
def test_without_quota_nothing_is_tried_again(case: str, built: Any, server: OpenAIServer) -> None:
    server.script = lambda call: OUT_OF_QUOTA[case]
    with pytest.raises(
        ModelSetupError, match=r"no credit left.*Check its plan and billing"
    ) as caught:
        built.invoke(ASKED, context=Settings(route="vanilla", max_retries=3))
    assert "\n" not in str(caught.value)
    assert len(server.calls) == 1


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_a_models_own_refusal_is_its_reply(route: Any, built: Any, server: OpenAIServer) -> None:
    """OpenAI has a field for it, beside a content that is null."""
    server.script = lambda call: Reply(refusal="I'm sorry, I cannot help with that request.")
    answer = built.invoke(ASKED, context=Settings(route=route))["answer"]
    assert answer["abstained"]
    assert answer["text"] == "I'm sorry, I cannot help with that request."
    assert answer["usage"]["retries"] == 0


def test_a_limit_per_minute_in_the_words_of_a_quota_is_waited_for(
    built: Any, server: OpenAIServer
) -> None:
    words = "You exceeded your current quota, please check your plan and billing details."

    def script(call: Call) -> Reply:
        return (
            refusal(429, message=words, status="RESOURCE_EXHAUSTED")
            if call.number < 2
            else faithful(call)
        )

    server.script = script
    answer = built.invoke(ASKED, context=Settings(route="vanilla"))["answer"]
    assert answer["usage"]["retries"] == 2
    assert answer["citations"]
