"""MedQ's open questions (Zhang et al. 2025): a spreadsheet."""

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
    try:
        seen: list[str] = []
        for sheet in book.worksheets:
            rows = list(enumerate(sheet.iter_rows(values_only=True), 1))
            for number, cells in rows[:_HEADER_ROWS]:
                headers = [_words(cell).casefold() for cell in cells]
                seen += [header for header in headers if header][:10]
                if (column := _question_column(headers, f"{path}, sheet {sheet.title}")) is not None:
                    return _questions(path, rows[number:], column, _first(headers, _ID), _first(headers, _ANSWER))
    finally:
        book.close()
    raise InputError(
        f"{path}: no sheet has a column named 'question' in its first {_HEADER_ROWS} rows "
        f"(found: {', '.join(seen[:10]) or 'nothing'}). Name the column of questions so."
    )


def _question_column(headers: list[str], where: str) -> int | None:
    if (exact := _first(headers, _QUESTION)) is not None:
        return exact
    # A long text that mentions a question is a question, not a header.
    near = [
        place
        for place, header in enumerate(headers)
        if "question" in header and len(header.split()) <= 4 and not header.endswith("?") and header not in _ID
    ]
    if len(near) > 1:
        raise InputError(f"{where}: more than one column may hold the questions. Name one of them 'question'.")
    return near[0] if near else None


def _first(headers: list[str], names: tuple[str, ...]) -> int | None:
    return next((headers.index(name) for name in names if name in headers), None)


def _questions(
    path: Path, rows: list[tuple[int, tuple[Any, ...]]], question: int, id_: int | None, answer: int | None
) -> DataSet:
    data = DataSet("medq")
    for number, cells in rows:
        if not any(_words(cell) for cell in cells):
            continue
        cell = [_words(cell) for cell in cells]
        if question >= len(cell) or not cell[question]:
            raise InputError(f"{path}, row {number}: the question is blank. Fill it in, or empty the row.")
        name = cell[id_] if id_ is not None and id_ < len(cell) else ""
        known = (cell[answer],) if answer is not None and answer < len(cell) and cell[answer] else ()
        data.items.append(Item(name or f"row-{number}", cell[question], {}, known, (), summary=True))
    return data


def _words(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else str(cell).strip()
