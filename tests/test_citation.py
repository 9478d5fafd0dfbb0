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


@given(count=st.integers(0, 256))
def test_keys_are_unique_and_of_one_form(count: int) -> None:
    keys = [document_key(document) for document in _keyed(count)]
    assert len(set(keys)) == count
    assert all(re.fullmatch(r"[2-9][B-Z][2-9][B-Z]", key) for key in keys)


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
        ("It helps [Doc KEY]【KEY†source】.", "It helps [1]."),
        ("It helps ［KEY］, and so on [KEY, p. 3].", "It helps [1], and so on [1]."),
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
