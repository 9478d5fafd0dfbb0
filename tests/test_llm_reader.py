"""What the model's replies become."""

import json

import pytest
from langchain_openai import ChatOpenAI

from briefcontext.chains.citation import assign_keys, document_key
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import Question, check_question
from briefcontext.errors import MissingExtraError, ModelSetupError
from tests.conftest import QUESTION, make_documents
from tests.notes import messages
from tests.openai_server import OpenAIServer, Reply

ASKED: Question = check_question(QUESTION)
CHOICE: Question = check_question(QUESTION, {"A": "yes", "B": "no"})
DOCUMENTS = assign_keys(QUESTION, make_documents(4, about=0))
KEYS = [document_key(document) for document in DOCUMENTS]
WORDS = "Aspirin does lower the risk of stroke in group 0"


@pytest.fixture
def budget() -> CallBudget:
    """A budget that loses no time between retries."""
    return CallBudget(retry_wait=0)


def _says(server: OpenAIServer, *contents: str) -> None:
    """Reply with these contents, one a call; the last is repeated."""
    server.script = lambda call: Reply(contents[min(call.number, len(contents) - 1)])


def _record(**fields: object) -> str:
    quotes = [{"key": KEYS[0], "quote": WORDS}]
    return json.dumps(
        {"relevant": True, "quotes": quotes, "finding": "It does.", "confidence": 0.9, **fields}
    )


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "```json\n{}\n```",
        "{}\n\nLet me know if you need more!",
        "The documents {1, 2} of [4] bear on it [7K3W]. {}",
        "[{}]",
        '{"extraction": {}}',
    ],
)
def test_a_record_is_read_in_every_usual_wrapping(
    form: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, form.replace("{}", _record()))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 2, budget))
    assert extraction["status"] == "evidence"
    assert extraction["index"] == 2
    assert extraction["finding"] == "It does."
    assert extraction["confidence"] == 0.9
    assert [(quote["text"], quote["document_id"]) for quote in extraction["quotes"]] == [
        (WORDS, "doc-0")
    ]
    assert len(budget.calls) == 1


def test_invented_quotes_are_dropped_and_reported(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    quotes = [
        {"key": KEYS[0], "quote": WORDS},
        {"key": KEYS[1], "quote": "Aspirin cures everything at once"},
    ]
    _says(server, _record(quotes=quotes))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [quote["text"] for quote in extraction["quotes"]] == [WORDS]
    assert extraction["error"] is not None
    assert extraction["error"].startswith("1 of 2 quotes")


def test_an_extraction_of_invented_quotes_is_not_used(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, _record(quotes=[{"key": KEYS[1], "quote": "Aspirin cures everything at once"}]))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert (extraction["status"], extraction["finding"], extraction["quotes"]) == ("none", "", [])
    assert "Nothing of this reading is used" in (extraction["error"] or "")


@pytest.mark.parametrize(
    "malformed",
    [
        f"{_record()}\n{_record(finding='It does not.')}",
        f"[{_record()}, {_record(relevant=False)}]",
        _record()[:-1],
        _record().replace('"finding"', "finding"),
        _record()[:-1] + ",}",
        '{"relevant": true, "quotes": [' + "[" * 20_000,
    ],
    ids=[
        "two",
        "a list of two",
        "without an end",
        "no JSON",
        "a comma too many",
        "too deep",
    ],
)
def test_json_that_is_not_one_whole_record_is_not_read_in_part(
    malformed: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, malformed, _record(finding="It surely does."))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert (extraction["finding"], len(budget.calls)) == ("It surely does.", 2)


def test_a_direct_answer_gives_text_choice_and_grounded_quotes(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(
        server,
        f'It lowers it [{KEYS[0]}].\nChoice: A\nQuotes:\n[{KEYS[0]}] "{WORDS}"\n[{KEYS[1]}] "Never '
        f'written."',
    )
    draft = wait_for(LLMReader(chat_model).aanswer(CHOICE, DOCUMENTS, "vanilla", budget))
    assert draft["text"] == f"It lowers it [{KEYS[0]}]."
    assert draft["choice"] == "A"
    assert [quote["text"] for quote in draft["quotes"]] == [WORDS]
    assert messages(draft, "quote_not_found") == [
        "1 of 2 quotes are not in the documents and were dropped."
    ]


def test_quotes_of_a_reply_that_stays_malformed_are_kept(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, f"The first document says: “{WORDS}”.")
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [quote["text"] for quote in extraction["quotes"]] == [WORDS]
    assert (extraction["status"], extraction["finding"]) == ("evidence", "")


@pytest.mark.parametrize(
    "reply", ["NO ANSWER: they are about vitamins.", "**No answer**: they are about vitamins."]
)
def test_a_refusal_to_answer_is_an_abstention_with_its_reason(
    reply: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, reply)
    draft = wait_for(LLMReader(chat_model).aanswer(CHOICE, DOCUMENTS, "vanilla", budget))
    assert draft["abstained"]
    assert draft["text"] == "they are about vitamins."
    assert draft["choice"] is None


@pytest.mark.parametrize(
    ("name", "error", "advice"),
    [
        ("gpt-4o", ModelSetupError, "provider:model"),
        ("openai:gpt-4o", ModelSetupError, "OPENAI_API_KEY"),
        ("groq:llama-3.1-8b", MissingExtraError, "langchain-groq"),
    ],
)
def test_a_model_that_cannot_be_opened_is_one_clear_error(
    name: str, error: type[Exception], advice: str
) -> None:
    with pytest.raises(error, match=advice) as caught:
        LLMReader(name)
    assert "\n" not in str(caught.value)
