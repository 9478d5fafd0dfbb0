"""Tables of HTML: the cells of a row by their headers, those that span several rows or columns in each of them."""

from collections import deque
from collections.abc import Sequence

from lxml import html

from briefcontext.knowledge.sources.publication import under
from briefcontext.knowledge.sources.xml_stream import flatten

CELLS = ("td", "th")
LONGEST_HEADER = 200
"""Characters; each of its cells would begin with a longer one."""
MOST_CELLS = 100_000
"""Of a table, those that span several rows or columns counted in each."""
_WIDEST, _TALLEST = 1000, 65534
"""What HTML lets a cell span."""

Row = tuple[html.HtmlElement, list[html.HtmlElement]]


def named(headers: Sequence[str], cells: Sequence[str]) -> str:
    """Return the cells of a row, each behind its header where it has one, as in `Weight: 40 kg | Dose: 5 mg`."""
    headers = [*headers, *[""] * (len(cells) - len(headers))]
    return " | ".join(
        f"{header}: {cell}" if 0 < len(header) <= LONGEST_HEADER else cell
        for header, cell in zip(headers, cells, strict=False)
        if cell
    )


def rows_as_text(table: html.HtmlElement, cell_mark: str) -> None:
    """Replace the cells of rows by their text, each with its header, where these are known.

    Rows of headers below each other are one, with `under`. A row of one cell is the heading of those below it, which
    begin with it. Other rows stay, but for those of short cells, in each of which are those that span it. `cell_mark`
    parts cells.
    """
    grid = _grid(table)
    texts = {cell: flatten(cell) for _, cells in grid for cell in cells}
    wide = any(len(cells) > 1 for _, cells in grid)
    # A head may have no cell that is marked as a header.
    heads = {row for head in table.iter("thead") if head.find("tr/th") is None for row in head}
    names, above = list[str](), list[html.HtmlElement]()
    heading, kind, seen, headers, left = "", "", set[html.HtmlElement](), list[html.HtmlElement](), 0
    for row, cells in grid:
        before = kind
        if wide and len(set(cells)) == 1:
            kind, text = "heading", texts[cells[0]]
            heading = under(heading if before == kind else "", text) if len(text) <= LONGEST_HEADER else ""
        elif row in heads or _is_header(cells, texts, corner=not seen):
            kind = "header"
            if before != kind:
                names, above = [""] * len(cells), cells[:0]
            names = [
                name if place < len(above) and above[place] is cell else under(name, texts[cell])
                for place, (name, cell) in enumerate(zip(names + [""] * len(cells), cells, strict=False))
            ]
            above = cells
            headers += [] if seen else [row]
        else:
            kind = "body"
            shown = [
                _shown(texts[cell], again=cell in seen or cell in cells[:place]) for place, cell in enumerate(cells)
            ]
            seen.update(cells)
            if names and len(names) == len(cells):
                _write(row, f"{heading} | {named(names, shown)}" if heading else named(names, shown))
                left += any(len(name) > LONGEST_HEADER for name in names)
                continue
            left += 1
            spanned = heading or any(cell.getparent() is not row for cell in cells)
            if _is_short(row, cells, texts) and (spanned or len(cells) > 1):
                _write(row, cell_mark.join([heading, *shown]))
            continue
        if kind == "header" and len(cells) > 1 and _is_short(row, cells, texts):
            _write(row, cell_mark.join(texts[cell] for cell in dict.fromkeys(cells)))
    if seen and not left:
        for row in headers:
            _write(row, "")


def _grid(table: html.HtmlElement) -> list[Row]:
    """Return the rows, each with its cells by column; none where there are too many."""
    rows, group, count = list[Row](), None, 0
    spanning = dict[int, tuple[html.HtmlElement, int]]()
    for row in table.iter("tr"):
        if row.getparent() is not group:
            group, spanning = row.getparent(), {}
        own, cells = deque(row.iterchildren(*CELLS)), list[html.HtmlElement]()
        going_on = dict[int, tuple[html.HtmlElement, int]]()
        while own or len(cells) in spanning:
            if len(cells) in spanning:
                (cell, height), width = spanning[len(cells)], 1
            else:
                cell = own.popleft()
                height, width = _span(cell, "rowspan", _TALLEST), _span(cell, "colspan", _WIDEST)
            if height > 1:
                going_on.update((len(cells) + place, (cell, height - 1)) for place in range(width))
            cells += [cell] * width
            if count + len(cells) > MOST_CELLS:
                return []
        spanning, count = going_on, count + len(cells)
        rows += [(row, cells)] if cells else []
    return rows


def _span(cell: html.HtmlElement, over: str, most: int) -> int:
    given = cell.get(over, "1").strip()
    span = int(given[:9]) if given.isdecimal() else 1
    # A cell of rowspan 0 spans all that there are.
    return min(span, most) if span else most if over == "rowspan" else 1


def _is_header(cells: Sequence[html.HtmlElement], texts: dict[html.HtmlElement, str], *, corner: bool) -> bool:
    named = cells[1:] if corner and len(cells) > 1 and not texts[cells[0]] else cells
    return all(cell.tag == "th" for cell in named)


def _is_short(row: html.HtmlElement, cells: Sequence[html.HtmlElement], texts: dict[html.HtmlElement, str]) -> bool:
    """Return whether a row may stand on one line: other tables only place what is a page's text."""
    placed = any(True for _ in row.iter("h1", "h2", "h3", "h4", "h5", "h6", "li"))
    return not placed and all(len(texts[cell]) <= LONGEST_HEADER for cell in cells)


def _shown(text: str, *, again: bool) -> str:
    return f"{text[: LONGEST_HEADER - 1]}…" if again and len(text) > LONGEST_HEADER else text


def _write(row: html.HtmlElement, text: str) -> None:
    del row[:]
    row.text = text
