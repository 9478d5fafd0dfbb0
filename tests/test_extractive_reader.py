"""The reader that copies sentences."""

from collections.abc import Sequence

import numpy as np
import pytest
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.chains.citation import assign_keys, cite
from briefcontext.chains.extractive_reader import ExtractiveReader
from briefcontext.chains.model.call_budget import CallBudget
from briefcontext.chains.question import check_question

ASKED = check_question("aspirin stroke risk")
WORDS = ("aspirin", "stroke", "risk", "sky")


class WordCountEncoder:
    """Encodes a text by which of a few words it has, as a unit vector."""

    relevance_floor = 0.5

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(texts)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._encode([f"{title} {text}" for title, text in passages])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array([[word in text.lower() for word in WORDS] for text in texts], dtype=np.float32)
        norms = np.linalg.norm(counts, axis=1, keepdims=True)
        return np.asarray(counts / np.maximum(norms, 1), dtype=np.float32)


def _documents(*texts: str, title: str = "") -> list[Document]:
    documents = [Document(id=f"d{i}", page_content=text, metadata={"title": title}) for i, text in enumerate(texts)]
    return assign_keys(ASKED["text"], documents)


FAR = "The sky was blue on all of the days. The sky was grey on the other days."
NEAR = "Nothing to see in this sentence here. Aspirin lowers the risk of stroke. Aspirin was studied at length."
ACCOUNT = CallBudget()
READER = ExtractiveReader(WordCountEncoder())


def test_the_closest_sentences_are_copied_with_their_places() -> None:
    extraction = READER.extract(ASKED, _documents(FAR, NEAR), 3, ACCOUNT)
    assert extraction["status"] == "evidence"
    assert extraction["index"] == 3
    assert [quote["text"] for quote in extraction["quotes"]] == [
        "Aspirin lowers the risk of stroke.",
        "Aspirin was studied at length.",
    ]
    assert all(NEAR[quote["start"] : quote["end"]] == quote["text"] for quote in extraction["quotes"])
    assert ACCOUNT.calls == []


def test_sentences_below_the_relevance_floor_are_no_evidence() -> None:
    extraction = READER.extract(ASKED, _documents(FAR), 0, ACCOUNT)
    assert (extraction["status"], extraction["quotes"]) == ("none", [])
    draft = READER.answer(ASKED, _documents(FAR), "vanilla", ACCOUNT)
    assert draft["abstained"]


def test_the_answer_is_made_of_sentences_and_says_so() -> None:
    documents = _documents(FAR, NEAR)
    draft = READER.answer(ASKED, documents, "vanilla", ACCOUNT)
    preface, first, *_ = draft["text"].splitlines()
    assert "nothing was inferred" in preface
    assert first == f"- Aspirin lowers the risk of stroke. {cite(documents[1])}"


async def test_reducing_keeps_the_closest_sentence_of_each_partition() -> None:
    documents = _documents(FAR, NEAR, "A stroke risk was seen in every one of them.")
    extractions = [await READER.aextract(ASKED, [document], i, ACCOUNT) for i, document in enumerate(documents)]
    draft = await READER.areduce(ASKED, documents, extractions, ACCOUNT)
    assert [quote["document_id"] for quote in draft["quotes"]] == ["d1", "d2"]


def test_a_title_tells_what_a_sentence_is_about() -> None:
    text = "One tablet a day lowers the risk of a first event."
    plain = READER.extract(ASKED, _documents(text), 0, ACCOUNT)
    titled = READER.extract(ASKED, _documents(text, title="Aspirin and stroke"), 0, ACCOUNT)
    alone, under_title = 1 / np.sqrt(3), 1.0
    assert plain["confidence"] == pytest.approx(alone)
    assert titled["confidence"] == pytest.approx((alone + under_title) / 2)


def test_the_same_sentence_is_copied_once() -> None:
    extraction = READER.extract(ASKED, _documents(NEAR, NEAR), 0, ACCOUNT)
    assert len({quote["text"] for quote in extraction["quotes"]}) == 2


def test_it_chooses_no_option_and_says_why() -> None:
    asked = check_question("aspirin stroke risk", {"A": "yes", "B": "no"})
    draft = READER.answer(asked, _documents(NEAR), "vanilla", ACCOUNT)
    assert draft["choice"] is None
    assert "does not reason" in draft["warnings"][0]
