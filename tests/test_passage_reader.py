"""The reader that shows passages without a model."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.chains.citation import assign_keys
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.usage import CallBudget
from briefcontext.chains.passage_reader import NOTHING_WRITTEN, PASSAGES, PassageReader
from briefcontext.chains.question import check_question
from briefcontext.chains.reader import Draft
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.settings import Settings
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.passage_ranking import PassageRanker

ASKED = "What are the side effects of zorvanib?"
FILLER = (
    "The ward was painted in the spring, and the nurses met there on Mondays to plan the week. " * 6
)
CORPUS = TermStatistics.of_texts(
    [
        *(
            f"Side effects of tellumab were nausea and rash in study {number}."
            for number in range(9)
        ),
        "Zorvanib has side effects such as headache.",
        "Zorvanib is taken with food.",
        *(f"The weather of day {number} was fine." for number in range(200)),
    ]
)
READER = PassageReader(PassageRanker(CORPUS))


def passages(*texts: str, **metadata: Any) -> list[Document]:
    found = [
        Document(
            text,
            id=f"d{place}",
            metadata={"source_id": f"s{place}", "score": 1 - place / 100, **metadata},
        )
        for place, text in enumerate(texts)
    ]
    return assign_keys(ASKED, found)


def answered(
    documents: Sequence[Document], question: str = ASKED, reader: PassageReader = READER
) -> Draft:
    return wait_for(reader.aanswer(check_question(question), documents, "vanilla", CallBudget()))


def test_a_passage_about_another_drug_is_left_out() -> None:
    documents = passages(
        "Side effects of tellumab were nausea and rash.",
        "Zorvanib has side effects such as headache.",
    )
    draft = answered(documents)
    assert [quote["document_id"] for quote in draft["quotes"]] == ["d1"]
    assert draft["text"].startswith(NOTHING_WRITTEN)
    assert "tellumab" not in draft["text"]


@pytest.mark.parametrize("route", ["vanilla", "order_preserving", "map_reduce"])
def test_every_route_shows_the_same_passages_and_makes_no_call(route: Any) -> None:
    texts = [
        "Side effects of tellumab were nausea and rash.",
        "Zorvanib has side effects such as headache.",
        FILLER,
    ]
    graph = build_graph(reader=READER)
    state = {"question": ASKED, "documents": passages(*texts)}
    answer = graph.invoke(state, context=Settings(route=route, partition_size=1))["answer"]
    assert (answer["written_by"], answer["route"], answer["usage"]["calls"]) == (PASSAGES, route, 0)
    assert [citation["document_id"] for citation in answer["citations"]] == ["d1"]


@pytest.mark.parametrize("route", ["vanilla", "map_reduce"])
def test_an_abstention_names_the_missing_words_and_three_titles(route: Any) -> None:
    documents = passages(*(f"Side effects of tellumab were nausea. Case {n}." for n in range(5)))
    documents = [
        each.model_copy(update={"metadata": {**each.metadata, "title": f"Case {each.id}"}})
        for each in documents
    ]
    state = {"question": "What are the side effects of enasidenib?", "documents": documents}
    answer = build_graph(reader=READER).invoke(state, context=Settings(route=route))["answer"]
    assert answer["abstained"]
    assert "No passage mentions: enasidenib." in answer["text"]
    assert "Case d2" in answer["text"]
    assert "Case d3" not in answer["text"]


def test_no_option_is_chosen_and_the_answer_says_so() -> None:
    state = {
        "question": ASKED,
        "options": {"A": "Headache", "B": "Rash"},
        "documents": passages("Zorvanib has side effects such as headache."),
    }
    answer = build_graph(reader=READER).invoke(state)["answer"]
    assert answer["choice"] is None
    assert "no_choice" in {note["kind"] for note in answer["notes"]}


@pytest.mark.parametrize("documents", [[], passages("??? --- ???"), passages(FILLER)])
def test_without_a_passage_on_the_question_it_abstains(documents: list[Document]) -> None:
    draft = answered(documents)
    assert draft["abstained"]
    assert draft["quotes"] == []


@pytest.mark.parametrize("question", ["???", "い", "zorvanib " * 2000])
def test_odd_questions_are_answered_or_refused_without_an_error(question: str) -> None:
    answered(passages("Zorvanib has side effects.", ""), question)
