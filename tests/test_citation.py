"""Citation keys, and the numbers they become."""

import re

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.citation import assign_keys, cite, document_key, number_citations
from briefcontext.chains.reader import Quote
from tests.conftest import make_documents


def _keyed(count: int = 4, question: str = "Q?") -> list[Document]:
    return assign_keys(question, make_documents(count, about=0))


@given(count=st.integers(0, 1024))
def test_keys_are_unique_and_of_one_form(count: int) -> None:
    keys = [document_key(document) for document in _keyed(count)]
    assert len(set(keys)) == count
    assert all(re.fullmatch(r"[2-9][B-Z][2-9][B-Z]", key) for key in keys)


def test_keys_depend_on_the_question() -> None:
    assert [document_key(d) for d in _keyed()] == [document_key(d) for d in _keyed()]
    assert document_key(_keyed(question="Q?")[0]) != document_key(_keyed(question="R?")[0])


def test_keys_leave_the_retrievers_documents_as_they_are() -> None:
    documents = make_documents(2, about=0)
    assign_keys("Q?", documents)
    assert all("key" not in document.metadata for document in documents)


def test_keys_become_numbers_in_order_of_appearance() -> None:
    a, b, c, _ = _keyed()
    text, citations, unknown = number_citations(
        f"First {cite(c)}. Then {cite(a)}{cite(c)}.", [a, b, c], []
    )
    assert text == "First [1]. Then [2][1]."
    assert [(citation["key"], citation["document_id"]) for citation in citations] == [
        ("1", c.id),
        ("2", a.id),
    ]
    assert unknown == []


def test_keys_that_share_a_bracket_are_told_apart() -> None:
    a, b, _, _ = _keyed()
    text, citations, _ = number_citations(
        f"Both [{document_key(a)}, {document_key(b)}].", [a, b], []
    )
    assert text == "Both [1][2]."
    assert len(citations) == 2


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("It helps (KEY).", "It helps ([1])."),
        ("As KEY shows, it helps.", "As [1] shows, it helps."),
        ("它有效KEY。", "它有效[1]。"),
        (
            "It helps [Source: KEY, randomized trial, 2011].",
            "It helps (Source: [1], randomized trial, 2011).",
        ),
        ("It helps [KEY (cohort study)].", "It helps ([1] (cohort study))."),
        ("It **helps [KEY]** and is **[KEY]**.", "It **helps [1]** and is **[1]**."),
        ("It helps [KEY](#KEY).", "It helps [1]."),
        ("It helps [Doc KEY].", "It helps [1]."),
    ],
)
def test_a_documents_key_cites_it_however_it_is_set(written: str, shown: str) -> None:
    a, b, _, _ = _keyed()
    text, citations, unknown = number_citations(written.replace("KEY", document_key(b)), [a, b], [])
    assert text == shown
    assert [citation["document_id"] for citation in citations] == [b.id]
    assert unknown == []


def test_unknown_keys_are_taken_out_and_reported() -> None:
    (document,) = _keyed(1)
    text, citations, unknown = number_citations(
        f"True {cite(document)}. Made up [9Z9Z].", [document], []
    )
    assert text == "True [1]. Made up."
    assert len(citations) == 1
    assert unknown == ["9Z9Z"]


def test_brackets_of_other_kinds_stay() -> None:
    text, _, unknown = number_citations("Risk 0.8 [95% CI 0.7-0.9] of [H1N1], [–].", _keyed(), [])
    assert text == "Risk 0.8 [95% CI 0.7-0.9] of [H1N1], [–]."
    assert unknown == []


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("It helps [1].", "It helps (1)."),
        ("It helps [2], by much [1, 4].", "It helps (2), by much (1, 4)."),
        (
            "As was seen before [13-17], and again [18,19].",
            "As was seen before (13-17), and again (18,19).",
        ),
        ("In rats[7–9][120] and in men [3; 2024].", "In rats (7–9)(120) and in men (3; 2024)."),
    ],
)
def test_numbers_of_a_reader_or_of_an_article_itself_are_no_citations(
    written: str, shown: str
) -> None:
    a, b, _, _ = _keyed()
    text, citations, _ = number_citations(f"{written} It does {cite(b)}.", [a, b], [])
    assert text == f"{shown} It does [1]."
    assert [citation["document_id"] for citation in citations] == [b.id]


def test_a_citation_carries_its_source_and_quotes() -> None:
    document = Document(
        id="7#0",
        page_content="Words that matter.",
        metadata={
            "source_id": "7",
            "start": 100,
            "title": "T",
            "url": "https://e.org/7",
            "year": 2020,
            "retracted": True,
        },
    )
    (keyed,) = assign_keys("Q?", [document])
    quote = Quote(text="Words that matter", document_id="7#0", start=0, end=17, match="exact")
    _, (citation,), _ = number_citations(cite(keyed), [keyed], [quote])
    assert citation["source_id"] == "7"
    assert (citation["quote"], citation["start"], citation["end"]) == ("Words that matter", 0, 17)
    assert (citation["source_start"], citation["source_end"]) == (100, 117)
    assert (citation["title"], citation["year"], citation["url"]) == ("T", 2020, "https://e.org/7")
    assert citation["retracted"]


def test_words_of_a_title_are_cited_without_a_place_and_after_those_of_the_text() -> None:
    (keyed,) = assign_keys(
        "Q?", [Document(id="7#0", page_content="Words that matter.", metadata={"start": 100})]
    )
    title = Quote(text="A title", document_id="7#0", start=None, end=None, match="title")
    text = Quote(text="Words", document_id="7#0", start=0, end=5, match="exact")
    _, (citation,), _ = number_citations(cite(keyed), [keyed], [title])
    assert (citation["quote"], citation["match"]) == ("A title", "title")
    assert {
        citation["start"],
        citation["end"],
        citation["source_start"],
        citation["source_end"],
    } == {None}
    _, (citation,), _ = number_citations(cite(keyed), [keyed], [title, text])
    assert (citation["quote"], citation["source_start"]) == ("Words", 100)
    assert [quote["text"] for quote in citation["quotes"]] == ["Words", "A title"]
