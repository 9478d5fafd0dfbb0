"""The layout of a PDF page: its characters as cells, lines and columns in the order of reading."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from statistics import median
from typing import NamedTuple

_WIDE = 0.8
"""Width in font sizes from which a gap parts cells and columns."""
PROSE = 10
"""Width in font sizes from which a cell is a line of prose. Cells of tables are narrower."""
FULL = 0.75
"""Part of a column's width that a line of prose fills unless it ends a paragraph."""
_NEAR = 24
"""Points within which the parts of a cell are looked for."""
_COLUMN_LINES = 3
"""Lines on either side of a gap from which it parts columns."""
_NO_HEADER = frozenset("0123456789☐☒")
"""Characters that are in no header of a table."""
_SIGNS = "+-−–"
_HEBREW = "\u0590"
"""The first script that runs to the left."""


class Sign(NamedTuple):
    """A character in points, on a page that is turned so that its lines run to the right."""

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
        """Begin with a character."""
        self.signs = [sign]
        self.place, self.is_leftward = sign.place, sign.is_leftward
        self.left, self.right, self.base, self.size = sign.left, sign.right, sign.base, sign.size

    def append(self, sign: Sign) -> None:
        """Add the character that follows in the text layer."""
        self.signs.append(sign)
        self._grow(sign)

    def has_room(self, other: "Cell") -> bool:
        """Return True if no character overlaps the other cell, which may be in a gap."""
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
        """Return True if both are on one line. A superscript is on the line of its word."""
        if self.base == other.base:
            return True
        top = min(self.base + 0.7 * self.size, other.base + 0.7 * other.size)
        return top - max(self.base, other.base) > 0.2 * min(self.size, other.size)

    def is_continued_by(self, sign: Sign) -> bool:
        """Return True for the next character of a line."""
        last = self.signs[-1]
        if sign.is_leftward:
            step, gap = last.right - sign.right, last.left - sign.right
        else:
            step, gap = sign.left - last.left, sign.left - last.right
        return step >= 0 and gap < _WIDE * max(self.size, sign.size) and self.is_beside(sign)

    def is_next_to(self, other: "Cell") -> bool:
        """Return True if both are on one line, without a wide gap between."""
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
    """Return the mark before raised characters: `^`, or a blank before the fraction of 1 1/2."""
    number = raised.lstrip(_SIGNS)
    signed = number != raised
    if not number[:1].isdecimal() or not before or before[-1].isspace():
        return ""
    if not before.rstrip(".,")[-1:].isdecimal():
        return "^" if signed else ""
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
    """Return the cells of the characters in a text layer, from the top to the bottom."""
    runs = list[Cell]()
    for sign in signs:
        if runs and runs[-1].is_continued_by(sign):
            runs[-1].append(sign)
        else:
            runs.append(Cell(sign))
    found, near = list[Cell](), defaultdict[int, list[Cell]](list)
    for run in sorted(runs, key=lambda run: run.left):
        heights = [round(run.base / _NEAR) + step for step in (0, 1, -1)]
        for height in heights:
            near[height] = [cell for cell in near[height] if cell.right > run.left - _NEAR]
        beside = chain.from_iterable(near[height] for height in heights)
        cell = next((cell for cell in beside if cell.is_next_to(run) and cell.has_room(run)), None)
        if cell is None:
            found.append(run)
            near[heights[0]].append(run)
        else:
            cell.merge(run)
    return sorted(found, key=lambda cell: -cell.base)


def rows(block: Sequence[Cell]) -> list[list[Cell]]:
    """Return the lines of cells that are sorted from the top, each from left to right."""
    lines = list[list[Cell]]()
    for cell in block:
        if lines and lines[-1][0].is_beside(cell):
            lines[-1].append(cell)
        else:
            lines.append([cell])
    lines = list(map(_in_order, lines))
    for number, line in enumerate(lines):
        neighbors = lines[max(number - 1, 0) : number] + lines[number + 1 : number + 2]
        lines[number] = _unstretched(line, neighbors)
    return lines


def _in_order(line: Sequence[Cell]) -> list[Cell]:
    is_leftward = any(cell.is_leftward for cell in line)
    return sorted(line, key=lambda cell: cell.place if is_leftward else cell.left)


def _unstretched(line: list[Cell], neighbors: Sequence[Sequence[Cell]]) -> list[Cell]:
    """Join the cells of a justified line: text above and below covers the gap between them."""
    joined = line[:1]
    for cell in line[1:]:
        end, start = joined[-1].right, cell.left
        covers = [any(_covers(other, end, start) for other in each) for each in neighbors]
        if covers and all(covers) and 0 <= start - end < 2 * cell.size:
            joined[-1].merge(cell)
        else:
            joined.append(cell)
    return joined


