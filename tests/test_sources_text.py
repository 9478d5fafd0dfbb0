import io

import pytest
from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sources.source import Reject
from briefcontext.knowledge.sources.texts import read_text
from briefcontext.knowledge.sources.web_page import read_html, read_markdown


def test_a_text_file_is_one_document_with_its_exact_text() -> None:
    text = "Dose: 5 µg.\r\n\r\n\tTwice daily.  \n"
    (entry,) = read_text(io.BytesIO(text.encode()), "guidelines/asthma.v2.txt.gz")
    assert entry == Document(
        id="guidelines/asthma.v2.txt.gz",
        page_content=text,
        metadata={
            "source_id": "guidelines/asthma.v2.txt.gz",
            "title": "asthma.v2",
            "kind": "text",
            "chunk_index": 0,
            "start": 0,
            "end": len(text),
        },
    )


@given(st.text(st.characters(exclude_characters="\0\ufeff", exclude_categories=["Cs"])))
def test_text_is_not_changed(text: str) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (entry,) = read_text(io.BytesIO(text.encode(encoding)), "f/a.txt")
        if text.strip():
            assert isinstance(entry, Document)
            assert entry.page_content == text
        else:
            assert entry == Reject("the whole file", "It has no text.")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "It has no text."),
        (
            b"Dose: 5 \xb5g",
            "It is not UTF-8 (byte 0xb5 at 8): convert it to UTF-8, for example with `iconv -f "
            "WINDOWS-1252 -t UTF-8`.",
        ),
        (b"PK\x00\x03", "It holds NUL characters: it is not text."),
    ],
)
def test_undecodable_text_is_rejected(content: bytes, reason: str) -> None:
    for reader in (read_text, read_markdown):
        (entry,) = reader(io.BytesIO(content), "f/a.txt")
        assert isinstance(entry, Reject)
        assert entry.position == "the whole file"
        assert entry.reason.startswith(reason)


def markdown(text: str) -> Document:
    (entry,) = read_markdown(io.BytesIO(text.encode()), "f/a.md")
    assert isinstance(entry, Document), entry
    return entry


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n# Two", "One"),
        ("---\ntitle: 'One'\ndate: 2020\n---\n# Two", "One"),
        ("Text\n\n---\n\nMore", "a"),
    ],
)
def test_the_title_of_markdown_is_the_front_matters_else_the_first_heading(
    text: str, title: str
) -> None:
    assert markdown(text).metadata["title"] == title
    assert markdown(text).metadata["kind"] == "markdown"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("# A\n## B\n\n### C ###\r\nc\n## D\n# E", ["A", "A › B", "A › B › C", "c", "A › D", "E"]),
        ("3. One\n4. Two\n   - in\n\n- [x] done", ["3. One", "4. Two", "  - in", "- ☒ done"]),
        ("10<sup>9</sup>/L, H<sub>2</sub>O, $\\frac{a}{72b}$", ["10^9/L, H2O, a/(72b)"]),
    ],
)
def test_markdown_is_read_block_by_block(text: str, read: list[str]) -> None:
    assert markdown(text).page_content.split("\n\n") == read


PAGE = """<!DOCTYPE html><html><head><title>Zinc
for colds</title><style>p {color: red}</style></head><body><nav><a href="/">Home</a></nav>
<h2>Results</h2><p>Zinc
<i>shortened</i> colds<sup>1</sup> (<b>P</b>=0.01).<!-- checked --> None was severe.</p>
<ul><li>Dose: 5 µg</li>
<li>10<sup>9</sup>/L</li></ul>
<table><tr><th>Group</th><th>Days</th></tr><tr><td>Zinc</td><td>4</td></tr></table>
<script>let a = "<p>No.</p>"</script>
<p>One.</p>Two.<br>Three.</body></html>"""


def test_html_is_read_block_by_block_without_menus_and_scripts() -> None:
    (entry,) = read_html(io.BytesIO(PAGE.encode()), "f/zinc.html")
    assert isinstance(entry, Document)
    assert entry.page_content.split("\n\n") == [
        *(
            "Results",
            "Zinc shortened colds^1 (P=0.01). None was severe.",
            "- Dose: 5 µg",
            "- 10^9/L",
            "Group: Zinc | Days: 4",
        ),
        *("One.", "Two. Three."),
    ]
    assert (entry.metadata["title"], entry.metadata["kind"]) == ("Zinc for colds", "text")


HEADS = "<tr><th rowspan=2>Weight<th colspan=2>Adults<th>Children<tr><th>Oral<th>IV<th>Oral"


@pytest.mark.parametrize(
    ("rows", "read"),
    [
        (
            f"{HEADS}<tr><td>all<td>5 mg<td>1 mg<td>2 mg",
            ["Weight: all | Adults › Oral: 5 mg | Adults › IV: 1 mg | Children › Oral: 2 mg"],
        ),
        (
            f"<tbody>{HEADS}<tr><th rowspan=0>all<td>5 mg<td colspan=2>never<tr><td rowspan=9>6 "
            f"mg<td><td>1 g"
            "</tbody><tr><td>b<td>c<td>d<td>e",
            [
                "Weight: all | Adults › Oral: 5 mg | Adults › IV: never | Children › Oral: never",
                "Weight: all | Adults › Oral: 6 mg | Children › Oral: 1 g",
                "Weight: b | Adults › Oral: c | Adults › IV: d | Children › Oral: e",
            ],
        ),
        (
            "<tr><td rowspan=2>Adults<td>Day 1<td>5 mg<tr><td>Day 2<td>1 mg<tr><td colspan=3>Not "
            "to children"
            "<tr><td colspan=3>under 12<tr><td>Day 1<td>of<td>age",
            [
                *("Adults | Day 1 | 5 mg", "Adults | Day 2 | 1 mg", "Not to children", "under 12"),
                "Not to children › under 12 | Day 1 | of | age",
            ],
        ),
    ],
)
def test_a_cell_that_spans_rows_or_columns_is_in_each_of_them(rows: str, read: list[str]) -> None:
    (entry,) = read_html(io.BytesIO(f"<table>{rows}</table>".encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content.split("\n\n") == read


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<meta charset="windows-1252"><p>Dose: 5 µg</p>'.encode("cp1252"), "Dose: 5 µg"),
        (
            "<p>Dose: 5 µg</p>".encode("cp1252"),
            "It is not UTF-8, and states no charset: convert it to UTF-8.",
        ),
        (b"", "It has no text."),
        (b"<html><body><p>A\x0bdose\x01 of&#11;zinc</p>\x0c</body></html>", "A dose of zinc"),
        (b"<p>" * 3000 + b"Deep", "Deep"),
    ],
)
def test_html_of_any_kind_is_read_or_rejected(content: bytes, text: str) -> None:
    (entry,) = read_html(io.BytesIO(content), "f/a.html")
    assert (
        entry.page_content if isinstance(entry, Document) else getattr(entry, "reason", "")
    ) == text
