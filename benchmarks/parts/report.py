"""Options, tables and files of figures that benchmarks share."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]
"""Figures by their names."""
WIDTH = 200
"""Width of tables without a terminal."""
_OPTIONS: dict[str, dict[str, Any]] = {
    "--data": {
        "default": Path(__file__).resolve().parents[3] / "shared" / "data",
        "help": "folder of the data sets",
    },
    "--cache": {"metavar": "DIR", "help": "keep vectors there for another run"},
    "--work": {"metavar": "DIR", "help": "folder for knowledge bases; default: a temporary one"},
    "--json": {"metavar": "FILE", "help": "write the figures there, too"},
}


def options(doc: str | None, *names: str) -> argparse.ArgumentParser:
    """Return a parser with options of these names, each a path; `doc` begins with a summary."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name in names:
        parser.add_argument(name, type=Path, **_OPTIONS[name])
    return parser


def show(
    title: str, rows: Sequence[Row], forms: Mapping[str, str] | None = None, form: str = ".1%"
) -> None:
    """Print rows as a table with blanks for missing columns.

    `forms` are the formats of fractions by column, and `form` is the default.
    """
    table = Table(title=title)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for column in columns:
        words = any(isinstance(row.get(column), str) for row in rows)
        table.add_column(column, justify="left" if words else "right")
    for row in rows:
        table.add_row(
            *(_written(row.get(column), (forms or {}).get(column, form)) for column in columns)
        )
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def _written(value: object, form: str) -> str:
    if isinstance(value, float):
        return format(value, form)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def write(file: Path | None, figures: object) -> None:
    """Write figures as JSON, if a file is named."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
