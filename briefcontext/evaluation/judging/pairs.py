"""Pairs of answers, blinded and shuffled, and verdicts on them by raters or by a model."""

import csv
import io
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
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
"""The verdict on a pair for which a model judge stated none."""
VERDICTS = {"a": "A", "b": "B", UNPARSED: UNPARSED} | dict.fromkeys(
    ("tie", "neither", "both", "equal"), "tie"
)
_JUDGE = "judge "
_STATED = re.compile(r"^[\s*_]*verdict[\s*_]*:[\s*_]*(a|b|tie)\b", re.IGNORECASE | re.MULTILINE)
_OTHER_SIDE = {"A": "B", "B": "A", "tie": "tie"}
_HEADS = ("pair", "question", "answer A", "answer B", "verdict (A, B or tie)", "rater", "comment")


@dataclass(frozen=True)
class Pair:
    """Two answers to a question; the seed draws which method is A and which is B."""

    id: str
    """Reveals neither question nor order nor method."""
    question: str
    a: str
    b: str
    methods: Mapping[str, str]
    """A and B to the method's name."""


def make_pairs(rows: Sequence[Row], first: str, second: str, seed: int) -> tuple[list[Pair], int]:
    """Pair the answers of two methods to each question, in an order that the seed draws.

    Returns the pairs for raters, and the number of pairs whose answers are identical but for blanks
    and case.
    """
    pairs, identical = [], 0
    for one, other in paired(rows, first, second):
        if len({" ".join(str(row["text"]).casefold().split()) for row in (one, other)}) == 1:
            identical += 1
            continue
        name = f"{seed}\0{one['id']}\0{other['id']}"
        a, b = (other, one) if random.Random(name).random() < 0.5 else (one, other)
        texts = [str(row["text"]) or "(no answer)" for row in (a, b)]
        methods = {"A": str(a["method"]), "B": str(b["method"])}
        # The id depends on the texts, so that verdicts on another run's answers do not fit.
        id = sha256("\0".join([name, *texts]))[:10]
        pairs.append(Pair(id, one["question"], texts[0], texts[1], methods))
    random.Random(seed).shuffle(pairs)
    return pairs, identical


def read_key(folder: Path) -> dict[str, dict[str, str]]:
    """Return which method wrote A and which B, by pair."""
    key: dict[str, dict[str, str]] = json.loads((folder / KEY).read_text(encoding="utf-8"))
    return key


def write_sheets(folder: Path, pairs: Sequence[Pair], *, simulated: bool) -> None:
    """Write the sheet and the page for raters, and the key that they do not get."""
    key = {pair.id: dict(pair.methods) for pair in pairs}
    write_whole(folder / KEY, json.dumps(key, indent=2) + "\n")
    texts = [[pair.id, *map(_cell, (pair.question, pair.a, pair.b)), "", "", ""] for pair in pairs]
    write_whole(folder / SHEET, _csv(_HEADS, texts))
    numbered = enumerate(pairs, 1)
    shown = [{**asdict(pair), "number": n, "count": len(pairs)} for n, pair in numbered]
    page = (files(__package__) / PAGE).read_text(encoding="utf-8")
    write_whole(folder / PAGE, render(page, {"pairs": shown, "simulated": simulated}))


def _cell(text: str) -> str:
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


@dataclass(frozen=True)
class Verdict:
    """A rater's verdict on a pair: A, B, tie or unparsed."""

    pair: str
    verdict: str
    rater: str
    comment: str = ""


