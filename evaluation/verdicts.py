"""Verdicts on pairs of answers: read from raters' files, or asked of a model in both orders."""

import asyncio
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from briefcontext.chains.account import Account
from briefcontext.chains.model import Request
from briefcontext.errors import InputError
from briefcontext.evaluation.event_loop import wait_for
from briefcontext.evaluation.pairs import Pair
from briefcontext.evaluation.run_folder import write_whole
from briefcontext.evaluation.run_models import RunModels
from briefcontext.prompts import BUNDLED

__all__ = ["Verdict", "import_verdicts", "judge_pairs", "read_verdicts"]

_VERDICTS = {"a": "A", "b": "B", "tie": "tie", "neither": "tie", "both": "tie", "equal": "tie"}
_SAID = re.compile(r"^[\s*_]*verdict[\s*_]*:[\s*_]*(a|b|tie)\b", re.IGNORECASE | re.MULTILINE)
_OTHER_SIDE = {"A": "B", "B": "A", "tie": "tie"}


@dataclass(frozen=True)
class Verdict:
    """What a rater says of a pair."""

    pair: str
    verdict: str
    """A, B or tie."""
    rater: str
    comment: str = ""


def read_verdicts(file: Path) -> list[Verdict]:
    """Read a file of verdicts: the filled-in sheet, or what the page saves. Rows without a verdict are left out.

    Raises:
        InputError: it cannot be read, has no such columns, or a verdict that is none.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Give a CSV file in UTF-8.") from error
    found = []
    for number, row in enumerate(rows, 2):
        said = next((str(value or "") for name, value in row.items() if str(name).startswith("verdict")), None)
        if said is None or "pair" not in row:
            raise InputError(f"{file} has no columns 'pair' and 'verdict'. Give the sheet, or what the page saved.")
        if not said.strip():
            continue
        verdict = _VERDICTS.get(said.strip().casefold())
        if verdict is None:
            raise InputError(f"{file}, line {number}: the verdict is {said!r}. Write A, B or tie.")
        rater = (row.get("rater") or "").strip() or file.stem
        found.append(Verdict(str(row["pair"]).strip(), verdict, rater, (row.get("comment") or "").strip()))
    return found


def import_verdicts(folder: Path, file: Path, key: "dict[str, dict[str, str]]") -> int:
    """Take a file of verdicts into a run, and return how many it holds.

    Raises:
        InputError: it holds none, or none on a pair of this run.
    """
    verdicts = read_verdicts(file)
    if not any(verdict.pair in key for verdict in verdicts):
        raise InputError(f"{file} holds no verdict on a pair of this run. Give the file that belongs to its sheet.")
    _write(folder / f"verdicts-{file.stem}.csv", verdicts)
    return len(verdicts)


def judge_pairs(folder: Path, pairs: Sequence[Pair], models: RunModels, name: str, *, at_once: int = 8) -> int:
    """Ask a model about every pair in both orders; what it says differently in the two counts as a tie.

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
        verdicts.append(Verdict(pair.id, one if agreed and one else "tie", f"judge {name}", comment))
    _write(folder / "verdicts-judge.csv", verdicts)
    return unsure


async def _judge(pairs: Sequence[Pair], models: RunModels, at_once: int) -> list[tuple[str | None, str | None]]:
    gate = asyncio.Semaphore(at_once)

    async def ask(question: str, first: str, second: str) -> str | None:
        messages = BUNDLED.render("judge", question, {}, first=first, second=second)
        async with gate:
            words = await models.ask(Request("judge", messages), Account())
        found = _SAID.findall(words)
        return _VERDICTS[found[-1].casefold()] if found else None

    async def both(pair: Pair) -> tuple[str | None, str | None]:
        return await ask(pair.question, pair.a, pair.b), await ask(pair.question, pair.b, pair.a)

    return list(await asyncio.gather(*map(both, pairs)))


def _write(file: Path, verdicts: Sequence[Verdict]) -> None:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["pair", "verdict", "rater", "comment"])
    writer.writerows([v.pair, v.verdict, v.rater, v.comment] for v in verdicts)
    write_whole(file, lines.getvalue())
