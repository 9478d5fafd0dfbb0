"""References: one for each article, places of quotes, and formats of reference managers."""

import json
from functools import partial
from typing import Any

import bibtexparser
import pytest
import rispy
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.chains.citation import assign_keys, cite, number_citations
from briefcontext.chains.reader import Quote
from briefcontext.chains.references import (
    REFERENCE_FORMATS,
    Reference,
    list_references,
    place_words,
    write_references,
)
from tests.command_line import command_line

TRIAL: dict[str, Any] = {
    "source_id": "123",
    "title": "Does DNA & RNA help? A 50% answer",
    "authors": "Smith, JA; Müller, B; Bees Study Group",
    "journal": "The Journal of Bees",
    "journal_abbreviation": "J Bees",
    "year": 2021,
    "volume": "4",
    "issue": "2",
    "pages": "1234-6",
    "doi": "10.1000/x_1",
    "url": "https://pubmed.ncbi.nlm.nih.gov/123/",
}


def passage(index: int, **metadata: Any) -> Document:
    return Document(
        id=f"123#{index}",
        page_content="One. Two.",
        metadata={**TRIAL, "chunk_index": index, **metadata},
    )


def cited(*documents: Document) -> tuple[str, list[Reference], list[Any]]:
    """Cite all documents in turn, each with its first sentence."""
    keyed = assign_keys("Q?", documents)
    quotes = [
        Quote(text="One.", document_id=str(each.id), start=0, end=4, match="exact")
        for each in keyed
    ]
    text, citations, _ = number_citations(", ".join(map(cite, keyed)), keyed, quotes)
    return text, list_references(citations, keyed), citations


def test_passages_of_an_article_share_one_reference() -> None:
    other = Document(id="b", page_content="One.", metadata={"title": "Another"})
    text, references, citations = cited(passage(0), other, passage(7))
    assert text == "[1a], [2], [1b]"
    assert [citation["document_id"] for citation in citations] == ["123#0", "123#7", "b"]
    assert [(reference["number"], reference["keys"]) for reference in references] == [
        ("1", ["1a", "1b"]),
        ("2", ["2"]),
    ]


@pytest.mark.parametrize("title", ["Bees"])
def test_references_say_that_an_article_is_retracted(title: str) -> None:
    _, references, _ = cited(passage(0, title=title, retracted=True))
    assert references[0]["title"] == "RETRACTED: Bees"
    assert all(
        "RETRACTED: Bees" in write_references(references, format) for format in REFERENCE_FORMATS
    )


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"section": "Results"}, "Results"),
        (
            {"paragraph_starts": '[[0, "Aim", 1], [500, "Results", 2]]', "start": 500},
            "Results, paragraph 2",
        ),
        ({"kind": "pdf", "page": 6, "page_starts": "[]"}, "page 6"),
        (
            {"kind": "pdf", "page": 6, "page_starts": "no JSON", "paragraph_starts": '{"a": 1}'},
            "page 6",
        ),
    ],
)
def test_a_quote_has_its_place_in_words(metadata: dict[str, Any], words: str) -> None:
    _, _, (citation,) = cited(passage(0, **metadata))
    assert place_words(citation["quotes"][0]) == words


def test_a_reference_reads_as_the_library_of_medicine_writes_it() -> None:
    _, (reference,), _ = cited(passage(0))
    assert write_references([reference], "nlm") == (
        "1. Smith JA, Müller B, Bees Study Group. Does DNA & RNA help? A 50% answer. J Bees. "
        "2021;4(2):1234-6. "
        "doi: 10.1000/x_1. PMID: 123.\n"
    )
    _, (bare,), _ = cited(
        Document(id="notes/a.txt", page_content="One.", metadata={"title": "A note"})
    )
    assert bare["citation"] == "A note. notes/a.txt"


def test_ris_reads_back() -> None:
    _, references, _ = cited(
        passage(0), Document(id="b", page_content="One.", metadata={"title": "Another"})
    )
    written = write_references(references, "ris")
    assert written.startswith("TY  - JOUR\n")
    first, second = rispy.loads(written)
    assert first == {
        "type_of_reference": "JOUR",
        "authors": ["Smith, JA", "Müller, B", "Bees Study Group"],
        "title": TRIAL["title"],
        "secondary_title": "J Bees",
        "year": "2021",
        "volume": "4",
        "number": "2",
        "start_page": "1234",
        "end_page": "1236",
        "doi": "10.1000/x_1",
        "accession_number": "123",
        "name_of_database": "PubMed",
        "urls": ["https://pubmed.ncbi.nlm.nih.gov/123/"],
        "id": "123",
    }
    assert second == {"type_of_reference": "GEN", "title": "Another", "id": "b"}


def test_bibtex_reads_back() -> None:
    _, references, _ = cited(passage(0))
    decoded = [bibtexparser.middlewares.LatexDecodingMiddleware()]
    (entry,) = bibtexparser.parse_string(
        write_references(references, "bibtex"), append_middleware=decoded
    ).entries
    assert (entry.entry_type, entry.key) == ("article", "Smith2021-1")
    assert {name: field.value for name, field in entry.fields_dict.items()}.items() >= {
        "author": "Smith, JA and Müller, B and Bees Study Group",
        "title": TRIAL["title"],
        "journal": "J Bees",
        "year": "2021",
        "volume": "4",
        "number": "2",
        "pages": "1234–1236",
        "pmid": "123",
    }.items()


def test_ask_prints_references_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = partial(
        command_line(monkeypatch, capsys), "ask", "Which drug is first choice for type 2 diabetes?"
    )
    code, printed, _ = run("--references", "ris")
    titles = [entry["title"] for entry in rispy.loads(printed)]
    assert code == 0
    assert titles[0] == "First-choice drug for type 2 diabetes"
    _, printed, _ = run("--json")
    assert [reference["title"] for reference in json.loads(printed)["references"]] == titles
    code, _, said = run("--references", "ris", "--json")
    assert code == 2
    assert "--references and --json" in said
    assert run("--references", "endnote")[0] == 2


HOSTILE = st.text(st.sampled_from('ab1{}\\"@%#,=-\n\r\u2028 ')) | st.sampled_from(
    [
        "}\n}\n@article{x,\n title = {y}",
        "\nER  - \n\nTY  - JOUR\nTI  - y",
        "10.1/x}}@misc{y,",
        "x\\",
    ]
)
FIELDS = ("title", "journal", "volume", "issue", "pages", "doi", "url")


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(FIELDS, HOSTILE)), st.lists(HOSTILE, max_size=3))
def test_no_field_opens_another_entry(fields: dict[str, str], authors: list[str]) -> None:
    _, [reference], _ = cited(passage(0))
    references: Any = [{**reference, **fields, "authors": authors}, reference]
    library = bibtexparser.parse_string(write_references(references, "bibtex"))
    assert not library.failed_blocks
    assert [len(blocks) for blocks in (library.entries, library.blocks)] == [2, 2]
    assert library.entries[1]["doi"] == TRIAL["doi"]
    entries = rispy.loads(write_references(references, "ris"))
    assert len(entries) == 2
    assert entries[1]["doi"] == TRIAL["doi"]
    assert set(entries[0]) <= set(entries[1]) | {"title", "notes"}
