import io
import json

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sources.jats import read_jats
from briefcontext.knowledge.sources.source import Entry, Reject

PMC, DOI, PMID = (
    f"<article-id pub-id-type='{kind}'>{value}</article-id>"
    for kind, value in {"pmc": "1", "doi": "10.0/x", "pmid": "2"}.items()
)
TITLE = "<title-group><article-title>Title</article-title></title-group>"
DATE = "<pub-date pub-type='{}'><year>{}</year></pub-date>"
RELATED = "<related-article related-article-type='{}'/>"
TEX = r"\documentclass[12pt]{minimal} \begin{document}$$x = 1$$\end{document}"
MATH = "<mml:math xmlns:mml='http://www.w3.org/1998/Math/MathML'><mml:mi>x</mml:mi></mml:math>"


def article(
    body: str = "", meta: str = PMC + TITLE, kind: str = "research-article", after: str = ""
) -> str:
    front = f"<front><article-meta>{meta}</article-meta></front>"
    return f"<article article-type='{kind}'>{front}<body>{body}</body>{after}</article>"


def read(xml: str) -> list[Entry]:
    return list(read_jats(io.BytesIO(xml.encode())))


def read_one(xml: str) -> Document:
    (entry,) = read(xml)
    assert isinstance(entry, Document)
    return entry


def sections(document: Document) -> list[tuple[str, str]]:
    """Headings and texts, the text without its heading."""
    text = document.page_content
    found = [
        (heading, text[start:end])
        for heading, start, end in json.loads(document.metadata["sections"])
    ]
    assert all(section.startswith(heading) for heading, section in found)
    assert "".join(section for _, section in found) == text
    return [(heading, section.removeprefix(heading).strip("\n")) for heading, section in found]


def test_an_article_is_one_document_with_its_metadata() -> None:
    xml = article("<p>Text.</p>", PMC + DOI + PMID + TITLE + DATE.format("epub", 2010))
    journal = "<journal-meta><journal-title>J</journal-title></journal-meta>"
    document = read_one(xml.replace("<front>", f"<front>{journal}"))
    assert document.id == "PMC1"
    assert document.page_content == "Title\n\nText."
    assert document.metadata == {
        "source_id": "PMC1",
        "pmid": "2",
        "title": "Title",
        "kind": "article",
        "year": 2010,
        "journal": "J",
        "languages": "eng",
        "doi": "10.0/x",
        "publication_types": "research-article",
        "retracted": False,
        "retraction_notice": False,
        "url": "https://pmc.ncbi.nlm.nih.gov/articles/PMC1/",
        "sections": '[["Title",0,7],["",7,12]]',
        "chunk_index": 0,
        "start": 0,
        "end": 12,
    }


@pytest.mark.parametrize(
    ("found", "by", "expected"),
    [
        ("<article ", "<article xml:lang='pt-BR' ", {"languages": "por"}),
        ("<article ", "<article xml:lang='xx' ", {"languages": "xx"}),
        (
            "<front>",
            "<front><journal-meta><journal-id journal-id-type='nlm-ta'>J "
            "Bees</journal-id></journal-meta>",
            {"journal_abbreviation": "J Bees"},
        ),
        (
            "</article-meta>",
            "<kwd-group><kwd>A</kwd></kwd-group><kwd-group kwd-group-type='MeSH'><kwd>Bees</kwd>"
            "<kwd>Gout</kwd></kwd-group></article-meta>",
            {"mesh": "Bees; Gout"},
        ),
    ],
)
def test_filter_fields_are_read(found: str, by: str, expected: dict[str, object]) -> None:
    assert read_one(article("<p>Text.</p>").replace(found, by)).metadata.items() >= expected.items()


@pytest.mark.parametrize(
    ("ids", "source_id", "url"),
    [
        (DOI + PMC, "PMC1", "https://pmc.ncbi.nlm.nih.gov/articles/PMC1/"),
        (PMID + DOI, "10.0/x", "https://doi.org/10.0/x"),
        (PMID, "pmid:2", "https://pubmed.ncbi.nlm.nih.gov/2/"),
    ],
)
def test_the_id_is_the_pmc_id_or_the_doi_or_another(ids: str, source_id: str, url: str) -> None:
    document = read_one(article("<p>Text.</p>", ids + TITLE))
    assert document.id == document.metadata["source_id"] == source_id
    assert document.metadata["url"] == url


