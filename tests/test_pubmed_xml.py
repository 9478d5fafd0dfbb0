import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.pubmed_xml import read_pubmed_xml
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "pubmed_xml"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the sample PubMed files are not in this checkout"
)

TITLE = "<ArticleTitle>A title.</ArticleTitle>"
ABSTRACT = "<Abstract><AbstractText>An abstract.</AbstractText></Abstract>"
ISSUE = "<Journal><JournalIssue><PubDate>{}</PubDate></JournalIssue></Journal>"
ARTICLE_DATE = "<ArticleDate><Year>2004</Year></ArticleDate>"
TYPES = "<PublicationTypeList><PublicationType>{}\n</PublicationType></PublicationTypeList>"
REFERENCE = "<CommentsCorrectionsList><CommentsCorrections RefType='{}'/></CommentsCorrectionsList>"
REVISED = "<DateRevised><Year>2016</Year><Month>{}</Month><Day>07</Day></DateRevised>"
HEADINGS = (
    "<MeshHeadingList><MeshHeading><DescriptorName>Asthma</DescriptorName>"
    "<QualifierName>blood</QualifierName>"
    "</MeshHeading><MeshHeading><DescriptorName>Bees</DescriptorName></MeshHeading>"
    "</MeshHeadingList>"
)
# Eleven levels of ten references each: 12 bytes that would become 1.2 terabytes.
BOMB = "<!DOCTYPE PubmedArticleSet [<!ENTITY l0 'lollollollol'>{}]>".format(
    "".join(f"<!ENTITY l{level} '{f'&l{level - 1};' * 10}'>" for level in range(1, 12))
)


def citation(article: str = TITLE + ABSTRACT, pmid: str = "1", more: str = "") -> str:
    return (
        f"<MedlineCitation><PMID>{pmid}</PMID>{more}<Article>{article}</Article></MedlineCitation>"
    )


def article_set(*citations: str) -> str:
    articles = "".join(f"<PubmedArticle>{one}</PubmedArticle>\n" for one in citations)
    return f"<PubmedArticleSet>{articles}</PubmedArticleSet>"


def read(xml: str) -> list[Entry]:
    return list(read_pubmed_xml(io.BytesIO(xml.encode())))


def read_one(xml: str) -> Document:
    (entry,) = read(xml)
    assert isinstance(entry, Document)
    return entry


def ids(entries: list[Entry]) -> list[str | None]:
    return [entry.id for entry in entries if isinstance(entry, Document)]


@pytest.mark.parametrize(
    "root",
    ["{}", "<PubmedArticleSet><PubmedArticle>{}<PubmedData/></PubmedArticle></PubmedArticleSet>"],
)
def test_a_citation_reads_the_same_under_every_root(root: str) -> None:
    document = read_one(root.format(citation()))
    assert (document.id, document.page_content) == ("1", "An abstract.")
    assert document.metadata == {
        "source_id": "1",
        "title": "A title.",
        "kind": "abstract",
        "publication_types": "",
        "languages": "",
        "retracted": False,
        "retraction_notice": False,
        "url": "https://pubmed.ncbi.nlm.nih.gov/1/",
        "journal": "",
        "revised": "",
        "version": 1,
        "chunk_index": 0,
        "start": 0,
        "end": 12,
    }


@pytest.mark.parametrize(
    ("sections", "text", "labels"),
    [
        (
            "<AbstractText>One.</AbstractText><CopyrightInformation>©</CopyrightInformation>",
            "One.",
            None,
        ),
        (
            "<AbstractText Label='AIM' NlmCategory='OBJECTIVE'>One.</AbstractText>"
            "<AbstractText>Two.</AbstractText><AbstractText Label='END'>Three.</AbstractText>",
            "AIM: One. Two. END: Three.",
            "AIM; END",
        ),
        (
            "<AbstractText>5&#215;10<sup>6</sup> IU, R<sup>2</sup></AbstractText>",
            "5×10^6 IU, R2",
            None,
        ),
    ],
)
def test_an_abstract_is_its_sections_in_reading_order(
    sections: str, text: str, labels: str | None
) -> None:
    document = read_one(citation(f"{TITLE}<Abstract>{sections}</Abstract>"))
    assert (document.page_content, document.metadata["end"]) == (text, len(text))
    assert document.metadata.get("labels") == labels