def row_texts(lines: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the text of each line; it is empty if a row above has its words.

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
    """Return the text of each row, with that of the rows below it that continue its cells."""
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
    """Return the cells of a header and of the rows below it, by the number of their column."""
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


def _covers(cell: Cell, left: float, right: float) -> bool:
    return cell.left < left and cell.right > right


def blocks(block: Sequence[Cell]) -> Iterator[Sequence[Cell]]:
    """Yield the cells of each column in the order of reading; tables are in one piece."""
    columns = _columns(block)
    if columns is None:
        yield block
    else:
        for part in columns:
            if part:
                yield from blocks(part)


def _columns(block: Sequence[Cell]) -> list[list[Cell]] | None:
    """Part cells at the gap with the most lines on both sides: above, left, right and below."""
    if not block:
        return None
    lines = _aligned(block)
    gap = _WIDE * median(cell.size for cell in block)
    lefts, rights = sorted(cell.left for cell in block), sorted(cell.right for cell in block)

    def most_lines(edge: float) -> int:
        return min(bisect_right(rights, edge), len(lefts) - bisect_left(lefts, edge + gap))

    best, columns = (_COLUMN_LINES, 0), None
    wide = [cell for cell in block if cell.is_wide]
    edges = {cell.right for cell in wide} | {cell.left - gap - 0.1 for cell in wide}
    for edge in sorted(edges, key=most_lines, reverse=True):
        if most_lines(edge) < best[0]:
            break
        for start, end in _stretches(lines, edge, gap):
            parts = lines[:start], lines[start:end], lines[end:]
            above, stretch, below = (list(chain.from_iterable(part)) for part in parts)
            left, right = _sides(stretch, edge)
            size = min(len(left), len(right)), len(stretch)
            if size > best and _are_columns(lines[start:end], edge):
                best, columns = size, [above, left, right, below]
    return columns


def _aligned(block: Sequence[Cell]) -> list[list[Cell]]:
    """Return lines of cells on the same base, as two columns may have lines at other heights."""
    lines = list[list[Cell]]()
    for cell in block:
        if lines and abs(lines[-1][0].base - cell.base) < 0.2 * cell.size:
            lines[-1].append(cell)
        else:
            lines.append([cell])
    return [sorted(line, key=lambda cell: cell.left) for line in lines]


def _stretches(
    lines: Sequence[Sequence[Cell]],
    edge: float,
    gap: float,
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of successive lines with a gap at the right of an edge.

    Two or more rows of a table across the edge end a stretch.
    """
    ends = [any(cell.right > edge and cell.left < edge + gap for cell in line) for line in lines]
    for place, (line, below) in enumerate(pairwise(lines)):
        is_near = line[0].base - below[0].base < 3 * line[0].size
        if is_near and _is_table_row(line, edge) and _is_table_row(below, edge):
            ends[place] = ends[place + 1] = True
    start = 0
    for is_end, group in groupby(ends):
        end = start + len(list(group))
        if not is_end:
            yield start, end
        start = end


def _sides(line: Sequence[Cell], edge: float) -> tuple[list[Cell], list[Cell]]:
    left = [cell for cell in line if cell.right <= edge]
    return left, [cell for cell in line if cell.right > edge]


def _is_table_row(line: Sequence[Cell], edge: float) -> bool:
    if len(line) == 1:
        return False
    left, right = _sides(line, edge)
    is_label = bool(left) and (len(left) > 1 or not left[0].is_wide)
    return is_label and bool(right) and not any(cell.is_wide for cell in right)


def _are_columns(lines: Sequence[Sequence[Cell]], edge: float) -> bool:
    """Return False if cells on both sides of an edge may be the rows of a table."""
    left, right = _sides([cell for line in lines for cell in line], edge)
    is_left_wide, is_right_wide = (median(cell.is_wide for cell in side) for side in (left, right))
    wide = [cell for cell in left if cell.is_wide]
    if is_left_wide and max(cell.left for cell in wide) >= min(cell.right for cell in wide):
        return False  # These are several columns.
    is_in_order = max(cell.place for cell in left) < min(cell.place for cell in right)
    if is_left_wide and is_right_wide and is_in_order:
        return True
    shared = [line for line in lines if all(_sides(line, edge))] or lines
    left, right = _sides([cell for line in shared for cell in line], edge)
    is_table = 2 * len(left) >= 3 * len(shared) and not is_left_wide
    return _is_prose(right if is_table else left)


def _is_prose(column: Sequence[Cell]) -> bool:
    """Return True if most cells are full lines, and most begin within a sentence."""
    width = max(cell.right for cell in column) - min(cell.left for cell in column)
    full = sum(cell.is_wide and cell.right - cell.left >= FULL * width for cell in column)
    starts = [cell.signs[0].text for cell in column]
    capitals = sum(start.isupper() for start in starts)
    others = sum(not start.isdecimal() for start in starts) - capitals
    return 3 * full >= 2 * len(column) and others >= max(capitals, 1)
