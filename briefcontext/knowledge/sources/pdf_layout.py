"""The layout of a PDF page: its characters as cells and lines, in the order of reading."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from statistics import median
from typing import NamedTuple

_WIDE = 0.8
"""Width in font sizes from which a gap parts cells and columns."""
_WIDEST = 1.3
"""Width in font sizes of the widest blank of a justified line."""
PROSE = 10
"""Width in font sizes from which a cell is a line of prose."""
_NEAR = 24
"""Points within which the parts of a cell are searched."""
_COLUMN_LINES = 3
"""Lines of prose on either side of a gap from which it parts columns."""
_NO_HEADER = frozenset("☐☒")
_SIGNS = "+-−–"
_ORDINALS = ("st", "nd", "rd", "th")
_HEBREW = "\u0590"
"""The first script that runs to the left."""


class Sign(NamedTuple):
    """A character in points, on a page whose lines run to the right."""

    text: str
    left: float
    right: float
    base: float
    size: float
    blank_gap: float
    """The gap, in font sizes, from which a blank is before it."""
    place: int
    """In the text layer."""

    @property
    def is_leftward(self) -> bool:
        """Of a script that runs to the left, as Arabic and Hebrew."""
        return self.text > _HEBREW and unicodedata.bidirectional(self.text[0]) in ("R", "AL")


class Cell:
    """Characters of one line, without a gap between them that is as wide as their size."""

    def __init__(self, sign: Sign) -> None:
        self.signs = [sign]
        self.place, self.is_leftward = sign.place, sign.is_leftward
        self.left, self.right, self.base, self.size = sign.left, sign.right, sign.base, sign.size

    def append(self, sign: Sign) -> None:
        """Add the next character of the text layer."""
        self.signs.append(sign)
        self._grow(sign)

    def has_room(self, other: "Cell") -> bool:
        """Return whether no character overlaps the other cell, which may be in a gap."""
        edge = 0.3 * other.size
        return other.left >= self.right - edge or not any(
            sign.left < other.right - edge and sign.right > other.left + edge for sign in self.signs
        )

    def merge(self, other: "Cell") -> None:
        """Add a cell that is elsewhere in the text layer."""
        overlaps = other.left < self.right
        self.signs += other.signs
        self._grow(other)
        if self.is_leftward:
            self.signs.sort(key=lambda sign: sign.place)
        elif overlaps:
            self.signs.sort(key=lambda sign: sign.left)

    def _grow(self, other: "Sign | Cell") -> None:
        self.place = min(self.place, other.place)
        self.is_leftward = self.is_leftward or other.is_leftward
        self.left, self.right = min(self.left, other.left), max(self.right, other.right)
        if other.size > self.size:
            self.base, self.size = other.base, other.size

    def is_beside(self, other: "Sign | Cell") -> bool:
        """Return whether both are on one line, as a superscript and its word are."""
        top = min(self.base + 0.7 * self.size, other.base + 0.7 * other.size)
        return top - max(self.base, other.base) > 0.2 * min(self.size, other.size)

    def is_continued_by(self, sign: Sign) -> bool:
        """Return whether a character is the next one of the line."""
        last = self.signs[-1]
        if sign.is_leftward:
            step, gap = last.right - sign.right, last.left - sign.right
        else:
            step, gap = sign.left - last.left, sign.left - last.right
        return step >= 0 and gap < _WIDEST * max(self.size, sign.size) and self.is_beside(sign)

    def is_next_to(self, other: "Cell") -> bool:
        """Return whether both are on one line, without a wide gap between."""
        gap = max(other.left - self.right, self.left - other.right)
        return gap < _WIDE * max(self.size, other.size) and self.is_beside(other)

    @property
    def is_wide(self) -> bool:
        """As wide as a line of prose."""
        return self.right - self.left >= PROSE * self.size

    @property
    def text(self) -> str:
        """Its characters, with `^` before an exponent."""
        groups = groupby(self.signs, lambda sign: sign.base - self.base > 0.15 * self.size)
        parts = [(raised, list(signs)) for raised, signs in groups]
        text = ""
        before: Sign | None = None
        for index, (raised, signs) in enumerate(parts):
            part = ""
            for sign in signs:
                gap = max(sign.left - before.right, before.left - sign.right) if before else 0.0
                is_loose = (raised or sign is signs[0]) and sign.blank_gap > 0
                is_blank = gap > (0.2 if is_loose else sign.blank_gap) * self.size
                part += " " * is_blank + sign.text
                before = sign
            after = parts[index + 1][1] if raised and index + 1 < len(parts) else []
            text += (_exponent_mark(text, part, after) if raised else "") + part
        return text


def _exponent_mark(before: str, raised: str, after: Sequence[Sign]) -> str:
    """Return the mark before raised characters: `^`, or a blank as in 1 1/2."""
    number = raised.lstrip(_SIGNS)
    signed = number != raised
    if before[-1:].isdecimal() and raised.isalpha() and len(raised) > 1:
        return "" if raised in _ORDINALS else "^"
    if not number[:1].isdecimal() or not before or before[-1].isspace():
        return ""
    if not before.rstrip(".,")[-1:].isdecimal():
        # A whole number without a sign is a citation.
        return "^" if signed or "." in number.rstrip(".") else ""
    slash, denominator = (*after[:2], None, None)[:2]
    is_fraction = (
        slash is not None
        and denominator is not None
        and slash.text in "/⁄"
        and denominator.text.isdecimal()
        and denominator.size < 0.9 * max(sign.size for sign in after)
    )
    return " " if is_fraction and not signed else "^"


def cells(signs: Iterable[Sign]) -> list[Cell]:
    """Return the cells of the characters in a text layer, in its order."""
    runs = list[Cell]()
    for sign in signs:
        if runs and runs[-1].is_continued_by(sign):
            runs[-1].append(sign)
        else:
            runs.append(Cell(sign))
    result, near = list[Cell](), defaultdict[int, list[Cell]](list)
    for run in sorted(chain.from_iterable(map(_parted, runs)), key=lambda run: run.left):
        heights = [round(run.base / _NEAR) + step for step in (0, 1, -1)]
        for height in heights:
            near[height] = [cell for cell in near[height] if cell.right > run.left - _NEAR]
        beside = chain.from_iterable(near[height] for height in heights)
        cell = next((cell for cell in beside if cell.is_next_to(run) and cell.has_room(run)), None)
        if cell is None:
            result.append(run)
            near[heights[0]].append(run)
        else:
            cell.merge(run)
    return sorted(result, key=lambda cell: cell.place)


def _parted(run: Cell) -> Iterator[Cell]:
    gaps = [sign.left - before.right for before, sign in pairwise(run.signs)]
    blanks = [gap for gap in gaps if gap > 0.15 * run.size]
    usual = 1.5 * median(blanks) if len(blanks) > 2 else 0.0
    limit = max(usual, _WIDE * run.size)
    part = Cell(run.signs[0])
    for gap, sign in zip(gaps, run.signs[1:], strict=True):
        if gap < limit:
            part.append(sign)
        else:
            yield part
            part = Cell(sign)
    yield part


def lines(layer: Sequence[Cell], drawn_later: int) -> list[list[Cell]]:
    """Return the lines of a page, each with its cells from left to right.

    Cells from the place `drawn_later` are the values of a form, which belong to the line of their
    label.
    """
    own = [cell for cell in layer if cell.place < drawn_later]
    results = list[list[Cell]]()
    for cell in _by_column(own):
        if results and results[-1][-1].is_beside(cell):
            results[-1].append(cell)
        else:
            results.append([cell])
    for value in layer[len(own) :]:
        label = next((line for line in results if line[0].is_beside(value)), None)
        if label is None:
            results.append([value])
        else:
            label.append(value)
    return list(map(_in_order, results))


def _by_column(layer: Sequence[Cell]) -> list[Cell]:
    """Return the cells so that columns follow each other, if the text layer runs across them."""
    best: tuple[int, int, float] | None = None
    for edge, gap in _edges(layer):
        for start, end in _stretches(layer, edge, gap):
            if best is None or end - start > best[1] - best[0]:
                best = start, end, edge
    if best is None:
        return list(layer)
    start, end, edge = best
    left = [cell for cell in layer[start:end] if cell.right <= edge]
    right = [cell for cell in layer[start:end] if cell.right > edge]
    parts = (left, right, layer[end:])
    return [*layer[:start], *chain.from_iterable(map(_by_column, parts))]


def _edges(layer: Sequence[Cell]) -> Iterator[tuple[float, float]]:
    wide = [cell for cell in layer if cell.is_wide]
    if wide:
        gap = _WIDE * median(cell.size for cell in wide)
        lefts, rights = sorted(cell.left for cell in wide), sorted(cell.right for cell in wide)
        for edge in sorted(set(rights)):
            after = len(wide) - bisect_left(lefts, edge + gap)
            if min(bisect_right(rights, edge), after) >= _COLUMN_LINES:
                yield edge, gap


def _stretches(layer: Sequence[Cell], edge: float, gap: float) -> Iterator[tuple[int, int]]:
    """Yield the ranges of cells that switch between two columns."""
    crossing = [cell.right > edge and cell.left < edge + gap for cell in layer]
    for crosses, group in groupby(range(len(layer)), crossing.__getitem__):
        places = list(group)
        wide = [place for place in places if layer[place].is_wide]
        if crosses or not wide:
            continue
        columns: tuple[list[Cell], list[Cell]] = ([], [])
        for place in wide:
            columns[layer[place].right > edge].append(layer[place])
        sides = [layer[place].right > edge for place in wide]
        switches = sum(side != other for side, other in pairwise(sides))
        if switches >= min(map(len, columns)) and all(map(_is_prose, columns)):
            end = wide[-1] + 1
            while end <= places[-1] and _ends(columns[layer[end].right > edge], layer[end]):
                columns[layer[end].right > edge].append(layer[end])
                end += 1
            yield wide[0], end


def _is_prose(column: Sequence[Cell]) -> bool:
    """Return whether most lines begin within a sentence, unlike a table's cells."""
    starts = [cell.signs[0].text for cell in column]
    capitals = sum(start.isupper() for start in starts)
    return len(column) >= _COLUMN_LINES and len(column) - capitals >= capitals