@pytest.mark.parametrize(
    ("article", "more", "expected"),
    [
        (ISSUE.format("<Year>1990</Year><Month>Jul</Month>") + ARTICLE_DATE, "", {"year": 1990}),
        (ISSUE.format("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>"), "", {"year": 1998}),
        ("", REFERENCE.format("RetractionIn"), {"retracted": True, "retraction_notice": False}),
        ("", REFERENCE.format("RetractionOf"), {"retracted": False, "retraction_notice": False}),
        (
            TYPES.format("Retracted Publication"),
            "",
            {"retracted": True, "retraction_notice": False},
        ),
        (
            TYPES.format("Retraction of Publication"),
            "",
            {"retracted": False, "retraction_notice": True},
        ),
        (TYPES.format("Corrected and Republished Article"), "", {"corrected": True}),
        ("", REFERENCE.format("ErratumIn"), {"corrected": True}),
        (
            "",
            REFERENCE.format("ExpressionOfConcernIn"),
            {"expression_of_concern": True, "retracted": False},
        ),
        ("<Language>dut</Language><Language>eng</Language>", "", {"languages": "dut; eng"}),
        ("", REVISED.format("3"), {"revised": "2016-03-07"}),
        ("", HEADINGS, {"mesh": "Asthma; Bees"}),
        (
            "<Journal><Title>Bees (London)</Title><ISOAbbreviation>Bees.</ISOAbbreviation>"
            "</Journal>",
            "<MedlineJournalInfo><MedlineTA>Bees</MedlineTA></MedlineJournalInfo>",
            {"journal": "Bees (London)", "journal_abbreviation": "Bees"},
        ),
    ],
)
def test_metadata_follow_the_record(article: str, more: str, expected: dict[str, object]) -> None:
    assert read_one(citation(TITLE + article, more=more)).metadata.items() >= expected.items()


def test_deletions_name_each_pmid_in_its_place() -> None:
    deleted = (
        "<DeleteCitation><PMID Version='1'>2</PMID><PMID>x</PMID><PMID>3</PMID></DeleteCitation>"
    )
    entries = read(f"<MedlineCitationSet>{deleted}{citation()}</MedlineCitationSet>")
    reject = Reject("record 1", "The PMID 'x' of a deletion is not a number.")
    assert entries[:3] == [Deletion("2"), reject, Deletion("3")]


@pytest.mark.parametrize(
    ("record", "position", "reason"),
    [
        (citation(pmid="2-a"), "record 2 (PMID 2-a)", "The PMID '2-a' is not a number."),
        (
            citation("<ArticleTitle/>", "2"),
            "record 2 (PMID 2)",
            "It has neither a title nor an abstract.",
        ),
    ],
)
def test_the_records_after_an_unreadable_one_are_read(
    record: str, position: str, reason: str
) -> None:
    entries = read(article_set(citation(), record, citation(pmid="3")))
    assert ids(entries) == ["1", "3"]
    assert entries[1] == Reject(position, reason)


def test_a_file_cut_anywhere_yields_its_complete_records_and_one_reject() -> None:
    xml = article_set(*(citation(pmid=pmid) for pmid in "123"))
    for cut in range(len(xml)):
        *documents, reject = read(xml[:cut])
        assert ids(documents) == ["1", "2", "3"][: xml.count("</PubmedArticle>", 0, cut)]
        assert len(documents) == len(ids(documents))
        assert isinstance(reject, Reject)
        assert reject.position == "line " + str(xml.count("\n", 0, cut) + 1)


@pytest.mark.parametrize(
    "article",
    [
        "<ArticleTitle>&l11;</ArticleTitle>",
        f"{TITLE}<Abstract><AbstractText Label='&l11;'>One.</AbstractText></Abstract>",
    ],
)
def test_an_entity_bomb_ends_in_one_reject(article: str) -> None:
    entries = read(BOMB + article_set(citation(), citation(article, "2"), citation(pmid="3")))
    assert ids(entries) in (["1"], ["1", "3"])  # by whether the parser or the reader stops it
    assert len(entries) == len(ids(entries)) + 1


def test_external_entities_are_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    doctype = f"<!DOCTYPE PubmedArticleSet [<!ENTITY file SYSTEM '{secret.as_uri()}'>]>"
    reject = Reject(
        "record 1 (PMID 2)", "It uses the entity &file;, and entities are not resolved."
    )
    assert read(doctype + article_set(citation("<ArticleTitle>&file;</ArticleTitle>", "2"))) == [
        reject
    ]


@needs_data
def test_the_sample_files_hold_what_their_manifest_says() -> None:
    entries: list[Entry] = []
    for row in rows("manifest.jsonl"):
        found = sample(row["file"])
        assert sum(not isinstance(entry, Deletion) for entry in found) == row["citations"], row[
            "file"
        ]
        assert [entry.source_id for entry in found if isinstance(entry, Deletion)] == row["deleted"]
        entries += found
    assert Counter(map(type, entries)) == {Document: 812, Reject: 4, Deletion: 1}
    rejects = [entry.position for entry in entries if isinstance(entry, Reject)]
    assert rejects == [f"record 1 (PMID 11119751-{letter})" for letter in "abce"]
    documents = [entry.metadata for entry in entries if isinstance(entry, Document)]
    flags = ("retracted", "retraction_notice")
    assert [sum(metadata[flag] for metadata in documents) for flag in flags] == [3, 2]
    assert {type(value) for metadata in documents for value in metadata.values()} <= {
        str,
        int,
        bool,
    }


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def sample(name: str) -> list[Entry]:
    content = (DATA / name).read_bytes()
    return list(
        read_pubmed_xml(io.BytesIO(gzip.decompress(content) if name.endswith(".gz") else content))
    )
