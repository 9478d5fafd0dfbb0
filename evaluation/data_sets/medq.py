"""MedQ's open questions (Zhang et al. 2025): a spreadsheet."""

from contextlib import closing
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError, MissingExtraError
from briefcontext.evaluation.data_sets.data_set import DataSet, Item

__all__ = ["read_medq"]

_HEADER_ROWS = 20
_QUESTION = ("question", "questions", "query", "medical question", "clinical question")
_ID = ("id", "qid", "question id", "no", "no.", "#", "number", "index")
_ANSWER = ("answer", "reference", "reference answer", "gold answer", "ideal answer", "ground truth")


def read_medq(path: Path) -> DataSet:
    """Read the questions of the first sheet that has a column of them.

    The columns are found by their headers: `question` (or the one header that speaks of questions), and,
    where they are there, an id and a reference answer. Without ids a question's id is its row.
    """
    try:
        import openpyxl  # type: ignore[import-untyped]
        from openpyxl.utils.exceptions import InvalidFileException  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("Spreadsheets need openpyxl. Run: pip install 'briefcontext[experiments]'") from error
    from zipfile import BadZipFile

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, BadZipFile, KeyError, ValueError) as error:
        raise InputError(f"{path} is no .xlsx spreadsheet: {error}. Save it as one.") from error
    seen: list[str] = []
    with closing(book):
        for sheet in book.worksheets:
            rows = [[_words(cell) for cell in cells] for cells in sheet.iter_rows(values_only=True)]
            for number, cells in enumerate(rows[:_HEADER_ROWS], 1):
                heads = [cell.casefold() for cell in cells]
                seen += filter(None, heads)
                if column := _question_column(heads, f"{path}, sheet {sheet.title}"):
                    return _questions(path, heads, rows, number, column)
    raise InputError(
        f"{path}: no sheet has a column named 'question' in its first {_HEADER_ROWS} rows "
        f"(found: {', '.join(seen[:10]) or 'nothing'}). Name the column of questions so."
    )


def _question_column(heads: list[str], where: str) -> str:
    """Return the head of the column of questions, or an empty text where there is none."""
    # A long text that mentions a question is a question, not a head.
    near = [
        head
        for head in heads
        if "question" in head and len(head.split()) <= 4 and not head.endswith("?") and head not in _ID
    ]
    exact = [name for name in _QUESTION if name in heads]
    if len(near) > 1 and not exact:
        raise InputError(f"{where}: more than one column may hold the questions. Name one of them 'question'.")
    return next(iter(exact + near), "")


def _questions(path: Path, heads: list[str], rows: list[list[str]], start: int, column: str) -> DataSet:
    data = DataSet("medq")
    for number, cells in enumerate(rows[start:], start + 1):
        row = dict(zip(heads, cells, strict=False))
        if not any(cells):
            continue
        if not row.get(column):
            raise InputError(f"{path}, row {number}: the question is blank. Fill it in, or empty the row.")
        id, answer = (next(filter(None, map(row.get, names)), None) for names in (_ID, _ANSWER))
        known = () if answer is None else (answer,)
        data.items.append(Item(id or f"row-{number}", row[column], {}, known, (), summary=True))
    return data


def _words(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else str(cell).strip()
