"""Pairs of answers, blinded and shuffled, and verdicts on them: by raters, in files, or by a model, in both orders."""

import csv
import io
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from importlib.resources import files
from pathlib import Path

from langchain_core.utils.mustache import render

from briefcontext.chains.model.event_loop import together, wait_for
from briefcontext.chains.question import Question
from briefcontext.errors import InputError
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.evaluation.statistics.comparison import paired
from briefcontext.evaluation.statistics.tables import Row
from briefcontext.files import sha256, write_whole
from briefcontext.graphs.settings import Settings

KEY = "key.json"
SHEET = "pairs.csv"
PAGE = "pairs.html"
UNPARSED = "unparsed"
"""Of a pair of which a model judge said nothing that can be read: no outcome, and counted apart."""
VERDICTS = {
    "a": "A",
    "b": "B",
    "tie": "tie",
    "neither": "tie",
    "both": "tie",
    "equal": "tie",
    UNPARSED: UNPARSED,
}
_JUDGE = "judge "
_SAID = re.compile(r"^[\s*_]*verdict[\s*_]*:[\s*_]*(a|b|tie)\b", re.IGNORECASE | re.MULTILINE)
_OTHER_SIDE = {"A": "B", "B": "A", "tie": "tie"}


@dataclass(frozen=True)
class Pair:
    """Two answers to a question; which method wrote A and which B is drawn by the seed."""

    id: str
    """Says nothing about question, order or method."""
    question: str
    a: str
    b: str
    methods: Mapping[str, str]
    """A and B to the method's name."""


def make_pairs(rows: Sequence[Row], first: str, second: str, seed: int) -> list[Pair]:
    """Pair the answers of two methods to each question, in an order and on sides that the seed draws."""
    pairs = []
    for one, other in paired(rows, first, second):
        name = f"{seed}\0{one['id']}\0{other['id']}"
        a, b = (other, one) if random.Random(name).random() < 0.5 else (one, other)
        said = [str(row["text"]) or "(no answer)" for row in (a, b)]
        of = {"A": str(a["method"]), "B": str(b["method"])}
        # Of the words, too: verdicts on another run's answers to the same questions are none on
        # these.
        pairs.append(
            Pair(sha256("\0".join([name, *said]))[:10], one["question"], said[0], said[1], of)
        )
    random.Random(seed).shuffle(pairs)
    return pairs


def read_key(folder: Path) -> dict[str, dict[str, str]]:
    """Return which method wrote A and which B, by pair."""
    key: dict[str, dict[str, str]] = json.loads((folder / KEY).read_text(encoding="utf-8"))
    return key


def write_sheets(folder: Path, pairs: Sequence[Pair], *, simulated: bool) -> None:
    """Write the sheet for raters, the page for raters, and the key that they do not get."""
    write_whole(
        folder / KEY, json.dumps({pair.id: dict(pair.methods) for pair in pairs}, indent=2) + "\n"
    )
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(
        ["pair", "question", "answer A", "answer B", "verdict (A, B or tie)", "rater", "comment"]
    )
    writer.writerows(
        [pair.id, *map(_cell, (pair.question, pair.a, pair.b)), "", "", ""] for pair in pairs
    )
    write_whole(folder / SHEET, lines.getvalue())
    shown = [
        {**asdict(pair), "number": number, "count": len(pairs)}
        for number, pair in enumerate(pairs, 1)
    ]
    page = (files(__package__) / PAGE).read_text(encoding="utf-8")
    write_whole(folder / PAGE, render(page, {"pairs": shown, "simulated": simulated}))


def _cell(text: str) -> str:
    """Keep a spreadsheet from reading words as a formula."""
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


@dataclass(frozen=True)
class Verdict:
    """A rater's verdict on a pair."""

    pair: str
    verdict: str
    """A, B or tie; or unparsed."""
    rater: str
    comment: str = ""


