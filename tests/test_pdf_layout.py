"""The law of PDF: words, figures, exponents and rows that go in come out, in order."""

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sources.pdf import read_pdf

pytest.importorskip("pypdfium2", reason="the pdf extra is not installed")
pytest.importorskip("reportlab", reason="the dev extra is not installed")

from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

FONT, SIZE, LEADING, TOP = "Helvetica", 9, 12, 780
WORDS = (
    *("in", "a", "trial", "of", "this", "toy", "drug", "adults", "with", "renal", "disease"),
    *("were", "given", "half", "the", "usual", "dose", "and", "children", "none", "±2", "×3"),
    *("µg", "0.05", "7.5", "10^9/L", "10^-3", "4.5×10^12", "(10^6)"),
)
CELLS = ("12", "4.5", "0.05", "3 (0.4)", "10^9", "none", "-2", "±1", "<10", "half")
PAGE = (612, 792)

prose = st.lists(st.sampled_from(WORDS), min_size=60, max_size=90)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.sampled_from(CELLS)] * width), min_size=2, max_size=6)
)


class Page:
    """A page that draws its text in one of the ways that programs do."""

    def __init__(self, scale: str = "font", rotation: int = 0, *, turned: bool = False) -> None:
        self.stream = io.BytesIO()
        self.scale = scale
        self.canvas = Canvas(self.stream, pagesize=PAGE[::-1] if turned else PAGE)
        self.canvas.setPageRotation(rotation)
        if turned:
            self.canvas.translate(PAGE[1], 0)
            self.canvas.rotate(90)

    def draw(self, x: float, y: float, words: str) -> None:
        """Draw words; a number after ^ is raised."""
        for piece in _pieces(words):
            raised = piece.startswith("^")
            size = SIZE * (0.6 if raised else 1)
            self._draw_piece(x, y + raised * 0.4 * SIZE, piece.removeprefix("^"), size)
            x += stringWidth(piece.removeprefix("^"), FONT, size)

    def _draw_piece(self, x: float, y: float, piece: str, size: float) -> None:
        self.canvas.saveState()
        font, matrix = size, (1, 0, 0, 1, x, y)
        if self.scale == "matrix":
            font, matrix = 1, (size, 0, 0, size, x, y)
        if self.scale == "page":
            self.canvas.scale(size, size)
            font, matrix = 1, (1, 0, 0, 1, x / size, y / size)
        text = self.canvas.beginText()
        text.setFont(FONT, font)
        text.setTextTransform(*matrix)
        text.textOut(piece)
        self.canvas.drawText(text)
        self.canvas.restoreState()

    def text(self) -> str:
        """Read the page."""
        self.canvas.save()
        (entry,) = read_pdf(io.BytesIO(self.stream.getvalue()), "page.pdf")
        assert isinstance(entry, Document), entry
        return entry.page_content


def _pieces(words: str) -> Iterator[str]:
    first, *others = words.split("^")
    yield first
    for other in others:
        end = next((n for n, sign in enumerate(other) if sign not in "-0123456789"), len(other))
        yield from ("^" + other[:end], other[end:])


def _width(words: Iterable[str]) -> float:
    return float(stringWidth(" ".join(words), FONT, SIZE))


def _wrapped(words: Sequence[str], width: float) -> list[str]:
    lines = [[words[0]]]
    for word in words[1:]:
        if _width([*lines[-1], word]) > width:
            lines.append([])
        lines[-1].append(word)
    return list(map(" ".join, lines))


@settings(max_examples=25, deadline=None)
@given(
    columns=st.lists(prose, min_size=1, max_size=3),
    rows=tables,
    scale=st.sampled_from(("font", "matrix", "page")),
    rotation=st.sampled_from((0, 90, 180, 270)),
    turned=st.booleans(),
    by_row=st.booleans(),
    offset=st.sampled_from((0, 2, 5)),
)
def test_words_exponents_and_rows_come_out_in_order(
    columns: list[list[str]],
    rows: list[tuple[str, ...]],
    scale: str,
    rotation: int,
    turned: bool,
    by_row: bool,
    offset: float,
) -> None:
    page = Page(scale, rotation, turned=turned)
    title = "Half of the usual dose of this toy drug in adults and children with disease, a trial"
    page.draw(40, TOP, title)
    width = 520 / len(columns) - 20
    lines = [
        (TOP - 30 - LEADING * number - offset * place, place, line)
        for place, words in enumerate(columns)
        for number, line in enumerate(_wrapped(words, width))
    ]
    if by_row:
        lines.sort(key=lambda line: -line[0])
    for y, place, line in lines:
        page.draw(40 + place * (width + 20), y, line)
    bottom = min(y for y, _, _ in lines) - 40
    for number, row in enumerate(rows):
        for place, cell in enumerate(row):
            page.draw(40 + 520 / len(row) * place, bottom - LEADING * number, cell)
    text = page.text()
    table = [" ".join(row) for row in rows]
    assert text.split() == [*title.split(), *chain(*columns), *" ".join(table).split()]
    assert text.splitlines()[-len(rows) :] == table


@pytest.mark.parametrize(
    ("base", "raised", "text"),
    [
        ("SCr", "1.154", "SCr^1.154"),
        ("0.993", "age", "0.993^age"),
        ("the 5", "th", "the 5th"),
        ("trials", "12", "trials12"),
    ],
)
def test_an_exponent_differs_from_a_citation(base: str, raised: str, text: str) -> None:
    page = Page()
    page.draw(40, 700, base)
    page._draw_piece(40 + stringWidth(base, FONT, SIZE), 703.6, raised, 5.4)
    assert page.text() == text


def test_a_form_is_read_with_its_values_and_boxes() -> None:
    page = Page()
    form = page.canvas.acroForm
    page.draw(40, 740, "Dose in mg:")
    form.textfield(name="dose", x=200, y=736, width=120, height=16, value="500", borderWidth=0)
    page.draw(40, 715, "Interval:")
    options = ["every 6 hours", "every 8 hours"]
    form.choice(name="interval", x=200, y=711, width=120, height=16, options=options,
                value=options[1], borderWidth=0)  # fmt: skip
    for x, label, selected in ((60, "oral", False), (200, "intravenous", True)):
        form.radio(name="route", value=label, selected=selected, x=x, y=686, size=14)
        page.draw(x + 18, 690, label)
    form.checkbox(name="no", checked=True, x=40, y=657, size=14)
    page.draw(60, 660, "do not give")
    form.checkbox(name="yes", checked=False, x=40, y=637, size=14)
    page.draw(60, 640, "may be given")
    assert page.text().splitlines() == [
        "Dose in mg: 500",
        "Interval: every 8 hours",
        "☐ oral ☒ intravenous",
        "☒ do not give",
        "☐ may be given",
    ]