def test_sections_come_in_order_with_their_headings() -> None:
    abstracts = (
        "<abstract><sec><title>Aim</title><p>A.</p></sec></abstract>"
        "<abstract abstract-type='summary'><title>Summary</title><p>B.</p></abstract>"
        "<abstract abstract-type='graphical'><p>Picture.</p></abstract>"
    )
    body = (
        "<p>Lead.</p><sec><label>1</label><title>Methods</title><p>C.</p>\n<p>D.</p>"
        "<sec><title>Drug <italic>A</italic></title><p>E.</p></sec></sec><sec>"
        "<title>Empty</title></sec>"
    )
    floats = (
        "<floats-group><fig><label>Figure 1</label><caption><p>F.</p></caption></fig>"
        "</floats-group>"
    )
    assert sections(read_one(article(body, PMC + TITLE + abstracts, after=floats))) == [
        ("Title", ""),
        ("Abstract", ""),
        ("Abstract › Aim", "A."),
        ("Summary", "B."),
        ("", "Lead."),
        ("Methods", "C.\n\nD."),
        ("Methods › Drug A", "E."),
        ("Empty", ""),
        ("", "Figure 1. F."),
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>Give <strike>10 mg</strike> 5 mg.</p>", "Give 5 mg."),
        (
            "<p>2.4 &#215; <italic>10</italic><sup>9</sup>/L, 10<sup>&#8722;3</sup> and "
            "10<sup>4.5</sup> of 5 "
            "<sup>18</sup>F, CD4<sup>+</sup>, kg<sup>-1</sup></p>",
            "2.4 × 10^9/L, 10^−3 and 10^4.5 of 5 18F, CD4^+, kg^-1",
        ),
        ("<p>In 2010<sup><xref ref-type='bibr' rid='B1'>1</xref></sup>.</p>", "In 2010[1]."),
        (
            "<p>Two:<list><list-item><label>1</label><p>One.</p></list-item><list-item>"
            "<p>Two.</p></list-item></list>"
            "then <bold>more</bold>.</p>",
            "Two:\n\n- 1 One.\n\n- Two.\n\nthen more.",
        ),
        (
            "<p>Text<fig><object-id>10.0/f</object-id><label>Figure "
            "1.</label><caption><title>What.</title>"
            "<p>Why.</p></caption><graphic/></fig> goes on.</p>",
            "Text\n\nFigure 1. What. Why.\n\ngoes on.",
        ),
        (
            "<table-wrap><label>Table "
            "1</label><caption><p>Rates.</p></caption><alternatives><graphic/>"
            "<table><tr><td>9*</td></tr></table></alternatives><table-wrap-foot><fn>"
            "<label>*</label><p>n</p></fn>"
            "</table-wrap-foot>"
            "</table-wrap>",
            "Table 1. Rates.\n\n9*\n\n* n",
        ),
    ],
)
def test_the_body_reads_as_paragraphs(body: str, text: str) -> None:
    assert read_one(article(body)).page_content == f"Title\n\n{text}"


@pytest.mark.parametrize(
    ("title", "kind", "related", "retracted", "notice"),
    [
        ("Bees", "research-article", "companion", False, False),
        ("Bees", "research-article", "retraction-forward", True, False),
        ("RETRACTED ARTICLE: Bees", "research-article", "companion", True, False),
        ("Retracted: Bees", "research-article", "companion", True, False),
        ("Retracted papers: a survey", "research-article", "companion", False, False),
        ("[RETRACTED ARTICLE]: Bees", "retraction", "retracted-article", False, True),
    ],
)
def test_retracted_articles_differ_from_retraction_notices(
    title: str, kind: str, related: str, retracted: bool, notice: bool
) -> None:
    meta = PMC + TITLE.replace("Title", title) + RELATED.format(related)
    metadata = read_one(article(meta=meta, kind=kind)).metadata
    assert (metadata["retracted"], metadata["retraction_notice"]) == (retracted, notice)


def test_a_cut_set_yields_its_complete_articles_and_one_reject() -> None:
    first, last = read(f"<pmc-articleset>{article()}\n{article()[:-20]}")
    assert isinstance(first, Document)
    assert isinstance(last, Reject)
    assert last.position == "line 2"


MARKUP = st.recursive(
    st.text(st.characters(categories=["Lu", "Ll", "Zs"]), max_size=8),
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
        st.sampled_from(
            ["p", "sec", "title", "list", "list-item", "italic", "fig", "caption", "boxed-text"]
        ),
        st.lists(inner, max_size=4),
    ),
)


@given(MARKUP)
def test_sections_cover_the_text_in_order_whatever_the_markup(body: str) -> None:
    sections(read_one(article(body)))
