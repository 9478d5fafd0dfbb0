"""Verdicts on pairs of answers: files of raters, those that a run keeps, and a model's, asked in both orders."""

import asyncio
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from briefcontext.chains.model.event_loop import wait_for
from briefcontext.chains.model.limits import CallBudget
from briefcontext.chains.question import Question
from briefcontext.errors import InputError
from briefcontext.evaluation.judging.pairs import Pair, read_key
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.files import sha256, write_whole

__all__ = ["Verdict", "import_verdicts", "is_judge", "judge_pairs", "judges", "kept_verdicts"]

VERDICTS = {"a": "A", "b": "B", "tie": "tie", "neither": "tie", "both": "tie", "equal": "tie"}
_DELIMITERS = (",", ";", "\t")
"""Where a comma marks decimals, spreadsheets write semicolons."""
_JUDGE = "judge "
_SAID = re.compile(r"^[\s*_]*verdict[\s*_]*:[\s*_]*(a|b|tie)\b", re.IGNORECASE | re.MULTILINE)
_OTHER_SIDE = {"A": "B", "B": "A", "tie": "tie"}


@dataclass(frozen=True)
class Verdict:
    """A rater's verdict on a pair."""

    pair: str
    verdict: str
    """A, B or tie."""
    rater: str
    comment: str = ""


def _read(file: Path, unnamed: str = "") -> list[Verdict]:
    """Read the filled-in sheet, or what the page saves; `unnamed` is the rater of rows that name none.

    Rows without a verdict are left out.
    """
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
        found.append(Verdict(str(row["pair"]).strip(), verdict, rater or unnamed, comment))
    return found


def _delimiter(text: str) -> str:
    """Return what parts the columns: that by which there is one called 'pair'."""
    header = text.partition("\n")[0]
    return next((mark for mark in _DELIMITERS if "pair" in next(csv.reader([header], delimiter=mark), [])), ",")


def import_verdicts(folder: Path, file: Path) -> int:
    """Take a rater's file into a run's folder beside those that are there, and return how many verdicts it holds.

    It is the filled-in sheet, or what the page saves, with columns parted by commas, semicolons or tabs. A rater who
    gives no name is called as the file is. The same verdicts are kept once, whatever their file is called. Raters
    without a name whose files are called alike are told apart.

    Raises:
        InputError: it cannot be read, has no such columns, a verdict that is none, or none on a pair of this run.
    """
    said, there = _read(file), _files(folder)
    if not read_key(folder).keys() & {verdict.pair for verdict in said}:
        raise InputError(f"{file} holds no verdict on a pair of this run. Give the file that belongs to its sheet.")
    digest = sha256(_csv(said))[:12]
    own = file.resolve() in [kept.resolve() for kept in there]
    if not own and not any(kept.stem.endswith(f"-{digest}") for kept in there):
        name = file.stem
        if any(verdict.rater == name for verdict in kept_verdicts(folder)):
            name = f"{name} ({digest[:4]})"
        write_whole(folder / f"verdicts-{len(there) + 1:03}-{digest}.csv", _csv(_read(file, name)))
    return len(said)


def judge_pairs(folder: Path, pairs: Sequence[Pair], models: RunModels, name: str, *, at_once: int = 8) -> int:
    """Ask a model about every pair in both orders; what it says differently in the two counts as a tie.

    Its verdicts are kept in the run's folder in place of what it said before.

    Returns:
        how many pairs it judged differently in the two orders, or without a verdict.

    Raises:
        ModelError: a call failed for good.
    """
    said = wait_for(_judge(pairs, models, at_once))
    verdicts, unsure = [], 0
    for pair, (one, swapped) in zip(pairs, said, strict=True):
        agreed = one is not None and swapped is not None and one == _OTHER_SIDE[swapped]
        unsure += not agreed
        comment = "" if agreed else f"in this order {one or 'no verdict'}, in the other {swapped or 'no verdict'}"
        verdicts.append(Verdict(pair.id, one if agreed and one else "tie", f"{_JUDGE}{name}", comment))
    write_whole(folder / f"verdicts-judge-{sha256(name)[:12]}.csv", _csv(verdicts))
    return unsure


async def _judge(pairs: Sequence[Pair], models: RunModels, at_once: int) -> list[tuple[str | None, str | None]]:
    gate = asyncio.Semaphore(at_once)

    async def ask(question: str, first: str, second: str) -> str | None:
        async with gate:
            words = await models.ask(
                "judge", Question(text=question, options={}), CallBudget(), first=first, second=second
            )
        found = _SAID.findall(words)
        return VERDICTS[found[-1].casefold()] if found else None

    async def both(pair: Pair) -> tuple[str | None, str | None]:
        return await ask(pair.question, pair.a, pair.b), await ask(pair.question, pair.b, pair.a)

    return list(await asyncio.gather(*map(both, pairs)))


def kept_verdicts(folder: Path) -> list[Verdict]:
    """Return all verdicts that a run keeps, a file after another in the order in which they were taken in."""
    return [verdict for file in _files(folder) for verdict in _read(file, file.stem)]


def judges(folder: Path) -> list[str]:
    """Return the names of the models that judged a run's answers."""
    raters = dict.fromkeys(verdict.rater for verdict in kept_verdicts(folder) if is_judge(verdict.rater))
    return [rater.removeprefix(_JUDGE) for rater in raters]


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
