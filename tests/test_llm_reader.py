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
        "Here it is:\n```\n{}\n```\nDone.",
        "Here is the JSON object:\n{}",
        "{}\n\nLet me know if you need more!",
        "The documents {1, 2} of [4] bear on it [7K3W]. {}",
        "[{}]",
        "Sure:\n[\n  {}\n]",
        '{"extraction": {}}',
        "```json\n[{}]",
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


@pytest.mark.parametrize(
    "record",
    ['{"relevant": false}', '{"relevant": false, "quotes": null}', _record(relevant=False)],
)
def test_nothing_relevant_is_said_as_such(
    record: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, record)
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert (extraction["status"], extraction["quotes"], extraction["finding"]) == ("none", [], "")


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


def test_a_reading_whose_quotes_are_all_invented_is_not_used(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, _record(quotes=[{"key": KEYS[1], "quote": "Aspirin cures everything at once"}]))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert (extraction["status"], extraction["finding"], extraction["quotes"]) == ("none", "", [])
    assert "Nothing of this reading is used" in (extraction["error"] or "")


def test_a_quote_of_a_title_is_kept_as_such(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    titled = [
        DOCUMENTS[0].model_copy(
            update={"metadata": {**DOCUMENTS[0].metadata, "title": "Stroke after aspirin"}}
        )
    ]
    _says(server, _record(quotes=[{"key": KEYS[0], "quote": "Stroke after aspirin"}]))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, titled, 0, budget))
    assert [(quote["text"], quote["start"], quote["match"]) for quote in extraction["quotes"]] == [
        ("Stroke after aspirin", None, "title")
    ]
    assert extraction["error"] is None


def test_a_finding_without_a_quote_is_kept_and_reported(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, _record(quotes=[]))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert (extraction["status"], extraction["finding"]) == ("evidence", "It does.")
    assert "without a quote" in (extraction["error"] or "")


@pytest.mark.parametrize(
    ("given", "read"), [(0.5, 0.5), (85, 0.85), ("90%", 0.9), ("high", None), (-1, None)]
)
def test_a_confidence_in_another_form_costs_no_repair(
    given: object,
    read: float | None,
    chat_model: ChatOpenAI,
    server: OpenAIServer,
    budget: CallBudget,
) -> None:
    _says(server, _record(confidence=given))
    assert (
        wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))["confidence"] == read
    )
    assert len(budget.calls) == 1


@pytest.mark.parametrize("key", [KEYS[1], "9Z9Z", "", f"[{KEYS[0]}]"])
def test_a_quote_is_attributed_to_the_document_that_has_it(
    key: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, _record(quotes=[{"key": key, "quote": WORDS}]))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [quote["document_id"] for quote in extraction["quotes"]] == ["doc-0"]


@pytest.mark.parametrize(
    "quotes",
    [[WORDS], [WORDS, {"key": KEYS[3], "quote": WORDS}], [{"quote": WORDS}]],
    ids=["bare words", "one with a key and one without", "no key"],
)
def test_quotes_without_keys_are_attributed_to_the_document_that_has_them(
    quotes: object, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, _record(quotes=quotes))
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [(quote["text"], quote["document_id"]) for quote in extraction["quotes"]] == [
        (WORDS, "doc-0")
    ]
    assert extraction["error"] is None
    assert len(budget.calls) == 1


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


@pytest.mark.parametrize(
    "malformed",
    ["no JSON here", '{"quotes": []}', '{"relevant": "perhaps"}', '{"relevant": true}', "[1]"],
)
def test_a_malformed_record_gets_one_repair_that_carries_the_error(
    malformed: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, malformed, _record())
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert extraction["status"] == "evidence"
    assert len(budget.calls) == 2
    assert "could not be read" in server.calls[1].user


def test_quotes_of_a_reply_that_stays_malformed_are_kept(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, f"The first document says: “{WORDS}”.")
    extraction = wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget))
    assert [quote["text"] for quote in extraction["quotes"]] == [WORDS]
    assert (extraction["status"], extraction["finding"]) == ("evidence", "")
    assert len(server.calls) == 2


async def test_text_that_stays_malformed_is_kept_as_an_ungrounded_finding(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, "Aspirin helps.")
    for extraction in (
        wait_for(LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget)),
        await LLMReader(chat_model).aextract(ASKED, DOCUMENTS, 0, budget),
    ):
        assert (extraction["status"], extraction["finding"], extraction["quotes"]) == (
            "evidence",
            "Aspirin helps.",
            [],
        )
        assert extraction["error"] is not None


