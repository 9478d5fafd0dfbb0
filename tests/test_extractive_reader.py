"""The reader that copies sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.chains.citation import assign_keys, cite
from briefcontext.chains.extractive_reader import MIN_SCORE, ExtractiveReader
from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.question import check_question
from briefcontext.graphs.graph import build_graph
from briefcontext.knowledge.store.terms import TermStatistics
from briefcontext.retrievers.sentence_ranking import (
    MOST_WORDS,
    PAIRS,
    SentenceRanker,
    lacks_dose,
    unmentioned,
)
from tests.hashing_encoder import HashingEncoder
from tests.notes import kinds

ASKED = check_question("aspirin stroke risk")
WORDS = ("aspirin", "stroke", "risk", "sky")


class WordCountEncoder:
    """Encodes a text by which of a few words it has; a question on none of them, by itself."""

    def __init__(self, *, length: float = 1.0, offset: float = 0.0) -> None:
        self._length, self._offset = length, offset

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._encode(texts)

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return self._encode([f"{title} {text}" for title, text in passages])

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        pairs = [[text.strip() in pair for pair in PAIRS] for text in texts]
        words = [
            [word in text.lower() and not any(pair) for word in WORDS] for text, pair in zip(texts, pairs, strict=True)
        ]
        vectors = np.hstack([words, pairs]).astype(np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
        return np.hstack([self._length * vectors, np.full((len(texts), 1), self._offset)]).astype(np.float32)


def _documents(*texts: str, title: str = "") -> list[Document]:
    documents = [Document(id=f"d{i}", page_content=text, metadata={"title": title}) for i, text in enumerate(texts)]
    return assign_keys(ASKED["text"], documents)


FAR = "The sky was blue on all of the days. The sky was grey on the other days."
NEAR = "Nothing to see in this sentence here. Aspirin was given at length. Aspirin lowers the risk of stroke."
ACCOUNT = CallBudget()
READER = ExtractiveReader(SentenceRanker(WordCountEncoder()).rank)


def test_the_best_sentence_is_copied_with_its_place() -> None:
    extraction = wait_for(READER.aextract(ASKED, _documents(FAR, NEAR), 3, ACCOUNT))
    assert (extraction["status"], extraction["index"]) == ("evidence", 3)
    quote = extraction["quotes"][0]
    assert quote["text"] == "Aspirin lowers the risk of stroke."
    assert NEAR[quote["start"] : quote["end"]] == quote["text"]
    assert extraction["confidence"] == quote["score"] > MIN_SCORE
    assert ACCOUNT.calls == []


def test_documents_that_do_not_answer_are_no_evidence() -> None:
    extraction = wait_for(READER.aextract(ASKED, _documents(FAR), 0, ACCOUNT))
    assert (extraction["status"], extraction["quotes"]) == ("none", [])
    draft = wait_for(READER.aanswer(ASKED, _documents(FAR), "vanilla", ACCOUNT))
    assert draft["abstained"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Aspirin is safe. Aspirin is safe.", ["Aspirin is safe."]),
        ("Aspirin and stroke: a randomised trial\n\nAspirin lowers the risk of stroke.", ["Aspirin lowers the risk"]),
        ("TITLE:\nAspirin and stroke: a randomised trial\n\nAspirin lowers the risk of stroke.", ["Aspirin lowers"]),
        ("Aspirin and the risk of stroke in adults", ["Aspirin and the risk of stroke in adults"]),
        (
            "Earlier trials suggested that aspirin lowers the risk of stroke. We found that its risk of stroke rises.",
            ["We found"],
        ),
    ],
)
def test_a_sentence_is_no_title_fragment_or_belief(text: str, said: list[str]) -> None:
    draft = wait_for(READER.aanswer(ASKED, _documents(text), "vanilla", ACCOUNT))
    assert [quote["text"][: len(words)] for quote, words in zip(draft["quotes"], said, strict=True)] == said


@pytest.mark.parametrize(
    "text",
    [
        "Does aspirin raise the risk of stroke?",
        "“Aspirin for the risk of stroke?” ",
        "True or false: aspirin raises the risk of stroke.",
        "3. **True/False** Aspirin raises the risk of stroke.",
    ],
)
def test_a_question_is_no_evidence(text: str) -> None:
    assert wait_for(READER.aanswer(ASKED, _documents(text), "vanilla", ACCOUNT))["abstained"]
    draft = wait_for(READER.aanswer(ASKED, _documents(f"{text}\n\nAspirin lowers it."), "vanilla", ACCOUNT))
    assert [quote["text"] for quote in draft["quotes"]] == ["Aspirin lowers it."]


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("What is the dose of aspirin?", True),
        ("At which doses is it given?", True),
        ("Dose of lorazepam in children", True),
        ("Does low-dose aspirin prevent pre-eclampsia?", False),
        ("How much does smoking raise the risk of lung cancer?", False),
        ("Is there a dose-response relation?", False),
    ],
)
def test_a_dose_is_asked_for_or_only_mentioned(question: str, asks: bool) -> None:
    assert lacks_dose(question, ["It helped 12 of 40."]) == asks
    for text in ("60 Gy", "an 81-mg tablet", "500 milligrams", "1.2 million units", "5\u00a0mg", "5 MG", "one tablet"):
        assert not lacks_dose(question, [f"They took {text} daily."])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Aspirin lowers the risk of stroke. Aspirin, 75 mg, was given for stroke.", "Aspirin, 75 mg"),
        ("Aspirin lowers the risk of stroke.", "Aspirin lowers the risk"),
    ],
)
def test_a_dose_that_is_asked_for_comes_first(text: str, first: str) -> None:
    asked: Any = {"question": "Which dose of aspirin lowers the risk of stroke?", "documents": _documents(text)}
    answer = build_graph(reader=READER).invoke(asked)["answer"]
    assert answer["citations"][0]["quote"].startswith(first)


def test_an_amount_in_a_question_is_not_what_it_is_about() -> None:
    text = "Sodium may rise by 8 mmol/L a day. A very high potassium is treated at once."
    asked: Any = {"question": "How is a potassium of 17.5 mmol/L treated?", "documents": _documents(text)}
    answer = build_graph(reader=READER).invoke(asked)["answer"]
    assert answer["citations"][0]["quotes"][0]["text"].startswith("A very high potassium")


@pytest.mark.parametrize(
    "text",
    [
        "Aspirin and the risk of stroke in adults:\n\nAspirin lowers the risk of stroke.",
        "Aspirin lowers the risk of stroke.\n\n1/2/26 Aspirin and the risk of stroke file:///a/b.html 1/1",
    ],
)
def test_a_heading_or_what_is_printed_around_a_page_is_no_sentence(text: str) -> None:
    asked: Any = {"question": "Does aspirin lower the risk of stroke?", "documents": _documents(text)}
    quotes = build_graph(reader=READER).invoke(asked)["answer"]["citations"][0]["quotes"]
    assert [quote["text"] for quote in quotes] == ["Aspirin lowers the risk of stroke."]


@pytest.mark.parametrize(
    ("text", "metadata", "shown"),
    [
        ("Do not give it for:\n- a stroke and a risk of aspirin", {}, ["Do not give it for: a stroke and"]),
        ("- a stroke and a risk of aspirin", {"list_lines": "Do not give it for:\n"}, ["Do not give it for: a stroke"]),
        ("- a stroke and a risk of aspirin", {"section": "Uses"}, ["Uses: a stroke and a risk"]),
        ("- a stroke and a risk of aspirin", {}, ["a stroke and a risk"]),
        ("Aspirin lowers the risk of stroke.", {"section": "Uses"}, ["Aspirin lowers"]),
        ("Aspirin lowers the risk of stroke.", {"section": "Contraindications"}, ["Contraindications: Aspirin lowers"]),
        (
            "In adults:\n- aspirin, a stroke, a risk",
            {"section": "To be avoided"},
            ["To be avoided: In adults: aspirin"],
        ),
        (
            "Not for:\n- aspirin at risk of stroke\n\nOnly for:\n- aspirin at risk of stroke",
            {},
            ["Not for: aspirin at risk", "Only for: aspirin at risk"],
        ),
    ],
)
def test_an_item_is_shown_with_what_introduces_it(text: str, metadata: dict[str, Any], shown: list[str]) -> None:
    (document,) = _documents(text)
    document.metadata.update(metadata)
    asked: Any = {"question": "Does aspirin lower the risk of stroke?", "documents": [document]}
    answer = build_graph(reader=READER).invoke(asked)["answer"]
    for line, words in zip(sorted(answer["text"].splitlines()[1:]), shown, strict=True):
        assert line.startswith(f"- {words}")
    quotes = sorted(answer["citations"][0]["quotes"], key=lambda quote: quote["section"])
    for quote, words in zip(quotes, shown, strict=True):
        assert text[quote["start"] : quote["end"]] == quote["text"]
        assert words.startswith(quote["section"]) or quote["section"] == "Uses"


def test_a_passage_need_not_say_safe_to_be_about_what_is_asked() -> None:
    text = "Metformin is not recommended in kidney disease."
    asked: Any = {"question": "Is metformin safe in kidney disease?", "documents": _documents(text)}
    answer = build_graph(reader=READER).invoke(asked)["answer"]
    assert (answer["abstained"], kinds(answer, "danger", "caution")) == (False, [])


@pytest.mark.parametrize(
    ("question", "text", "title", "words"),
    [
        ("Does acupuncture shorten labour?", "Labour was short.", "", ["acupuncture", "shorten"]),
        ("Does acupuncture shorten labour?", "Labour was shortened.", "Acupuncture", []),
        ("Is IL-6 raised by TNF-α?", "IL6 was high.", "", ["raised", "TNF-α"]),
        ("DOES IT HARM 12 of 40?", "Sky.", "", ["HARM"]),
        ("Which drug must she take while breastfeeding?", "Sky.", "", ["drug", "breastfeeding"]),
        ("Is pain less during labour than after surgery?", "Sky.", "", ["pain", "labour", "surgery"]),
        ("How often are lithium levels checked?", "Lithium levels.", "", ["checked"]),
        ("Labour, labours and labour", "Sky.", "", ["labour"]),
        ("", "Sky.", "", []),
        (" ".join(f"word{letter * 3}" for letter in "abcdefghij"), "Sky.", "", ["wordaaa", "wordbbb", "wordccc"]),
    ],
)
def test_words_that_no_document_has_are_named(question: str, text: str, title: str, words: list[str]) -> None:
    named, _ = unmentioned(question, [*_documents("Nothing else."), *_documents(text, title=title)])
    assert len(named) <= MOST_WORDS
    assert named[: len(words) or None] == words


def test_a_rare_word_is_more_of_a_question_than_a_common_one() -> None:
    question, documents = "Does lithium lower the risk of stroke?", _documents("Aspirin lowers the risk of stroke.")
    rare = TermStatistics(100, 1000, lambda term: None if term == "lithium" else (0.5, [term]))
    common = TermStatistics(100, 1000, lambda term: (0.5, [term]))
    assert unmentioned(question, documents) == unmentioned(question, documents, common) == (["lithium"], 0.25)
    words, share = unmentioned(question, documents, rare)
    assert (words, share > 0.75) == (["lithium"], True)
    assert unmentioned("Does lithium lower the risk of stroke at the beach?", documents, rare)[1] == 1
    assert unmentioned("", documents) == ([], 0)
    assert unmentioned("DOES LITHIUM LOWER THE RISK OF 2 OR 3 STROKES?", documents) == (["LITHIUM"], 0.25)


def test_of_many_words_that_no_document_has_the_rarest_are_named() -> None:
    first = [f"word{letter * 3}" for letter in "abcdefghij"]
    rarest = TermStatistics(100, 1000, lambda term: None if term == "lithium" else (0.5, [term]))
    named, share = unmentioned(f"{' '.join(first)} lithium", _documents("Sky."), rarest)
    assert named == [*first[: MOST_WORDS - 1], "lithium"]
    assert share == pytest.approx(1)


def test_the_answer_is_made_of_sentences_and_says_so() -> None:
    documents = _documents(FAR, NEAR)
    draft = wait_for(READER.aanswer(ASKED, documents, "vanilla", ACCOUNT))
    preface, first, *_ = draft["text"].splitlines()
    assert "nothing was inferred" in preface
    assert first == f"- Aspirin lowers the risk of stroke. {cite(documents[1])}"


@pytest.mark.parametrize(
    "sentence",
    [
        "Aspirin lowers the risk of stroke (P<0.001) and of death (P=0.03) in adults.",
        "Aspirin lowers the risk of stroke at 75 - 100 mg a day.",
        "Aspirin lowers the risk of stroke: a) in men, and b) in women.",
    ],
)
@pytest.mark.parametrize("bullet", ["", "- ", "2) "])
def test_what_looks_like_a_bullet_within_a_sentence_stays_in_it(sentence: str, bullet: str) -> None:
    (document,) = _documents(bullet + sentence)
    draft = wait_for(READER.aanswer(ASKED, [document], "vanilla", ACCOUNT))
    assert draft["text"].splitlines()[1:] == [f"- {sentence} {cite(document)}"]


def test_sentences_that_are_only_copied_are_not_said_to_agree() -> None:
    texts = (
        "In a case-control study, aspirin lowers the risk of stroke.",
        "Aspirin does not lower the risk of stroke.",
    )
    answer = build_graph(reader=READER).invoke({"question": ASKED["text"], "documents": _documents(*texts)})["answer"]
    assert answer["evidence"]["conflict"] is None
    assert "not checked for conflicts" in answer["evidence"]["summary"]


async def test_partitions_are_weighed_against_each_other() -> None:
    texts = (FAR, "A stroke was seen in one of them, and aspirin was not.", NEAR, "The risk of stroke rose with age.")
    documents = _documents(*texts)
    extractions = [await READER.aextract(ASKED, [document], i, ACCOUNT) for i, document in enumerate(documents)]
    assert extractions[0]["status"] == "none"
    draft = await READER.areduce(ASKED, documents, extractions, ACCOUNT)
    scores = [quote["score"] for quote in draft["quotes"]]
    assert draft["quotes"][0]["text"] == "Aspirin lowers the risk of stroke."
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] >= 0.75 * scores[0]


def test_a_sentence_ranks_by_its_document_too() -> None:
    sentence = "The risk of it was measured in all of them."
    documents = _documents(sentence, f"Aspirin may protect from a stroke. {sentence[:-1]} again.")
    ranked = SentenceRanker(WordCountEncoder()).rank(ASKED["text"], documents)
    assert [place.document_id for place in ranked if "risk" in place.text] == ["d1", "d0"]


@pytest.mark.parametrize(("ranks", "first"), [((5, 2), "d1"), ((2, 5), "d0")])
def test_of_equal_sentences_that_of_the_document_retrieved_first_is_first(ranks: tuple[int, int], first: str) -> None:
    documents = _documents("Aspirin and a stroke were seen.", "A stroke and aspirin were seen.")
    for document, rank in zip(documents, ranks, strict=True):
        document.metadata["rank"] = rank
    assert wait_for(READER.aanswer(ASKED, documents, "vanilla", ACCOUNT))["quotes"][0]["document_id"] == first
    extractions = [wait_for(READER.aextract(ASKED, [document], i, ACCOUNT)) for i, document in enumerate(documents)]
    assert wait_for(READER.areduce(ASKED, documents, extractions, ACCOUNT))["quotes"][0]["document_id"] == first


@pytest.mark.parametrize("rank", [None, 0, -3, "first", "2"])
def test_a_rank_that_is_none_counts_as_none(rank: object) -> None:
    (document,) = _documents(NEAR)
    document.metadata["rank"] = rank
    assert wait_for(READER.aanswer(ASKED, [document], "vanilla", ACCOUNT))["quotes"]


def test_evidence_at_the_end_of_the_ranking_is_evidence() -> None:
    (document,) = _documents(NEAR)
    document.metadata["rank"] = 1000
    assert wait_for(READER.aextract(ASKED, [document], 0, ACCOUNT))["status"] == "evidence"


FOUND = "The risk of stroke was lower with aspirin."


@pytest.mark.parametrize(
    ("sentence", "is_left_out"),
    [
        ("To assess whether aspirin lowers the risk of stroke.", True),
        ("OBJECTIVE: Aspirin and the risk of stroke.", True),
        ("BACKGROUND: Aspirin is believed to help against the risk of stroke.", True),
        ("The aim was to compare the risk of stroke with aspirin.", True),
        ("The risk of stroke with aspirin remains unclear.", True),
        ("This study evaluates aspirin for the risk of stroke.", False),
        ("We investigated aspirin and the risk of stroke.", False),
        ("Aspirin was given to people at risk of stroke.", False),
        ("People at risk of stroke received aspirin.", False),
        ("BACKGROUND: The risk of stroke is lower with aspirin.", False),
    ],
)
def test_within_a_source_a_finding_comes_before_what_was_asked_or_done(sentence: str, is_left_out: bool) -> None:
    rank = SentenceRanker(WordCountEncoder()).rank
    chunks = _documents(sentence, FOUND)
    for chunk in chunks:
        chunk.metadata["source_id"] = "one"
    for documents in (_documents(f"{sentence} {FOUND}"), chunks):
        ranked = [each.text for each in rank(ASKED["text"], documents)]
        assert ranked == [FOUND, *([] if is_left_out else [sentence])]
    on_something_else = "The sky was lower than the other one."
    ranked = [each.text for each in rank(ASKED["text"], _documents(f"{sentence} {on_something_else}"))]
    assert ranked == [sentence, on_something_else]


def test_what_may_be_better_is_no_finding() -> None:
    texts = ("Aspirin is stopped at a risk of stroke.", "Aspirin may be better tolerated at a risk of stroke.")
    ranked = SentenceRanker(WordCountEncoder()).rank(ASKED["text"], _documents(" ".join(texts)))
    assert tuple(sentence.text for sentence in ranked) == texts


def test_a_finding_in_words_of_what_was_done_is_evidence() -> None:
    text = f"{FOUND} Stroke was recorded in 12% of patients at risk who received aspirin."
    ranked = SentenceRanker(WordCountEncoder()).rank(ASKED["text"], _documents(text))
    assert [sentence.text for sentence in ranked] == [text[: len(FOUND)], text[len(FOUND) + 1 :]]


def test_what_a_sentence_reports_does_not_move_its_source_among_others() -> None:
    rank = SentenceRanker(WordCountEncoder()).rank
    asked = "Aspirin was given to people at risk of stroke."
    ranked = rank(ASKED["text"], _documents("The stroke rate was lower with aspirin.", asked))
    assert [sentence.document_id for sentence in ranked] == ["d1", "d0"]
    (alone,), (plain,) = (rank(ASKED["text"], _documents(text)) for text in (asked, asked.replace("was given", "is")))
    assert alone.score == pytest.approx(plain.score)


def test_among_more_documents_more_is_asked_of_a_sentence() -> None:
    class Corpus:
        average_length = 5.0

        def __init__(self, n_documents: int) -> None:
            self.n_documents = n_documents

        def document_frequency(self, term: str) -> int:
            return 1

    rank = SentenceRanker(WordCountEncoder()).rank
    small, large = (rank(ASKED["text"], _documents(NEAR), Corpus(size))[0].score for size in (100, 1_000_000))
    assert small > large


@pytest.mark.parametrize("title", ["Aspirin lowers the risk of stroke", "Aspirin lowers the risk of stroke."])
def test_a_title_alone_is_no_evidence(title: str) -> None:
    assert wait_for(READER.aextract(ASKED, _documents(title, title=title), 0, ACCOUNT))["status"] == "none"


@pytest.mark.parametrize(("length", "offset"), [(1, 0), (8, 6), (0.1, 2)])
def test_any_encoder_has_a_measure_of_what_is_unrelated(length: float, offset: float) -> None:
    reader = ExtractiveReader(SentenceRanker(WordCountEncoder(length=length, offset=offset)).rank)
    assert wait_for(reader.aanswer(ASKED, _documents(FAR), "vanilla", ACCOUNT))["abstained"]
    ours = wait_for(reader.aanswer(ASKED, _documents(FAR, NEAR), "vanilla", ACCOUNT))["quotes"]
    plain = wait_for(READER.aanswer(ASKED, _documents(FAR, NEAR), "vanilla", ACCOUNT))["quotes"]
    assert [quote["text"] for quote in ours] == [quote["text"] for quote in plain]
    assert [quote["score"] for quote in ours] == pytest.approx([quote["score"] for quote in plain], abs=1e-4)


def test_a_sentence_that_is_met_again_is_not_encoded_again() -> None:
    encoder = HashingEncoder()
    ranker, documents = SentenceRanker(encoder), _documents(FAR, NEAR)
    ranked = ranker.rank(ASKED["text"], documents)
    encoded = encoder.encoded
    assert ranker.rank(ASKED["text"], documents) == ranked
    assert encoder.encoded == encoded
    more = _documents("Placebo was given to all of the others.", NEAR, NEAR)
    assert ranker.rank("Does it rise?", more) == SentenceRanker(HashingEncoder()).rank("Does it rise?", more)
    assert encoder.encoded == encoded + 1


def test_documents_without_a_sentence_are_no_evidence() -> None:
    assert wait_for(READER.aanswer(ASKED, _documents("", " "), "vanilla", ACCOUNT))["abstained"]


def test_the_same_sentence_is_copied_once() -> None:
    extraction = wait_for(READER.aextract(ASKED, _documents(NEAR, NEAR), 0, ACCOUNT))
    texts = [quote["text"] for quote in extraction["quotes"]]
    assert len(set(texts)) == len(texts)


def test_it_chooses_no_option_and_says_why() -> None:
    asked = check_question("aspirin stroke risk", {"A": "yes", "B": "no"})
    draft = wait_for(READER.aanswer(asked, _documents(NEAR), "vanilla", ACCOUNT))
    assert draft["choice"] is None
    assert kinds(draft) == ["no_choice"]
