"""Words and figures of generated documents are read in order, with exponents, signs and cells."""

import io
import zipfile
from collections.abc import Iterator
from html import escape

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sources.jats import read_jats
from briefcontext.knowledge.sources.office import read_office
from briefcontext.knowledge.sources.web_page import read_html

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
EXAMPLES = settings(max_examples=30, deadline=None)

Token = str | tuple[str, str]
"""A word or figure, or a base with its exponent."""
Block = tuple[str, int, list[list[Token]]]
"""`p`, `ol` with the first number, or `table`; its paragraph, items or rows."""

words = st.text("abcdefgxyz", min_size=1, max_size=6)
figures = st.builds(
    str.__add__,
    st.sampled_from(["", "−", "±", "<", "≥", "~"]),
    st.sampled_from(["5", "0.25", "1,000", "40 mg", "12.5%", "10–50"]),
)
powers = st.tuples(
    st.sampled_from(["10", "x", "SCr", "(a)"]), st.sampled_from(["9", "−3", "4.5", "n"])
)
tokens = words | figures | powers
paragraphs = st.lists(tokens, min_size=1, max_size=5)
blocks = st.one_of(
    st.builds(lambda line: ("p", 0, [line]), paragraphs),
    st.builds(
        lambda first, items: ("ol", first, [[item] for item in items]),
        st.integers(1, 90),
        st.lists(words, min_size=1, max_size=4),
    ),
    st.integers(2, 4).flatmap(
        lambda width: st.builds(
            lambda header, rows: ("table", 0, [header, *rows]),
            st.lists(words, min_size=width, max_size=width),
            st.lists(
                st.lists(tokens | st.just(""), min_size=width, max_size=width),
                min_size=1,
                max_size=4,
            ),
        )
    ),
)
documents = st.lists(blocks, min_size=1, max_size=5)


def text_of(token: Token) -> str:
    return token if isinstance(token, str) else "^".join(token)


def expected(document: list[Block]) -> Iterator[str]:
    for kind, first, lines in document:
        if kind == "p":
            yield " ".join(map(text_of, lines[0]))
        elif kind == "ol":
            yield from (f"{number}. {text_of(line[0])}" for number, line in enumerate(lines, first))
        else:
            header, *rows = [[text_of(cell) for cell in line] for line in lines]
            if not all(any(column) for column in zip(*rows, strict=True)):
                yield " | ".join(dict.fromkeys(header))
            for row in rows:
                cells = zip(header, row, strict=True)
                if line := " | ".join(f"{name}: {cell}" for name, cell in cells if cell):
                    yield line


def as_html(document: list[Block], *, heads: bool = True) -> str:
    def token(value: Token) -> str:
        if isinstance(value, str):
            return escape(value)
        return f"{value[0]}<sup>{value[1]}</sup>"

    def row(line: list[Token], cell: str) -> str:
        return f"<tr>{''.join(f'<{cell}>{token(value)}</{cell}>' for value in line)}</tr>"

    def block(kind: str, first: int, lines: list[list[Token]]) -> str:
        if kind == "p":
            return f"<p>{' '.join(map(token, lines[0]))}</p>"
        if kind == "ol":
            items = "".join(f"<li>{token(line[0])}</li>" for line in lines)
            return f'<ol start="{first}">{items}</ol>'
        head = row(lines[0], "th" if heads else "td")
        return f"<table>{head}{''.join(row(line, 'td') for line in lines[1:])}</table>"

    return "\n".join(block(*part) for part in document)


def as_jats(document: list[Block]) -> bytes:
    body = ""
    for kind, first, lines in document:
        if kind == "ol":
            items = "".join(
                f"<list-item><label>{number}.</label><p>{line[0]}</p></list-item>"
                for number, line in enumerate(lines, first)
            )
            body += f"<list list-type='order'>{items}</list>"
        elif kind == "table":
            body += f"<table-wrap>{as_html([(kind, first, lines)])}</table-wrap>"
        else:
            body += as_html([(kind, first, lines)])
    ids = "<article-id pub-id-type='pmc'>1</article-id>"
    return (
        f"<article><front><article-meta>{ids}</article-meta></front><body>{body}</body></article>"
    ).encode()


