"""Texts that exceed a model's input window: nothing is cut off, and nothing too long is sent."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from briefcontext.chains.answer import Answer
from briefcontext.chains.citation import assign_keys
from briefcontext.chains.context import (
    LEAST_ROOM,
    RESERVED_TOKENS,
    group_to_fit,
    render_documents,
    room_for,
    split_to_fit,
)
from briefcontext.chains.llm_reader import MAX_ROUNDS, LLMReader
from briefcontext.chains.model.call import CHARACTERS_PER_TOKEN, Model
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import CUT_AT, Draft, Extraction, Quote
from briefcontext.errors import ModelCallError
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


@given(documents=DOCUMENTS)
def test_without_a_known_window_nothing_is_split(documents: list[Document]) -> None:
    assert split_to_fit(documents, None) == [documents]


@given(
    sentences=st.lists(
        st.integers(1, 10**12).map("The trial numbered {} found none.".format),
        min_size=20,
        max_size=60,
    )
)
def test_documents_are_cut_between_sentences(sentences: list[str]) -> None:
    documents = assign_keys(QUESTION, [Document(id="long", page_content=" ".join(sentences))])
    pieces = [piece for group in split_to_fit(documents, 300) for piece in group]
    assert len(pieces) > 1
    assert all(piece.page_content.endswith("none.") for piece in pieces)


def test_a_sentence_longer_than_the_window_is_cut_between_words() -> None:
    text = "stroke " * 200
    documents = assign_keys(QUESTION, [Document(id="long", page_content=text)])
    pieces = [piece for group in split_to_fit(documents, 300) for piece in group]
    assert " ".join(piece.page_content.strip() for piece in pieces).split() == text.split()


def test_a_document_whose_title_leaves_no_room_is_a_group_of_its_own() -> None:
    documents = assign_keys(
        QUESTION,
        [
            Document(id="odd", page_content="Text. " * 99, metadata={"title": "T" * 500}),
            Document(id="even", page_content="Text."),
        ],
    )
    assert [[piece.id for piece in group] for group in split_to_fit(documents, 300)] == [
        ["odd"],
        ["even"],
    ]


@given(texts=st.lists(st.text(max_size=120), min_size=1), room=st.integers(100, 400))
def test_texts_are_grouped_without_loss_in_order_and_so_that_each_group_fits(
    texts: list[str], room: int
) -> None:
    groups = group_to_fit(texts, room)
    assert [text for group in groups for text in group] == texts
    assert all(len("\n".join(group)) <= room or len(group) == 1 for group in groups)
    for group, following in itertools.pairwise(groups):
        assert len("\n".join([*group, following[0]])) > room


@given(window=st.integers(1, 10**6), fixed=st.integers(0, 10**6))
def test_room_is_what_the_window_leaves_beside_the_prompt_and_the_reply(
    window: int, fixed: int
) -> None:
    model = Model(ChatOpenAI(model="scripted", api_key="none"))
    budget = CallBudget(max_input_tokens=window)
    prompt = window - min(RESERVED_TOKENS, window // 4)
    if prompt * CHARACTERS_PER_TOKEN - fixed < LEAST_ROOM:
        with pytest.raises(ModelCallError, match="has no room"):
            room_for(model, budget, [HumanMessage("x" * fixed)])
    else:
        room = room_for(model, budget, [HumanMessage("x" * fixed)])
        assert room is not None
        assert (room + fixed) / CHARACTERS_PER_TOKEN <= prompt


def test_the_window_is_the_settings_or_the_one_of_the_models_profile() -> None:
    silent, stated = (
        Model(ChatOpenAI(model="scripted", api_key="none", profile=profile))
        for profile in ({}, {"max_input_tokens": 3000})
    )
    assert Model(ChatOpenAI(model="gpt-4o-mini", api_key="none")).max_input_tokens == 128_000
    assert room_for(silent, CallBudget(), []) is None
    assert room_for(stated, CallBudget(), []) == room_for(
        silent, CallBudget(max_input_tokens=3000), []
    )
    small = CallBudget(max_input_tokens=WINDOW)
    assert room_for(stated, small, []) == room_for(silent, small, [])


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
    """Return whether the quotes stand where they say."""
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


def test_places_that_a_document_brings_along_are_not_taken_for_those_of_pieces(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = [
        document.model_copy(update={"metadata": {**document.metadata, "cut_at": odd}})
        for document, odd in zip(make_long_documents(3, sentences=2), (7, "7", None), strict=True)
    ]
    answer = ask(chat_model, documents, route="map_reduce")
    assert len(answer["citations"]) == 3
    assert have_true_offsets(
        [quote for one in answer["citations"] for quote in one["quotes"]], documents
    )


def test_pieces_of_a_document_that_disagree_are_a_conflict(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    def script(call: Call) -> Reply:
        if call.stage != "extract":
            return Reply("It does.\nChoice: B")
        record = json.loads(faithful(call).content)
        if "Trial 0.0 " in call.prompt:
            return Reply(json.dumps({**record, "choice": "A", "confidence": 0.6}))
        if "Trial 0.199 " in call.prompt:
            return Reply(json.dumps({**record, "choice": "B", "confidence": 0.7}))
        return Reply('{"relevant": false}')

    server.script = script
    answer = ask(
        chat_model,
        make_long_documents(1, sentences=200),
        options={"A": "yes", "B": "no"},
        route="map_reduce",
    )
    last = len(answer["extractions"]) - 1
    assert last > 2
    assert answer["conflict"] == {
        "choices": {"A": [0], "B": [last]},
        "statement": None,
        "settled": "B",
    }
    assert {"Choice: A", "Choice: B"} < set(server.calls[-1].user.splitlines())


def test_a_document_that_cannot_be_cut_to_fit_is_named_and_the_others_are_read(
    chat_model: ChatOpenAI, server: OpenAIServer
) -> None:
    documents = make_long_documents(3, sentences=2)
    documents[1] = documents[1].model_copy(update={"metadata": {"title": "T" * 5000, "key": "x"}})
    answer = ask(chat_model, documents, route="map_reduce")
    assert [extraction["status"] for extraction in answer["extractions"]] == [
        "evidence",
        "failed",
        "evidence",
    ]
    (said,) = messages(answer, "partition_failed")
    assert said.startswith(
        "Partition 2 was not read (doc-01): The input window of scripted, 1,200 tokens, has no room"
    )


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
    ("count", "quotes", "least"),
    [(2, 3, 0), (2, 22, 1), (3, 22, 1), (12, 10, 1), (1, 60, 1), (1, 3000, 2), (60, 30, 2)],
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


def test_evidence_that_condensing_does_not_shorten_is_one_clear_error(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    server.script = lambda call: Reply("x" * 1000)
    documents = make_long_documents(8, sentences=15)
    with pytest.raises(ModelCallError, match=f"rounds of condensing: {MAX_ROUNDS}") as caught:
        wait_for(
            LLMReader(chat_model).areduce(
                ASKED, documents, make_extractions(documents, quotes=15), budget
            )
        )
    assert "\n" not in str(caught.value)
    assert len(server.calls) == condensations(server) <= MAX_ROUNDS * 8


def test_one_item_that_never_fits_is_one_clear_error(
    chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    documents = make_long_documents(2, sentences=1)
    extractions = make_extractions(documents, quotes=1)
    extractions[0]["finding"] = "It lowers it, " * 500
    with pytest.raises(ModelCallError, match="does not fit into the input window") as caught:
        wait_for(LLMReader(chat_model).areduce(ASKED, documents, extractions, budget))
    assert "\n" not in str(caught.value)
    assert server.calls == []


@pytest.mark.parametrize("step", ["extract", "answer", "reduce"])
def test_a_question_that_fills_the_window_is_one_clear_error(
    step: str, chat_model: ChatOpenAI, server: OpenAIServer, budget: CallBudget
) -> None:
    asked = check_question("Does aspirin help? " * 150)
    documents = make_long_documents(2, sentences=2)
    reader = LLMReader(chat_model)
    steps: dict[str, Callable[[], object]] = {
        "extract": lambda: wait_for(reader.aextract(asked, documents, 0, budget)),
        "answer": lambda: wait_for(reader.aanswer(asked, documents, "vanilla", budget)),
        "reduce": lambda: wait_for(
            reader.areduce(asked, documents, make_extractions(documents, quotes=1), budget)
        ),
    }
    with pytest.raises(ModelCallError, match="has no room") as caught:
        steps[step]()
    assert "\n" not in str(caught.value)
    assert server.calls == []


@pytest.mark.parametrize("route", ["vanilla", "order_preserving"])
def test_one_call_over_too_many_documents_reads_them_in_parts_and_says_so(
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


def test_the_whole_map_stays_within_a_window_that_the_models_profile_states(
    server: OpenAIServer,
) -> None:
    server.script = refusing_more_than(WINDOW, condensing)
    chat = ChatOpenAI(
        model="small",
        base_url=server.url,
        api_key="none",
        max_retries=0,
        profile={"max_input_tokens": WINDOW},
    )
    documents = make_long_documents(16, sentences=60)
    built = build_graph(model=chat, retriever=FixedRetriever(documents=documents))
    answer = built.invoke({"question": QUESTION}, context=Settings(route="map_reduce"))["answer"]
    assert [extraction["status"] for extraction in answer["extractions"]] == ["evidence"] * 32
    assert len(answer["citations"]) == 16
    assert have_true_offsets(
        [quote for one in answer["citations"] for quote in one["quotes"]], documents
    )
    assert answer["usage"]["calls"] == len(server.all_calls)
