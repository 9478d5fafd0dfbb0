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
from tests.openai_server import OpenAIServer, Reply, faithful

ASKED: Any = {"question": QUESTION}

_names = (f"refused-{number}" for number in itertools.count())


@pytest.fixture
def built(server: OpenAIServer, disagreeing: FixedRetriever) -> Any:
    """A graph with a model of a name of its own."""
    chat = ChatOpenAI(model=next(_names), base_url=server.url, api_key="none", max_retries=0)
    return build_graph(model=chat, retriever=disagreeing)


def refusal(status: int) -> Reply:
    """Refuse in the form of OpenAI's errors, which others share."""
    return Reply(raw=json.dumps({"error": {"message": "Not today."}}).encode(), status=status)


@pytest.mark.parametrize("status", [401, 402, 404])
def test_a_refused_account_or_model_ends_the_question(
    status: int, built: Any, server: OpenAIServer
) -> None:
    server.script = lambda call: refusal(status)
    with pytest.raises(ModelSetupError, match=r"Not today\..*Check the model's name, its key"):
        built.invoke(ASKED, context=Settings(route="vanilla"))
    assert len(server.calls) == 1


@pytest.mark.parametrize("status", [403, 451])
def test_a_refused_request_is_one_partition_that_was_not_read(
    status: int, built: Any, server: OpenAIServer
) -> None:
    server.script = lambda call: (
        refusal(status) if "Vitamin number 5 " in call.prompt else faithful(call)
    )
    answer = built.invoke(ASKED)["answer"]
    statuses = [extraction["status"] for extraction in answer["extractions"]]
    assert statuses == ["evidence", "failed", "evidence", "evidence"]
    (warning,) = messages(answer, "partition_failed")
    assert "doc-4, doc-5, doc-6, doc-7" in warning
    assert "Not today." in warning
    assert sum("Vitamin number 5 " in call.prompt for call in server.calls) == 1


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_a_models_own_refusal_is_its_reply(route: Any, built: Any, server: OpenAIServer) -> None:
    """OpenAI has a field for it, beside a content that is null."""
    server.script = lambda call: Reply(refusal="I'm sorry, I cannot help with that request.")
    answer = built.invoke(ASKED, context=Settings(route=route))["answer"]
    assert answer["abstained"]
    assert answer["text"] == "I'm sorry, I cannot help with that request."
    assert answer["usage"]["retries"] == 0