def as_word(document: list[Block]) -> bytes:
    def run(text: str, properties: str = "") -> str:
        written = f'<w:t xml:space="preserve">{escape(text)}</w:t>'
        return f"<w:r><w:rPr>{properties}</w:rPr>{written}</w:r>"

    def token(value: Token) -> str:
        if isinstance(value, str):
            return run(value)
        return run(value[0]) + run(value[1], '<w:vertAlign w:val="superscript"/>')

    def paragraph(line: list[Token], properties: str = "") -> str:
        runs = run(" ").join(map(token, line))
        return f"<w:p><w:pPr>{properties}</w:pPr>{runs}</w:p>"

    body, numbering, instances = "", "", ""
    for number, (kind, first, lines) in enumerate(document, start=1):
        if kind == "ol":
            level = f'<w:start w:val="{first}"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/>'
            numbering += (
                f'<w:abstractNum w:abstractNumId="{number}"><w:lvl w:ilvl="0">{level}</w:lvl>'
                f"</w:abstractNum>"
            )
            instances += f'<w:num w:numId="{number}"><w:abstractNumId w:val="{number}"/></w:num>'
            mark = f'<w:numPr><w:ilvl w:val="0"/><w:numId w:val="{number}"/></w:numPr>'
            body += "".join(paragraph(line, mark) for line in lines)
        elif kind == "p":
            body += paragraph(lines[0])
        else:
            rows = ["".join(f"<w:tc>{paragraph([cell])}</w:tc>" for cell in line) for line in lines]
            rows[0] = f"<w:trPr><w:tblHeader/></w:trPr>{rows[0]}"
            body += f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"
        body += "<w:p/>"
    return word_file(body, numbering + instances)


def relations(**targets: str) -> str:
    links = "".join(
        f'<Relationship Id="{kind}" Type="{KINDS}/{kind}" Target="{target}"/>'
        for kind, target in targets.items()
    )
    return f'<Relationships xmlns="{RELATIONS}">{links}</Relationships>'


def word_file(body: str, numbering: str = "") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in (("document", f"<w:body>{body}</w:body>"), ("numbering", numbering)):
            xml = f'<w:{name} xmlns:w="{WORD}">{content}</w:{name}>'
            file.writestr(f"word/{name}.xml", xml)
        file.writestr("_rels/.rels", relations(officeDocument="word/document.xml"))
        file.writestr("word/_rels/document.xml.rels", relations(numbering="numbering.xml"))
    return stream.getvalue()


@EXAMPLES
@given(documents)
def test_html_keeps_words_figures_and_cells_in_place(document: list[Block]) -> None:
    (entry,) = read_html(io.BytesIO(as_html(document).encode()), "f/a.html")
    check(entry, document)


@EXAMPLES
@given(documents)
def test_jats_keeps_words_figures_and_cells_in_place(document: list[Block]) -> None:
    (entry,) = read_jats(io.BytesIO(as_jats(document)))
    check(entry, document)


@EXAMPLES
@given(documents)
def test_word_keeps_words_figures_and_cells_in_place(document: list[Block]) -> None:
    (entry,) = read_office(io.BytesIO(as_word(document)), "f/a.docx", format="docx")
    check(entry, document)


def check(entry: object, document: list[Block]) -> None:
    lines = list(expected(document))
    assert isinstance(entry, Document)
    assert entry.page_content.split("\n\n") == lines


@pytest.mark.parametrize("figure", ["5 mg", "<40", "−2"])
def test_a_first_row_with_a_figure_is_not_a_header(figure: str) -> None:
    table: list[Block] = [("table", 0, [["drug", figure], ["other", ""]])]
    (entry,) = read_html(io.BytesIO(as_html(table, heads=False).encode()), "f/a.html")
    assert isinstance(entry, Document)
    assert entry.page_content.split("\n\n") == [f"drug | {figure}", "other |"]
