import io
import json

import pytest
from hypothesis import assume, given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sentences import list_lines
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
        (b"\xef\xbb\xbf \n", "It has no text."),
        (
            b"Dose: 5 \xb5g",
            "It is not UTF-8 (byte 0xb5 at 8): convert it to UTF-8, for example with `iconv -f "
            "WINDOWS-1252 -t UTF-8`.",
        ),
        (b"\xff\xfea\0b", "It is not UTF-16-LE (byte 0x62 at 4): convert it to UTF-8"),
        (b"PK\x00\x03", "It holds NUL characters: it is not text."),
    ],
)
def test_what_is_not_text_is_rejected_rather_than_guessed_at(content: bytes, reason: str) -> None:
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
        ("```sh\n# a comment\n```\n# One", "One"),
        ("---\ntitle: 'One'\ndate: 2020\n---\n# Two", "One"),
        ("---\ntitle: notes.docx\n---\n# Two", "Two"),
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
        ("### A\n# B\n### C\n## D", ["A", "B", "B › C", "B › D"]),
        ("# A\r## B\r\rc\r", ["A", "A › B", "c"]),
        ("# A\n> # Q\n> q\n\nb", ["A", "Q", "q", "A", "b"]),
        ("3. One\n4. Two\n   - in\n\n- [x] done", ["3. One", "4. Two", "  - in", "- ☒ done"]),
        ("10<sup>9</sup>/L, H<sub>2</sub>O, $\\frac{a}{72b}$", ["10^9/L, H2O, a/(72b)"]),
        ("5 mg[^1] daily\n\n[^1]: with food", ["5 mg (with food) daily"]),
    ],
)
def test_markdown_is_read_block_by_block(text: str, read: list[str]) -> None:
    assert markdown(text).page_content.split("\n\n") == read


@settings(max_examples=20)
@given(st.text(st.sampled_from("#=- >\tab\r\n`")))
def test_no_letter_of_markdown_is_lost(text: str) -> None:
    assume("```" not in text)  # The word after it names a language.
    (entry,) = read_markdown(io.BytesIO(f"{text}x".encode()), "f/a.md")
    assert isinstance(entry, Document)
    letters = iter(entry.page_content)
    assert all(letter in letters for letter in text if letter in "ab")