def test_a_direct_answer_gives_text_choice_and_grounded_quotes(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(
        server,
        f'It lowers it [{KEYS[0]}].\nChoice: A\nQuotes:\n[{KEYS[0]}] "{WORDS}"\n[{KEYS[1]}] "Never written."',
    )
    draft = wait_for(LLMReader(chat_model).aanswer(CHOICE, DOCUMENTS, "vanilla", budget))
    assert draft["text"] == f"It lowers it [{KEYS[0]}]."
    assert draft["choice"] == "A"
    assert [quote["text"] for quote in draft["quotes"]] == [WORDS]
    assert messages(draft, "quote_not_found") == [
        "1 of 2 quotes are not in the documents and were dropped."
    ]


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


def test_a_bare_refusal_still_says_something(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, "NO ANSWER")
    draft = wait_for(LLMReader(chat_model).aanswer(ASKED, DOCUMENTS, "vanilla", budget))
    assert draft["abstained"]
    assert "no reason" in draft["text"]


def test_a_sentence_that_begins_like_a_refusal_is_an_answer(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, f"No answer to aspirin was seen [{KEYS[0]}].")
    draft = wait_for(LLMReader(chat_model).aanswer(ASKED, DOCUMENTS, "vanilla", budget))
    assert not draft["abstained"]
    assert draft["text"].startswith("No answer to aspirin")


def test_quotes_on_the_line_of_their_heading_are_looked_up_too(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, f'It does [{KEYS[0]}].\nQuotes: [{KEYS[0]}] "{WORDS}"')
    draft = wait_for(LLMReader(chat_model).aanswer(ASKED, DOCUMENTS, "vanilla", budget))
    assert draft["text"] == f"It does [{KEYS[0]}]."
    assert [quote["text"] for quote in draft["quotes"]] == [WORDS]


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("The answer is B, one says.\nChoice: A", "A"),
        (
            "It helps.\nConflict: one says the answer is A, another that B is correct.\nChoice: A",
            "A",
        ),
        ("It helps.\n**Choice:** A\nConflict: one says the answer is B.", "A"),
        ("It helps.\nChoice:\nB", "B"),
        ("It helps.\nConflict: one says that B is correct.", None),
        ("It helps.\nChoice: A\nChoice: B", "B"),
        ("It helps.\nChoice: A or B", None),
        ("The answer is A.", "A"),
    ],
)
def test_the_line_asked_for_is_the_choice_and_a_conflict_is_none(
    reply: str, choice: str | None, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, reply)
    assert (
        wait_for(LLMReader(chat_model).aanswer(CHOICE, DOCUMENTS, "vanilla", budget))["choice"]
        == choice
    )


def test_reducing_reads_evidence_only_from_partitions_that_have_some(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    _says(server, _record(), '{"relevant": false}', f"So it is [{KEYS[0]}].")
    reader = LLMReader(chat_model)
    extractions = [
        wait_for(reader.aextract(ASKED, DOCUMENTS[:2], 0, budget)),
        wait_for(reader.aextract(ASKED, DOCUMENTS[2:], 1, budget)),
    ]
    draft = wait_for(reader.areduce(ASKED, DOCUMENTS, extractions, budget))
    prompt = server.calls[-1].user
    assert f'[{KEYS[0]}] "{WORDS}"' in prompt
    assert prompt.count("<evidence reader=") == 1
    assert draft["quotes"] == extractions[0]["quotes"]


@pytest.mark.parametrize(
    ("name", "error", "advice"),
    [
        ("gpt-4o", ModelSetupError, "provider:model"),
        ("nobody:gpt-4o", ModelSetupError, "provider"),
        ("openai:gpt-4o", ModelSetupError, "OPENAI_API_KEY"),
        ("groq:llama-3.1-8b", MissingExtraError, "langchain-groq"),
        ("ollama:llama3.1", MissingExtraError, "pip install langchain-ollama"),
    ],
)
def test_a_model_that_cannot_be_opened_is_one_clear_error(
    name: str, error: type[Exception], advice: str
) -> None:
    with pytest.raises(error, match=advice) as caught:
        LLMReader(name)
    assert "\n" not in str(caught.value)
