"""The pages of the documentation, their snippets, and the scripted model that they use."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.openai_server import Call, OpenAIServer, Reply, faithful, serve, verdict

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUESTION = "When does dexamethasone help people with COVID-19?"
_KEY = re.compile(r'<document key="(\w+)">[^<]*Corticosteroids for severe COVID-19')


def scripted_answer(call: Call) -> Reply:
    """Answer QUESTION: one sentence is right, one gives a dose, and one cites nothing.

    An agent's model first calls its tool, and a follow-up is rewritten.
    """
    if "tools" in call.body and call.body["messages"][-1]["role"] == "user":
        parameters = call.body["tools"][0]["function"]["parameters"]
        return Reply(arguments=json.dumps({next(iter(parameters["properties"])): QUESTION}))
    if call.stage == "answer" and not call.documents:
        return Reply("Is methotrexate safe in pregnancy?")
    match = _KEY.search(call.prompt)
    if match is None or call.stage == "extract":
        return faithful(call)
    key = match[1]
    return Reply(
        "Dexamethasone reduces deaths in people with COVID-19 who need oxygen or ventilation "
        f"[{key}]. The usual dose is 6 mg once daily for 10 days [{key}]. "
        "Most patients tolerate it well.\n"
        f'Quotes:\n[{key}] "Dexamethasone reduces deaths in people with COVID-19 who need '
        'supplementary oxygen or ventilation"'
    )


def scripted_verdicts(call: Call) -> Reply:
    """Find every sentence supported but the one with the dose."""
    numbers = range(1, call.user.count("<sentence ") + 1)
    verdicts = [verdict(number, "supported") for number in numbers]
    if "6 mg once daily" in call.user:
        verdicts[1] = verdict(2, "not_stated", "the passage gives no dose")
    return Reply(json.dumps({"verdicts": verdicts}))


@contextmanager
def scripted_model(setenv: Callable[[str, str], None]) -> Iterator[OpenAIServer]:
    """Serve a model that gives `scripted_answer`, and point OpenAI's client at it by `setenv`."""
    with serve() as server:
        server.script, server.verify = scripted_answer, scripted_verdicts
        setenv("OPENAI_API_KEY", "none")
        setenv("OPENAI_BASE_URL", server.url)
        yield server