PAGE = """<!DOCTYPE html><html><head><title>Zinc
for colds</title><style>p {color: red}</style></head><body><nav><a href="/">Home</a></nav><h2>Results</h2><p>Zinc
<i>shortened</i> colds<sup>1</sup> (<b>P</b>=0.01).<!-- checked --> None was severe.</p><ul><li>Dose: 5 µg</li>
<li>10<sup>9</sup>/L</li></ul>
<table><tr><th>Group</th><th>Days</th></tr><tr><td>Zinc</td><td>4</td></tr></table><script>let a = "<p>No.</p>"</script>
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


LISTS = """<h2>Do <b>not</b> use</h2><ul><li><p>In adults:</p><p>See below.</p><ul><li>Asthma</ul>or<li></li><li>In
children</ul><p>It is old.</p><h2>Use</h2><ol><li>In epilepsy</ol><dl><dt>Dose<dd>5 mg</dl>"""


POWER_TWICE = (
    "<math><semantics><msup><mn>10</mn><mn>9</mn></msup><annotation encoding='application/x-tex'>10^9</annotation>"
    "</semantics></math><span aria-hidden='true'>10<b>9</b></span>"
)


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ("10<!-- a --><sup>9</sup>", "10^9"),
        ("10<a id='b'></a><i><sup>9 </sup></i>mg", "10^9 mg"),
        ("10<sup>9/L</sup>", "10^9/L"),
        ("2012<a href='#c'><sup>3, 4</sup></a>", "2012[3, 4]"),
        ("10<i style='vertical-align: super'>9</i>", "10^9"),
        (f"{POWER_TWICE}/L", "10^9/L"),
        ("3.<sup>4</sup> 5 <sup>18</sup>F, 2<sup>nd</sup>", "3.[4] 5 18F, 2nd"),
    ],
)
def test_what_is_raised_behind_a_number_makes_no_other_of_it(raised: str, text: str) -> None:
    (entry,) = read_html(io.BytesIO(f"<p>{raised}</p>".encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content == text


def test_html_keeps_its_lists_and_headings() -> None:
    (entry,) = read_html(io.BytesIO(LISTS.encode()), "f/a.html")
    assert isinstance(entry, Document)
    text = entry.page_content
    assert text.split("\n\n") == [
        *(
            "Do not use",
            "- In adults:",
            "  See below.",
            "  - Asthma",
            "  or",
            "- In children",
            "It is old.",
        ),
        *("Use", "1. In epilepsy", "Dose", "- 5 mg"),
    ]
    assert list_lines(text, text.index("Asthma")) == [
        "Do not use",
        "- In adults:",
        "  See below.",
        "  - ",
    ]
    assert list_lines(text, text.index("children")) == ["Do not use", "- In "]
    use = text.index("Use")
    assert json.loads(entry.metadata["sections"]) == [
        ["Do not use", 0, use],
        ["Use", use, len(text)],
    ]


DOSES = "<tr><th>Weight<th>Adult<br>dose<tr><th>under 40 kg<td><p>500 mg</p>b.i.d.<tr><td>others<td>1\x0bg"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            DOSES,
            "Weight: under 40 kg | Adult dose: 500 mg b.i.d.\n\nWeight: others | Adult dose: 1 g",
        ),
        (
            f"<thead>{DOSES}<tbody><tr><td colspan=2>Per day",
            "Weight: under 40 kg | Adult dose: 500 mg b.i.d.\n\nWeight: others | Adult dose: 1 "
            "g\n\nPer day",
        ),
        ("<tr><th>" + "a" * 201 + "<tr><td>5 mg", "a" * 201 + "\n\n" + "a" * 199 + "…: 5 mg"),
        ("<tr><th>Dose<td>5 mg", "Dose | 5 mg"),
        ("<thead><tr><td>For<td>Dose<tbody><tr><td>men<td>5 mg", "For: men | Dose: 5 mg"),
        (
            "<tr><td colspan=2>Doses<tr><td>Drug<td>Child<tr><td>A<td>1 mg<tr><td>B<td>",
            "Doses\n\nDrug: A | Child: 1 mg\n\nDrug: B",
        ),
        (
            f"<tr><th>a<tr><td>b<table>{DOSES}</table>",
            "a\n\nb\n\nWeight: under 40 kg | Adult dose: 500 mg",
        ),
    ],
)
def test_cells_of_html_are_named_by_their_headers(rows: str, text: str) -> None:
    (entry,) = read_html(io.BytesIO(f"<table>{rows}</table>".encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content.startswith(text)


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
            "<tr><td><th>Dose<tr><th colspan=2>Adults<tr><td>Day 1<td>5 mg<tr><td "
            "colspan=2>Children"
            "<tr><td>Day 1<td>1 mg",
            ["Adults", "Adults | Day 1 | Dose: 5 mg", "Children", "Children | Day 1 | Dose: 1 mg"],
        ),
        (
            "<tr><th>Drug<th>Dose<tr><td>a<td>5 mg<tr><th>Drug<th>Risk<tr><td>a<td>b",
            ["Drug: a | Dose: 5 mg", "Drug: a | Risk: b"],
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
        (
            f"<tr><th>A<th>B<tr><td rowspan=2>{'a' * 300}<td>1<tr><td>2",
            [f"A: {'a' * 300} | B: 1", f"A: {'a' * 199}… | B: 2"],
        ),
        (f"<tr><td rowspan=2>{'a' * 201}<td>b<tr><td>c", ["a" * 201 + " | b", "a" * 199 + "… | c"]),
        ("<tr><th><p>a<th>b<tr><td><p>c<p>d<td><div>e</div>", ["a: c d | b: e"]),
        ("<tr><td><h2>c</h2>d<td><ul><li>e</ul>", ["c", "d", "- e"]),
    ],
)
def test_a_cell_that_spans_rows_or_columns_is_in_each_of_them(rows: str, read: list[str]) -> None:
    (entry,) = read_html(io.BytesIO(f"<table>{rows}</table>".encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content.split("\n\n") == read


STRUCK = ("<del>10</del>", "<s>10</s>", "<strike>10</strike>", "<i hidden>10</i>", "<i style='Display : NONE'>10</i>",
    "<i style='color: red; visibility:hidden'>1<b>0</b></i>", "<i style='text-decoration: line-through'>10</i>",
    "<video>10</video>",
)  # fmt: skip


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (
            "<table><tr><td>10</td><td style='vertical-align: super'>5 mg</td></tr></table>",
            "10 | 5 mg",
        ),
        ("<p>Give 10</p><p style='vertical-align:super'>5 mg</p>", "Give 10\n\n5 mg"),
        ("<table><tr><td>12</td><td><sup>1</sup> with food</td></tr></table>", "12 | 1 with food"),
        ("<p>In 2010</p><p><sup>99m</sup>Tc</p>", "In 2010\n\n99mTc"),
        (
            "<p><i aria-hidden='true'>Never give it.</i> Let <b>it</b> <math>x</math>.</p>",
            "Never give it. Let it x.",
        ),
        ("<p>5 <img alt='µ'>g, 1<img alt='.'>5, <img alt='−'>3</p>", "5 µg, 1.5, −3"),
    ],
)
def test_what_stands_in_another_cell_or_paragraph_is_no_part_of_a_number(
    page: str, text: str
) -> None:
    (entry,) = read_html(io.BytesIO(page.encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content == text


@pytest.mark.parametrize("struck", STRUCK)
def test_what_a_page_strikes_out_or_hides_is_left_out(struck: str) -> None:
    (entry,) = read_html(io.BytesIO(f"<p>Give {struck} 5 mg.</p>".encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content == "Give 5 mg."


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<meta charset="windows-1252"><p>Dose: 5 µg</p>'.encode("cp1252"), "Dose: 5 µg"),
        (
            "<p>Dose: 5 µg</p>".encode("cp1252"),
            "It is not UTF-8, and states no charset: convert it to UTF-8.",
        ),
        (b'<?xml version="1.0" encoding="UTF-8"?><html><body>Dose</body></html>', "Dose"),
        (b"", "It has no text."),
        (b"<html><body><script>x</script></body></html>", "It has no text."),
        (b"<html><body><p>A\x0bdose\x01 of&#11;zinc</p>\x0c</body></html>", "A dose of zinc"),
        ("<p>Dose: 5 µg</p>".encode("utf-16"), "Dose: 5 µg"),
        ("<p>Dose: 5 µg</p>".encode(), "Dose: 5 µg"),
        ('<script charset="utf-8" src="x"></script><p>Dose: 5 µg</p>'.encode(), "Dose: 5 µg"),
        ('<meta charset="iso-8859-1"><p>Dose: 5 µg</p>'.encode(), "Dose: 5 µg"),
        ('<meta charset="iso-2022-jp"><p>アスピリン</p>'.encode("iso-2022-jp"), "アスピリン"),
        (b"<p>" * 3000 + b"Deep", "Deep"),
    ],
)
def test_html_of_any_kind_is_read_or_rejected(content: bytes, text: str) -> None:
    (entry,) = read_html(io.BytesIO(content), "f/a.html")
    assert (
        entry.page_content if isinstance(entry, Document) else getattr(entry, "reason", "")
    ) == text