def _read(file: Path, unnamed: str = "") -> list[Verdict]:
    """Read a completed sheet, or the page's file, without rows that lack a verdict."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        # Spreadsheets separate columns by semicolons if a comma marks decimals.
        mark = max(";\t,", key=text.partition("\n")[0].count)
        rows = list(csv.DictReader(io.StringIO(text), delimiter=mark))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Give a CSV file in UTF-8.") from error
    results = []
    for number, row in enumerate(rows, 2):
        stated = [value for name, value in row.items() if str(name).startswith("verdict")]
        if not stated or "pair" not in row:
            raise InputError(
                f"{file} has no columns 'pair' and 'verdict'. Give the sheet, or the page's file."
            )
        word = str(stated[0] or "").strip()
        if not word:
            continue
        verdict = VERDICTS.get(word.casefold())
        if verdict is None:
            raise InputError(f"{file}, line {number}: the verdict is {word!r}. Write A, B or tie.")
        values = [(row.get(name) or "").strip() for name in ("pair", "rater", "comment")]
        results.append(Verdict(values[0], verdict, values[1] or unnamed, values[2]))
    return results


def import_verdicts(folder: Path, file: Path) -> int:
    """Copy a rater's file into a run's folder, and return the number of its verdicts.

    A rater without a name is called by the file's name. The same verdicts are kept once. Raises
    InputError if the file cannot be read or has no verdict on a pair of this run.
    """
    verdicts, kept = _read(file), _files(folder)
    if not read_key(folder).keys() & {verdict.pair for verdict in verdicts}:
        raise InputError(
            f"{file} has no verdict on a pair of this run. Give the file that belongs to its sheet."
        )
    digest, name = sha256(_verdicts_csv(verdicts))[:12], file.stem
    if not any(old.stem.endswith(f"-{digest}") or old.samefile(file) for old in kept):
        if any(verdict.rater == name for verdict in kept_verdicts(folder)):
            name = f"{name} ({digest[:4]})"
        copy = folder / f"verdicts-{len(kept) + 1:03}-{digest}.csv"
        write_whole(copy, _verdicts_csv(_read(file, name)))
    return len(verdicts)


def judge_pairs(
    folder: Path, pairs: Sequence[Pair], models: RunModels, name: str, settings: Settings
) -> None:
    """Ask a model about every pair in both orders, and keep its verdicts in the run's folder.

    A verdict that depends on the order is a tie with a comment; without a verdict in a reply the
    pair has none. Raises ModelError if a call failed for good.
    """

    async def ask(pair: Pair, first: str, second: str) -> str:
        question = Question(text=pair.question, options={})
        reply = await models.ask("judge", question, settings.budget(), first=first, second=second)
        result = _STATED.findall(reply)
        return VERDICTS[result[-1].casefold()] if result else UNPARSED

    async def judged(pair: Pair) -> Verdict:
        one, swapped = await ask(pair, pair.a, pair.b), await ask(pair, pair.b, pair.a)
        if one == _OTHER_SIDE.get(swapped):
            return Verdict(pair.id, one, f"{_JUDGE}{name}")
        verdict = UNPARSED if UNPARSED in (one, swapped) else "tie"
        comment = f"in this order {one}, in the other {swapped}"
        return Verdict(pair.id, verdict, f"{_JUDGE}{name}", comment)

    verdicts = wait_for(together(map(judged, pairs)))
    write_whole(folder / f"verdicts-judge-{sha256(name)[:12]}.csv", _verdicts_csv(verdicts))


def kept_verdicts(folder: Path) -> list[Verdict]:
    """Return all verdicts that a run keeps, in the order in which the files were imported."""
    return [verdict for file in _files(folder) for verdict in _read(file, file.stem)]


def judges(folder: Path) -> list[str]:
    """Return the names of the models that judged a run's answers."""
    raters = dict.fromkeys(verdict.rater for verdict in kept_verdicts(folder))
    return [rater.removeprefix(_JUDGE) for rater in raters if is_judge(rater)]


def is_judge(rater: str) -> bool:
    """Return True if a rater is a model."""
    return rater.startswith(_JUDGE)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("verdicts-*.csv"))


def _verdicts_csv(verdicts: Sequence[Verdict]) -> str:
    return _csv(("pair", "verdict", "rater", "comment"), map(astuple, verdicts))


def _csv(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = io.StringIO()
    csv.writer(lines).writerows([heads, *rows])
    return lines.getvalue()
