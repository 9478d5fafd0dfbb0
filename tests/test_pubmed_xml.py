import gzip
import io
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from briefcontext.knowledge.sources.publication import year_in
from briefcontext.knowledge.sources.pubmed_xml import read_pubmed_xml
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "pubmed_xml"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the sample PubMed files are not in this checkout"
)

TITLE = "<ArticleTitle>A title.</ArticleTitle>"
ABSTRACT = "<Abstract><AbstractText>An abstract.</AbstractText></Abstract>"
MATHML = "<math><msub><mi>V</mi> <mn>2</mn></msub></math>"
ISSUE = "<Journal><JournalIssue><PubDate>{}</PubDate></JournalIssue></Journal>"
ARTICLE_DATE = "<ArticleDate><Year>2004</Year></ArticleDate>"
TYPES = "<PublicationTypeList><PublicationType>{}\n</PublicationType></PublicationTypeList>"
REFERENCE = "<CommentsCorrectionsList><CommentsCorrections RefType='{}'/></CommentsCorrectionsList>"
REVISED = "<DateRevised><Year>2016</Year><Month>{}</Month><Day>07</Day></DateRevised>"
MESH = f"<MeshHeadingList>{'<MeshHeading/>' * 60}</MeshHeadingList>"
HEADINGS = (
    "<MeshHeadingList><MeshHeading><DescriptorName>Asthma</DescriptorName><QualifierName>blood</QualifierName>"
    "</MeshHeading><MeshHeading><DescriptorName>Bees</DescriptorName></MeshHeading></MeshHeadingList>"
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


# fmt: off
@pytest.mark.parametrize("root", [
    "{}", "<MedlineCitationSet>{}</MedlineCitationSet>", "\n<!-- a --><PubmedArticle>{}</PubmedArticle>",
    "<PubmedArticleSet><PubmedArticle>{}<PubmedData/></PubmedArticle></PubmedArticleSet>", "<a>{}</a>",
])
def test_a_citation_reads_the_same_under_every_root(root: str) -> None:
    document = read_one(root.format(citation()))
    assert (document.id, document.page_content) == ("1", "An abstract.")
    assert document.metadata == {
        "source_id": "1", "title": "A title.", "kind": "abstract", "publication_types": "", "languages": "",
        "retracted": False, "retraction_notice": False, "url": "https://pubmed.ncbi.nlm.nih.gov/1/",
        "journal": "", "revised": "", "version": 1, "chunk_index": 0, "start": 0, "end": 12,
    }


def test_who_wrote_it_and_where_it_is_printed_is_read() -> None:
    authors = (
        "<AuthorList><Author><LastName>Smith</LastName><ForeName>Jane "
        "Ann</ForeName><Initials>JA</Initials></Author>"
        "<Author ValidYN='N'><LastName>Smiht</LastName></Author><Author><LastName>Plato</LastName></Author>"
        "<Author><CollectiveName>Bees; Study Group</CollectiveName></Author></AuthorList>"
    )
    issue = "<Journal><JournalIssue><Volume>4</Volume><Issue>2</Issue></JournalIssue></Journal>"
    pages = "<Pagination><MedlinePgn>12-9</MedlinePgn></Pagination>"
    data = "<PubmedData><ArticleIdList><ArticleId IdType='doi'>10.0/y</ArticleId></ArticleIdList></PubmedData>"
    printed = citation().replace("</Article>", f"{issue}{pages}{authors}</Article>")
    expected = {"authors": "Smith, JA; Plato; Bees Study Group", "volume": "4", "issue": "2", "pages": "12-9"}
    by_both = "<PubmedArticle>{}{}</PubmedArticle>"
    assert read_one(by_both.format(printed, data)).metadata.items() >= {**expected, "doi": "10.0/y"}.items()
    located = printed.replace("</Article>", "<ELocationID EIdType='doi'>10.0/x</ELocationID></Article>")
    assert read_one(by_both.format(located, data)).metadata["doi"] == "10.0/x"






@pytest.mark.parametrize(("sections", "text", "labels"), [
    ("<AbstractText>One.</AbstractText><CopyrightInformation>©</CopyrightInformation>", "One.", None),
    ("<AbstractText Label='AIM' NlmCategory='OBJECTIVE'>One.</AbstractText>"
     "<AbstractText>Two.</AbstractText><AbstractText Label='END'>Three.</AbstractText>",
     "AIM: One. Two. END: Three.", "AIM; END"),
    ("<AbstractText Label='AIM'>One.</AbstractText><AbstractText Label='END'/>", "AIM: One.", "AIM"),
    (f"<AbstractText>H<sub>2</sub>O,\n <i>a<b>b</b></i>c {MATHML}.</AbstractText>", "H2O, abc V2.", None),
    ("<AbstractText>5&#215;10<sup>6</sup> IU, R<sup>2</sup></AbstractText>", "5×10^6 IU, R2", None),
    ("<AbstractText>By <math>\n<mfrac> <mn>1</mn>\n<mn>2</mn> </mfrac> <mo> = </mo> <mi>m</mi>\n<mi>a</mi>"
     "</math>.</AbstractText>", "By 1/2=ma.", None),
    ("<AbstractText>a<!-- b -->c &lt; <?d?>&#955;</AbstractText>", "ac < λ", None),
])
def test_an_abstract_is_its_sections_in_reading_order(sections: str, text: str, labels: str | None) -> None:
    document = read_one(citation(f"{TITLE}<Abstract>{sections}</Abstract>"))
    assert (document.page_content, document.metadata["end"]) == (text, len(text))
    assert document.metadata.get("labels") == labels






@pytest.mark.parametrize(("article", "more", "expected"), [
    (ISSUE.format("<Year>1990</Year><Month>Jul</Month>") + ARTICLE_DATE, "", {"year": 1990}),
    (ISSUE.format("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>"), "", {"year": 1998}),
    (ISSUE.format("<MedlineDate>Winter 2003</MedlineDate>"), "", {"year": 2003}),
    (ISSUE.format("<Season>Winter</Season>") + ARTICLE_DATE, "", {"year": 2004}),
    ("", REFERENCE.format("RetractionIn"), {"retracted": True, "retraction_notice": False}),
    ("", REFERENCE.format("RetractionOf"), {"retracted": False, "retraction_notice": False}),
    (TYPES.format("Retracted Publication"), "", {"retracted": True, "retraction_notice": False}),
    (TYPES.format("Retraction of Publication"), "", {"retracted": False, "retraction_notice": True}),
    (TYPES.format("Retraction Notice"), "", {"retracted": False, "retraction_notice": True}),
    ("", REFERENCE.format("RetractedandRepublishedIn"), {"retracted": True, "retraction_notice": False}),
    ("", REFERENCE.format("CorrectedandRepublishedIn"), {"corrected": True, "retracted": False}),
    (TYPES.format("Letter"), "", {"retracted": False, "publication_types": "Letter"}),
    (TYPES.format("Corrected and Republished Article"), "", {"corrected": True}),
    ("", REFERENCE.format("ErratumIn"), {"corrected": True}),
    ("", REFERENCE.format("ExpressionOfConcernIn"), {"expression_of_concern": True, "retracted": False}),
    ("<Language>dut</Language><Language>eng</Language>", "", {"languages": "dut; eng"}),
    ("", REVISED.format("3"), {"revised": "2016-03-07"}),
    ("", HEADINGS, {"mesh": "Asthma; Bees"}),
    ("<Journal><Title>Bees (London)</Title><ISOAbbreviation>Bees.</ISOAbbreviation></Journal>",
     "<MedlineJournalInfo><MedlineTA>Bees</MedlineTA></MedlineJournalInfo>",
     {"journal": "Bees (London)", "journal_abbreviation": "Bees"}),
    ("<Journal><ISOAbbreviation>Bees.</ISOAbbreviation></Journal>", "", {"journal_abbreviation": "Bees."}),
    ("", REVISED.format("Mar"), {"revised": ""}),
])
def test_metadata_follow_the_record(article: str, more: str, expected: dict[str, object]) -> None:
    assert read_one(citation(TITLE + article, more=more)).metadata.items() >= expected.items()


def test_deletions_name_each_pmid_in_its_place() -> None:
    deleted = "<DeleteCitation><PMID Version='1'>2</PMID><PMID>x</PMID><PMID>3</PMID></DeleteCitation>"
    entries = read(f"<MedlineCitationSet>{deleted}{citation()}</MedlineCitationSet>")
    reject = Reject("record 1", "The PMID 'x' of a deletion is not a number.")
    assert entries[:3] == [Deletion("2"), reject, Deletion("3")]


@pytest.mark.parametrize(("record", "position", "reason"), [
    (citation(pmid="2-a"), "record 2 (PMID 2-a)", "The PMID '2-a' is not a number."),
    (citation(pmid=" "), "record 2", "The PMID '' is not a number."),
    (citation("<ArticleTitle/>", "2"), "record 2 (PMID 2)", "It has neither a title nor an abstract."),
    ("", "record 2", "The PMID '' is not a number."),
])
def test_the_records_after_an_unreadable_one_are_read(record: str, position: str, reason: str) -> None:
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






@pytest.mark.parametrize("article", [
    "<ArticleTitle>&l11;</ArticleTitle>",
    f"{TITLE}<Abstract><AbstractText Label='&l11;'>One.</AbstractText></Abstract>",
])
def test_an_entity_bomb_ends_in_one_reject(article: str) -> None:
    entries = read(BOMB + article_set(citation(), citation(article, "2"), citation(pmid="3")))
    assert ids(entries) in (["1"], ["1", "3"])  # by whether the parser or the reader stops it
    assert len(entries) == len(ids(entries)) + 1


def test_external_entities_are_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    doctype = f"<!DOCTYPE PubmedArticleSet [<!ENTITY file SYSTEM '{secret.as_uri()}'>]>"
    reject = Reject("record 1 (PMID 2)", "It uses the entity &file;, and entities are not resolved.")
    assert read(doctype + article_set(citation("<ArticleTitle>&file;</ArticleTitle>", "2"))) == [reject]
# fmt: on


def file_of(count: int) -> io.BytesIO:
    return io.BytesIO(
        article_set(*(citation(pmid=str(n + 1), more=MESH) for n in range(count))).encode()
    )


def test_memory_does_not_grow_with_the_number_of_records() -> None:
    stream = file_of(1_500)
    tracemalloc.start()
    try:
        count = sum(isinstance(entry, Document) for entry in read_pubmed_xml(stream))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 1_500
    assert peak < 500_000  # bytes, for a file of 1.5 million


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


FORMULAS = {
    "×10^28": "×1028",
    "V.O2max": "V . O 2 m a x",
    "He 3/Xe 129": "He 3 / Xe 129",
    "H1 MRI": "H 1 MRI",
}
"""As they are read, and as the sample's extraction has them."""


@needs_data
def test_the_sample_files_agree_with_an_independent_extraction() -> None:
    expected = [row for row in rows("records_lxml.jsonl") if row["pmid"].isdigit()]
    files = dict.fromkeys(row["file"] for row in expected)
    documents = [entry for name in files for entry in sample(name) if isinstance(entry, Document)]
    differing: Counter[str] = Counter()
    for row, document in zip(expected, documents, strict=True):
        metadata = document.metadata
        abstract = document.page_content if metadata["kind"] == "abstract" else None
        assert document.id == row["pmid"]
        assert metadata.get("year") == year_in(row["year"] or row["medlinedate"])
        assert metadata["publication_types"] == "; ".join(map(str.strip, row["pubtypes"]))
        assert metadata["languages"] == "; ".join(row["languages"])
        if not row["title"]:
            differing["a vernacular title for a missing one"] += 1
            row["title"] = row["vernacular"]
        if not row["abstract"] and "eng" in row["other_abstract_langs"]:
            differing["an English OtherAbstract for a missing abstract"] += 1
            row["abstract"] = abstract
        if row["abstract"] == "OBJECTIVE: METHODS: RESULTS: CONCLUSIONS:":
            differing["labels without any text, which are no abstract"] += 1
            row["abstract"] = None
        for written_out, bare in FORMULAS.items():
            if abstract and written_out in abstract:
                differing[f"the formula {written_out}"] += 1
                abstract = abstract.replace(written_out, bare)
        assert (metadata["title"], abstract) == (row["title"], row["abstract"]), document.id
    assert sorted(differing.values()) == [1, 1, 1, 1, 1, 3, 7]
    assert len(documents) - differing.total() == 797


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def sample(name: str) -> list[Entry]:
    content = (DATA / name).read_bytes()
    return list(
        read_pubmed_xml(io.BytesIO(gzip.decompress(content) if name.endswith(".gz") else content))
    )
