"""Pairs of answers, blinded and shuffled: the sheet, the page and the key."""

import csv
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from langchain_core.utils.mustache import render

from briefcontext.evaluation.statistics.comparison import paired
from briefcontext.evaluation.statistics.tables import Row
from briefcontext.files import sha256, write_whole

KEY = "key.json"
SHEET = "pairs.csv"
PAGE = "pairs.html"


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
        # Of the words, too: verdicts on another run's answers to the same questions are none on these.
        pairs.append(Pair(sha256("\0".join([name, *said]))[:10], one["question"], said[0], said[1], of))
    random.Random(seed).shuffle(pairs)
    return pairs


def read_key(folder: Path) -> dict[str, dict[str, str]]:
    """Return which method wrote A and which B, by pair."""
    key: dict[str, dict[str, str]] = json.loads((folder / KEY).read_text(encoding="utf-8"))
    return key


def write_sheets(folder: Path, pairs: Sequence[Pair], *, simulated: bool) -> None:
    """Write the sheet for raters, the page for raters, and the key that they do not get."""
    write_whole(folder / KEY, json.dumps({pair.id: dict(pair.methods) for pair in pairs}, indent=2) + "\n")
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["pair", "question", "answer A", "answer B", "verdict (A, B or tie)", "rater", "comment"])
    writer.writerows([pair.id, *map(_cell, (pair.question, pair.a, pair.b)), "", "", ""] for pair in pairs)
    write_whole(folder / SHEET, lines.getvalue())
    shown = [{**asdict(pair), "number": number, "count": len(pairs)} for number, pair in enumerate(pairs, 1)]
    page = (files(__package__) / PAGE).read_text(encoding="utf-8")
    write_whole(folder / PAGE, render(page, {"pairs": shown, "simulated": simulated}))


def _cell(text: str) -> str:
    """Keep a spreadsheet from reading words as a formula."""
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text
