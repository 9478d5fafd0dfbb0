"""Texts that exceed a model's input window: nothing is cut off, and nothing too long is sent."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.chains.citation import assign_keys
from briefcontext.chains.context import render_documents, split_to_fit
from briefcontext.chains.llm_reader import MAX_ROUNDS, LLMReader
from briefcontext.chains.model.call import CHARACTERS_PER_TOKEN
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import CUT_AT, Draft, Extraction, Quote
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from tests.conftest import QUESTION, FixedRetriever
from tests.notes import kinds, messages
from tests.openai_server import Call, OpenAIServer, Reply, Script, faithful

ASKED = check_question(QUESTION)
KEY = re.compile(r"\[(\w{4})\]")
WINDOW = 1200
"""Tokens; with the instructions, about 2,000 characters are left."""

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.sampled_from(
            [
                "Aspirin lowers the risk of stroke. ",
                "Dr. Lee et al. (vol. 3, p. 7) differ! ",
                "word " * 60,
                "x" * 300,
                " \n" * 150,
                "</document 2B2B>",
                "<|im_end|>[INST]<s>" * 12,
                "\u200b\ufeff" * 40,
                "Пятьсот больных. ",
                "二百人の患者。",
                "\r\n\x0b\x85",
            ]
        ),
    ),
    max_size=12,
).map("".join)
DOCUMENTS = st.lists(st.tuples(TEXTS, st.text(max_size=60)), min_size=1, max_size=6).map(
    lambda given: assign_keys(
        QUESTION,
        [
            Document(id=f"doc-{place}", page_content=text, metadata={"title": title})
            for place, (text, title) in enumerate(given)
        ],
    )
)


def words(documents: Sequence[Document]) -> str:
    """Return the text of documents without white space."""
    return "".join("".join(document.page_content.split()) for document in documents)


@given(documents=DOCUMENTS, room=st.integers(200, 2000))
def test_documents_are_split_without_loss_in_order_and_so_that_each_group_fits(
    documents: list[Document], room: int
) -> None:
    groups = split_to_fit(documents, room)
    assert all(group and len(render_documents(group)) <= room for group in groups)
    pieces = [piece for group in groups for piece in group]
    assert list(dict.fromkeys(piece.id for piece in pieces)) == [
        document.id for document in documents
    ]
    assert [piece.id for piece in pieces] == sorted(piece.id or "" for piece in pieces)
    for document in documents:
        its = [piece for piece in pieces if piece.id == document.id]
        assert words(its) == words([document])
        for piece in its:
            at = piece.metadata.get(CUT_AT, 0)
            assert document.page_content[at : at + len(piece.page_content)] == piece.page_content
            assert {**piece.metadata, CUT_AT: 0, "list_lines": ""} == {
                **document.metadata,
                CUT_AT: 0,
                "list_lines": "",
            }
        assert len(its) == 1 or len(render_documents([document])) > room


def refusing_more_than(window: int, script: Script) -> Script:
    """Be a model that refuses prompts that exceed its window."""

    def refuse(call: Call) -> Reply:
        if len(call.prompt) / CHARACTERS_PER_TOKEN > window:
            return Reply("context_length_exceeded", status=400)
        return script(call)

    return refuse


def condensing(call: Call) -> Reply:
    """Copy faithfully; of evidence, keep a sentence for each key."""
    if call.stage == "extract":
        return faithful(call)
    keys = dict.fromkeys(KEY.findall(call.user))
    return Reply(" ".join(f"So it is [{key}]." for key in keys))


@pytest.fixture
def budget() -> CallBudget:
    """A budget of a model with a small window."""
    return CallBudget(retry_wait=0, max_input_tokens=WINDOW)


def make_long_documents(count: int, *, sentences: int) -> list[Document]:
    """Make documents of which every sentence is another."""
    return assign_keys(
        QUESTION,
        [
            Document(
                id=f"doc-{place:02}",
                page_content=" ".join(
                    f"Trial {place}.{number} gave aspirin to {100 + number} adults."
                    for number in range(sentences)
                ),
                metadata={"title": f"Trials of stroke, series {place}"},
            )
            for place in range(count)
        ],
    )


def have_true_offsets(quotes: Sequence[Quote], documents: Sequence[Document]) -> bool:
    """Return True if the offsets of the quotes are right."""
    texts = {document.id: document.page_content for document in documents}
    return all(
        texts[quote["document_id"]][quote["start"] : quote["end"]] == quote["text"]
        for quote in quotes
    )


def ask(
    chat_model: ChatOpenAI,
    documents: list[Document],
    *,
    options: dict[str, str] | None = None,
    **settings: Any,
) -> Answer:
    """Ask the question over documents with a small window."""
    built = build_graph(model=chat_model, retriever=FixedRetriever(documents=documents))
    context = Settings(**{"max_input_tokens": WINDOW, "max_retries": 0, **settings})
    answer: Answer = built.invoke({"question": QUESTION, "options": options}, context=context)[
        "answer"
    ]
    return answer


def test_a_partition_larger_than_the_window_becomes_several_that_fit(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    server.script = refusing_more_than(WINDOW, condensing)
    documents = make_long_documents(2, sentences=200)
    answer = ask(chat_model, documents, route="map_reduce")
    parts = [call for call in server.calls if call.stage == "extract"]
    assert [extraction["index"] for extraction in answer["extractions"]] == list(range(len(parts)))
    assert {extraction["status"] for extraction in answer["extractions"]} == {"evidence"}
    quotes = [quote for extraction in answer["extractions"] for quote in extraction["quotes"]]
    assert len(quotes) >= len(parts) > 5
    assert have_true_offsets(quotes, documents)
    assert max(quote["start"] or 0 for quote in quotes) > 5000
    read = "".join(text for call in parts for _, text in call.documents)
    assert all(
        f"Trial {place}.{number} gave" in read for place in range(2) for number in range(200)
    )
    (pieces,) = messages(answer, "read_in_pieces")
    assert pieces.endswith(": doc-00, doc-01.")


def make_extractions(documents: Sequence[Document], *, quotes: int) -> list[Extraction]:
    """Make an extraction of each document that quotes its first sentences."""
    extractions = []
    for index, document in enumerate(documents):
        sentences = document.page_content.split(". ")
        found, start = [], 0
        for sentence in sentences[:quotes]:
            start = document.page_content.index(sentence, start)
            found.append(
                Quote(
                    text=sentence,
                    document_id=document.id or "",
                    start=start,
                    end=start + len(sentence),
                    match="exact",
                )
            )
        extractions.append(
            Extraction(
                index=index,
                document_ids=[document.id or ""],
                status="evidence",
                finding="It lowers it.",
                quotes=found,
                choice=None,
                confidence=0.5,
                error=None,
            )
        )
    return extractions


def condensations(server: OpenAIServer) -> int:
    """Count the calls that condensed evidence."""
    return sum("condense" in call.system for call in server.calls)


@pytest.mark.parametrize(
    ("count", "quotes", "least"), [(2, 3, 0), (3, 22, 1), (1, 60, 1), (60, 30, 2)]
)
async def test_evidence_larger_than_the_window_is_condensed_in_counted_rounds(
    count: int,
    quotes: int,
    least: int,
    chat_model: ChatOpenAI,
    server: OpenAIServer,
    budget: CallBudget,
) -> None:
    server.script = refusing_more_than(WINDOW, condensing)
    documents = make_long_documents(count, sentences=quotes)
    extractions = make_extractions(documents, quotes=quotes)
    reader = LLMReader(chat_model)
    for draft in (
        wait_for(reader.areduce(ASKED, documents, extractions, budget)),
        await reader.areduce(ASKED, documents, extractions, budget),
    ):
        rounds = said_rounds(draft)
        assert least <= rounds <= MAX_ROUNDS * least
        assert draft["quotes"] == [
            quote for extraction in extractions for quote in extraction["quotes"]
        ]
    assert {call["stage"] for call in budget.calls} == {"reduce"}
    assert (condensations(server) > 0) == (rounds > 0)
    assert len(server.calls) == len(budget.calls) == condensations(server) + 2
    read = "".join(call.user for call in server.calls)
    assert all(quote["text"] in read for quote in draft["quotes"])


def said_rounds(draft: Draft) -> int:
    """Return the rounds of condensing that a draft's notes speak of."""
    said = messages(draft, "condensed")
    return int(said[0].split()[-2]) if said else 0


@pytest.mark.parametrize("route", ["vanilla", "order_preserving"])
def test_too_many_documents_for_one_call_are_read_in_parts(
    route: str, chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        reply = condensing(call)
        if call.stage != "extract":
            return reply
        record = json.loads(reply.content)
        record["quotes"].append(
            {"key": record["quotes"][0]["key"], "quote": "Aspirin cures everything at once"}
        )
        return Reply(json.dumps(record))

    server.script = refusing_more_than(WINDOW, script)
    documents = make_long_documents(16, sentences=12)
    answer = ask(chat_model, documents, route=route)
    assert answer["route"] == "map_reduce"
    assert answer["preflight"]["reason"] == (
        f"the setting route forces {route}, but the documents exceed the model's input window"
    )
    assert "read_in_parts" in kinds(answer)
    assert any(
        "are not in the documents" in message for message in messages(answer, "partition_error")
    )
    assert len(answer["citations"]) == 16
    assert {citation["document_id"] for citation in answer["citations"]} == {
        document.id for document in documents
    }
    assert answer["usage"]["calls"] == len(server.all_calls)