def _ends(column: Sequence[Cell], cell: Cell) -> bool:
    return any(
        abs(cell.left - above.left) < above.size and above.base - cell.base < 2 * above.size
        for above in column
    )


def _in_order(line: Sequence[Cell]) -> list[Cell]:
    is_leftward = any(cell.is_leftward for cell in line)
    return sorted(line, key=lambda cell: cell.place if is_leftward else cell.left)


def row_texts(lines: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the text of each line, or "" if a row above has its words.

    In a table with empty cells, `|` keeps the others in their places.
    """
    texts = [" ".join(cell.text for cell in line) for line in lines]
    end = 0
    for start, header in enumerate(lines):
        if start >= end and len(header) > 2 and _NO_HEADER.isdisjoint(texts[start]):
            table = _placed(lines[start:])
            end = start + len(table)
            if any(1 < len(row) < len(header) for row in table):
                texts[start:end] = _in_columns(table, len(header))
    return texts


def _in_columns(table: Sequence[dict[int, Cell]], width: int) -> list[str]:
    """Return the text of each row, with the rows below it that continue its cells."""
    rows = list[list[str]]()
    for row in table:
        words = [row[column].text if column in row else "" for column in range(width)]
        above = next((each for each in reversed(rows) if any(each)), None)
        is_rest = not words[0] and all(text[0].islower() for text in words if text)
        if above is not None and is_rest:
            above[:] = [" ".join(filter(None, pair)) for pair in zip(above, words, strict=True)]
            words = [""] * width
        rows.append(words)
    return [(" | " if sum(map(bool, row)) > 1 else "").join(row).strip() for row in rows]


def _placed(lines: Sequence[Sequence[Cell]]) -> list[dict[int, Cell]]:
    columns = [(cell.left, cell.right) for cell in lines[0]]
    rows = list[dict[int, Cell]]()
    base = lines[0][0].base
    for line in lines:
        row = dict[int, Cell]()
        for cell in line:
            for number, (left, right) in enumerate(columns):
                if cell.left < right and cell.right > left:
                    row[number] = cell
                    columns[number] = min(left, cell.left), max(right, cell.right)
        cells = list(row.values())
        if base - line[0].base > 3 * line[0].size or cells != list(line):
            break
        base = line[0].base
        rows.append(row)
    return rows
