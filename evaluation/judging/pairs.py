"""Pairs of answers, blinded and shuffled: the sheet, the page and the key."""

import csv
import io
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
        pairs.append(Pair(sha256(name)[:10], one["question"], said[0], said[1], of))
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
    write_whole(folder / PAGE, render(_PAGE, {"pairs": shown, "simulated": simulated}))


def _cell(text: str) -> str:
    """Keep a spreadsheet from reading words as a formula."""
    return f"'{text}" if text.lstrip()[:1] in ("=", "+", "-", "@") else text


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Which answer is better?</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
article { border-top: 1px solid #ccc; padding: 1rem 0 }
h2 { font-size: 1.1rem }
.answers { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem }
.answer { background: #f5f5f5; padding: .75rem 1rem; border-radius: .4rem; white-space: pre-wrap }
fieldset { border: 0; padding: .75rem 0 0; margin: 0 } label { margin-right: 1.5rem }
.simulation { color: #b00020; font-weight: bold } button { font: inherit; padding: .5rem 1rem }
</style>
</head>
<body>
<h1>Which answer is better?</h1>
{{#simulated}}
<p class="simulation">SIMULATION: the answers were made by a program, not by a language model.</p>
{{/simulated}}
<p>Judge what is right and complete; length and style do not count. Then save the verdicts as a file.</p>
{{#pairs}}
<article id="{{id}}">
<h2>{{number}} of {{count}}: {{question}}</h2>
<div class="answers">
<section><h3>A</h3><div class="answer">{{a}}</div></section>
<section><h3>B</h3><div class="answer">{{b}}</div></section>
</div>
<fieldset><legend>Verdict</legend>
<label><input type="radio" name="{{id}}" value="A"> A is better</label>
<label><input type="radio" name="{{id}}" value="B"> B is better</label>
<label><input type="radio" name="{{id}}" value="tie"> Neither is better</label>
<label>Comment <input type="text"></label></fieldset>
</article>
{{/pairs}}
<p><label>Your name or sign <input id="rater" type="text"></label>
<button id="save" type="button">Save verdicts</button>
<span id="status" role="status"></span></p>
<script>
const quoted = text => '"' + String(text).replaceAll('"', '""') + '"';
document.getElementById('save').addEventListener('click', () => {
  const rater = document.getElementById('rater').value.trim();
  const status = document.getElementById('status');
  if (!rater) { status.textContent = 'Give your name or sign first.'; return; }
  const lines = ['pair,verdict,rater,comment'];
  let open = 0;
  for (const article of document.querySelectorAll('article')) {
    const chosen = article.querySelector('input[type=radio]:checked');
    if (!chosen) { open += 1; continue; }
    const comment = article.querySelector('input[type=text]').value;
    lines.push([article.id, chosen.value, rater, comment].map(quoted).join(','));
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([lines.join('\\r\\n') + '\\r\\n'], { type: 'text/csv' }));
  link.download = 'verdicts.csv';
  link.click();
  status.textContent = open ? open + ' pairs have no verdict yet.' : 'All pairs have a verdict.';
});
</script>
</body>
</html>
"""
