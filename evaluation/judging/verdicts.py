"""Files of verdicts on pairs of answers: those of raters, and those that a run keeps."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from briefcontext.errors import InputError
from briefcontext.files import sha256, write_whole

__all__ = [
    "VERDICTS",
    "Verdict",
    "is_judge",
    "judges",
    "keep_judged",
    "keep_verdicts",
    "kept_verdicts",
    "read_verdicts",
]

VERDICTS = {"a": "A", "b": "B", "tie": "tie", "neither": "tie", "both": "tie", "equal": "tie"}
_DELIMITERS = (",", ";", "\t")
"""Where a comma marks decimals, spreadsheets write semicolons."""
_JUDGE = "judge "


@dataclass(frozen=True)
class Verdict:
    """A rater's verdict on a pair."""

    pair: str
    verdict: str
    """A, B or tie."""
    rater: str
    comment: str = ""


def read_verdicts(file: Path) -> list[Verdict]:
    """Read a file of verdicts: the filled-in sheet, or what the page saves. Rows without a verdict are left out.

    Its columns may be parted by commas, semicolons or tabs. A rater who gives no name is called as the file is.

    Raises:
        InputError: it cannot be read, has no such columns, or a verdict that is none.
    """
    return [verdict if verdict.rater else replace(verdict, rater=file.stem) for verdict in _read(file)]


def _read(file: Path) -> list[Verdict]:
    try:
        text = file.read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text), delimiter=_delimiter(text)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Give a CSV file in UTF-8.") from error
    found = []
    for number, row in enumerate(rows, 2):
        said = next((str(value or "") for name, value in row.items() if str(name).startswith("verdict")), None)
        if said is None or "pair" not in row:
            raise InputError(f"{file} has no columns 'pair' and 'verdict'. Give the sheet, or what the page saved.")
        if not said.strip():
            continue
        verdict = VERDICTS.get(said.strip().casefold())
        if verdict is None:
            raise InputError(f"{file}, line {number}: the verdict is {said!r}. Write A, B or tie.")
        rater, comment = ((row.get(name) or "").strip() for name in ("rater", "comment"))
        found.append(Verdict(str(row["pair"]).strip(), verdict, rater, comment))
    return found


def _delimiter(text: str) -> str:
    """Return what parts the columns: that by which there is one called 'pair'."""
    header = text.partition("\n")[0]
    return next((mark for mark in _DELIMITERS if "pair" in next(csv.reader([header], delimiter=mark), [])), ",")


def keep_verdicts(folder: Path, file: Path) -> list[Verdict]:
    """Take a rater's file into a run's folder beside those that are there, and return its verdicts.

    The same verdicts are kept once, whatever their file is called. Raters without a name whose files are called alike
    are told apart.

    Raises:
        InputError: it cannot be read, or a verdict is none.
    """
    there = _files(folder)
    if file.resolve() in [kept.resolve() for kept in there]:
        return read_verdicts(file)
    said = _read(file)
    digest = sha256(_csv(said))[:12]
    if same := next((kept for kept in there if kept.stem.endswith(f"-{digest}")), None):
        return read_verdicts(same)
    name = file.stem
    if any(verdict.rater == name for verdict in kept_verdicts(folder)):
        name = f"{name} ({digest[:4]})"
    named = [verdict if verdict.rater else replace(verdict, rater=name) for verdict in said]
    write_whole(folder / f"verdicts-{len(there) + 1:03}-{digest}.csv", _csv(named))
    return named


def keep_judged(folder: Path, name: str, verdicts: Sequence[Verdict]) -> None:
    """Keep what a model says as a judge, in place of what it said before."""
    verdicts = [replace(verdict, rater=f"{_JUDGE}{name}") for verdict in verdicts]
    write_whole(folder / f"verdicts-judge-{sha256(name)[:12]}.csv", _csv(verdicts))


def kept_verdicts(folder: Path) -> list[Verdict]:
    """Return all verdicts that a run keeps, a file after another in the order in which they were taken in."""
    return [verdict for file in _files(folder) for verdict in read_verdicts(file)]


def judges(folder: Path) -> list[str]:
    """Return the names of the models that judged a run's answers."""
    raters = [v.rater for file in sorted(folder.glob("verdicts-judge*.csv")) for v in read_verdicts(file)]
    return [rater.removeprefix(_JUDGE) for rater in dict.fromkeys(raters)]


def is_judge(rater: str) -> bool:
    """Return whether a rater is a model."""
    return rater.startswith(_JUDGE)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("verdicts-*.csv"))


def _csv(verdicts: Sequence[Verdict]) -> str:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["pair", "verdict", "rater", "comment"])
    writer.writerows([v.pair, v.verdict, v.rater, v.comment] for v in verdicts)
    return lines.getvalue()