def _read(file: Path, unnamed: str = "") -> list[Verdict]:
    """Read the filled-in sheet, or what the page saves; `unnamed` is the rater of rows that name none.

    Rows without a verdict are left out.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        # Where a comma marks decimals, spreadsheets part columns by semicolons.
        mark = max(";\t,", key=text.partition("\n")[0].count)
        rows = list(csv.DictReader(io.StringIO(text), delimiter=mark))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Give a CSV file in UTF-8.") from error
    found = []
    for number, row in enumerate(rows, 2):
        said = next(
            (str(value or "") for name, value in row.items() if str(name).startswith("verdict")),
            None,
        )
        if said is None or "pair" not in row:
            raise InputError(
                f"{file} has no columns 'pair' and 'verdict'. Give the sheet, or what the page saved."
            )
        if not said.strip():
            continue
        if (verdict := VERDICTS.get(said.strip().casefold())) is None:
            raise InputError(f"{file}, line {number}: the verdict is {said!r}. Write A, B or tie.")
        pair, rater, comment = (
            (row.get(name) or "").strip() for name in ("pair", "rater", "comment")
        )
        found.append(Verdict(pair, verdict, rater or unnamed, comment))
    return found


def import_verdicts(folder: Path, file: Path) -> int:
    """Take a rater's file into a run's folder beside those that are there, and return how many verdicts it holds.

    It is the filled-in sheet, or what the page saves, with columns parted by commas, semicolons or
    tabs. A rater who gives no name is called as the file is. The same verdicts are kept once,
    whatever their file is called. Raters without a name whose files are called alike are told
    apart.

    Raises:
        InputError: it cannot be read, has no such columns, a verdict that is none, or none on a
            pair of this run.
    """
    said, there = _read(file), _files(folder)
    if not read_key(folder).keys() & {verdict.pair for verdict in said}:
        raise InputError(
            f"{file} holds no verdict on a pair of this run. Give the file that belongs to its "
            f"sheet."
        )
    digest, name = sha256(_csv(said))[:12], file.stem
    if not any(kept.stem.endswith(f"-{digest}") or kept.samefile(file) for kept in there):
        if any(verdict.rater == name for verdict in kept_verdicts(folder)):
            name = f"{name} ({digest[:4]})"
        write_whole(folder / f"verdicts-{len(there) + 1:03}-{digest}.csv", _csv(_read(file, name)))
    return len(said)


def judge_pairs(
    folder: Path, pairs: Sequence[Pair], models: RunModels, name: str, settings: Settings
) -> int:
    """Ask a model about every pair in both orders; what it says differently in the two counts as a tie.

    Where a reply states no verdict, the pair has none. The verdicts are kept in the run's folder in
    place of what the model said before. Returns how many pairs it judged differently in the two
    orders, or gave no verdict on; raises ModelError where a call failed for good.
    """

    async def ask(pair: Pair, first: str, second: str) -> str:
        question = Question(text=pair.question, options={})
        words = await models.ask("judge", question, settings.budget(), first=first, second=second)
        found = _SAID.findall(words)
        return VERDICTS[found[-1].casefold()] if found else UNPARSED

    async def judged(pair: Pair) -> Verdict:
        one, swapped = await ask(pair, pair.a, pair.b), await ask(pair, pair.b, pair.a)
        if one == _OTHER_SIDE.get(swapped):
            return Verdict(pair.id, one, f"{_JUDGE}{name}")
        verdict = UNPARSED if UNPARSED in (one, swapped) else "tie"
        return Verdict(
            pair.id, verdict, f"{_JUDGE}{name}", f"in this order {one}, in the other {swapped}"
        )

    verdicts = wait_for(together(map(judged, pairs)))
    write_whole(folder / f"verdicts-judge-{sha256(name)[:12]}.csv", _csv(verdicts))
    return sum(bool(verdict.comment) for verdict in verdicts)


def kept_verdicts(folder: Path) -> list[Verdict]:
    """Return all verdicts that a run keeps, a file after another in the order in which they were taken in."""
    return [verdict for file in _files(folder) for verdict in _read(file, file.stem)]


def judges(folder: Path) -> list[str]:
    """Return the names of the models that judged a run's answers."""
    raters = dict.fromkeys(
        verdict.rater for verdict in kept_verdicts(folder) if is_judge(verdict.rater)
    )
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
    writer.writerows(map(astuple, verdicts))
    return lines.getvalue()
