"""Verdicts on pairs of answers: files of raters, a model's, asked in both orders, and what several raters agree on."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from time import time

import numpy as np
from scipy import stats

from briefcontext.chains.model.event_loop import together, wait_for
from briefcontext.chains.question import Question
from briefcontext.errors import InputError, needing
from briefcontext.evaluation.judging.pairs import Pair, read_key
from briefcontext.evaluation.methods.models import RunModels
from briefcontext.evaluation.statistics.inference import AUC_RESAMPLES, CONFIDENCE
from briefcontext.files import sha256, write_whole
from briefcontext.graphs.settings import Settings

OUTCOMES = ("win", "tie", "lose")
UNPARSED = "unparsed"
"""Of a pair of which a model judge said nothing that can be read: no outcome, and counted apart."""
VERDICTS = {"a": "A", "b": "B", "tie": "tie", "neither": "tie", "both": "tie", "equal": "tie", UNPARSED: UNPARSED}
_MARK = re.compile(r'(?:^|([,;\t]))"?pair"?(?:([,;\t])|$)')
"""Where a comma marks decimals, spreadsheets part columns by semicolons."""
_JUDGE = "judge "
_SAID = re.compile(r"^[\s*_]*verdict[\s*_]*:[\s*_]*(a|b|tie)\b", re.IGNORECASE | re.MULTILINE)
_OTHER_SIDE = {"A": "B", "B": "A", "tie": "tie"}


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
        mark = _MARK.search(text.partition("\n")[0])
        rows = list(csv.DictReader(io.StringIO(text), delimiter=(mark and (mark[1] or mark[2])) or ","))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read: {error}. Give a CSV file in UTF-8.") from error
    found = []
    for number, row in enumerate(rows, 2):
        said = next((str(value or "") for name, value in row.items() if str(name).startswith("verdict")), None)
        if said is None or "pair" not in row:
            raise InputError(f"{file} has no columns 'pair' and 'verdict'. Give the sheet, or what the page saved.")
        if not said.strip():
            continue
        if (verdict := VERDICTS.get(said.strip().casefold())) is None:
            raise InputError(f"{file}, line {number}: the verdict is {said!r}. Write A, B or tie.")
        pair, rater, comment = ((row.get(name) or "").strip() for name in ("pair", "rater", "comment"))
        found.append(Verdict(pair, verdict, rater or unnamed, comment))
    return found


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
    digest, name = sha256(_csv(said))[:12], file.stem
    if not any(kept.stem.endswith(f"-{digest}") or kept.samefile(file) for kept in there):
        if any(verdict.rater == name for verdict in kept_verdicts(folder)):
            name = f"{name} ({digest[:4]})"
        write_whole(folder / f"verdicts-{len(there) + 1:03}-{digest}.csv", _csv(_read(file, name)))
    return len(said)


def judge_pairs(folder: Path, pairs: Sequence[Pair], models: RunModels, name: str, settings: Settings) -> int:
    """Ask a model about every pair in both orders; what it says differently in the two counts as a tie.

    Where a reply states no verdict, the pair has none. The verdicts are kept in the run's folder in place of what the
    model said before. Returns how many pairs it judged differently in the two orders, or gave no verdict on; raises
    ModelError where a call failed for good.
    """

    async def ask(pair: Pair, first: str, second: str) -> str:
        question = Question(text=pair.question, options={})
        words = await models.ask("judge", question, settings.budget(time()), first=first, second=second)
        found = _SAID.findall(words)
        return VERDICTS[found[-1].casefold()] if found else UNPARSED

    async def judged(pair: Pair) -> Verdict:
        one, swapped = await ask(pair, pair.a, pair.b), await ask(pair, pair.b, pair.a)
        if one == _OTHER_SIDE.get(swapped):
            return Verdict(pair.id, one, f"{_JUDGE}{name}")
        verdict = UNPARSED if UNPARSED in (one, swapped) else "tie"
        return Verdict(pair.id, verdict, f"{_JUDGE}{name}", f"in this order {one}, in the other {swapped}")

    verdicts = wait_for(together(map(judged, pairs)))
    write_whole(folder / f"verdicts-judge-{sha256(name)[:12]}.csv", _csv(verdicts))
    return sum(bool(verdict.comment) for verdict in verdicts)


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
    writer.writerows(map(astuple, verdicts))
    return lines.getvalue()


@dataclass(frozen=True)
class Agreement:
    """How far raters agree beyond chance, on the pairs that all of them judged."""

    name: str
    """Cohen's kappa of two raters, Fleiss' of more."""
    raters: int
    pairs: int
    kappa: float | None
    """None where all verdicts are alike, and chance cannot be told from agreement."""
    low: float | None
    high: float | None


def consensus(outcomes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return for each pair the outcome that more than half of its raters gave; a tie where there is none."""
    found = {}
    for pair, by_rater in outcomes.items():
        outcome, count = Counter(by_rater.values()).most_common(1)[0]
        found[pair] = outcome if 2 * count > len(by_rater) else "tie"
    return found


def agreement(outcomes: Mapping[str, Mapping[str, str]], raters: Sequence[str], *, seed: int) -> Agreement | None:
    """Return Cohen's kappa of two raters with its 95% interval, or Fleiss' of more; None where no pair has all.

    The interval of Cohen's is statsmodels'; of Fleiss', for which it has none, a percentile bootstrap over the pairs.
    """
    with needing("experiments", "Experiments need statsmodels"):
        from statsmodels.stats import inter_rater  # type: ignore[import-untyped]
    judged = [[OUTCOMES.index(by_rater[rater]) for rater in raters]
              for by_rater in outcomes.values() if all(rater in by_rater for rater in raters)]  # fmt: skip
    if len(raters) < 2 or not judged:
        return None
    name = "Cohen's kappa" if len(raters) == 2 else "Fleiss' kappa"
    codes = np.array(judged)
    if len(np.unique(codes)) == 1:
        return Agreement(name, len(raters), len(judged), None, None, None)
    if len(raters) == 2:
        with np.errstate(invalid="ignore"):  # where a rater's verdicts are all alike, its test divides 0 by 0
            found = inter_rater.cohens_kappa(inter_rater.to_table(codes, len(OUTCOMES))[0])
        bounds = float(found.kappa_low), float(found.kappa_upp)
        return Agreement(name, 2, len(judged), float(found.kappa), *bounds)
    counts, _ = inter_rater.aggregate_raters(codes, len(OUTCOMES))

    def kappa(places: np.ndarray) -> float:
        return float(inter_rater.fleiss_kappa(counts[places]))

    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = stats.bootstrap(
            (np.arange(len(counts)),), kappa, vectorized=False, n_resamples=AUC_RESAMPLES, method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution  # fmt: skip
    # A resample whose verdicts are all alike has no kappa.
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = (None, None) if len(counts) < 2 else map(float, np.nanquantile(resampled, ends))
    return Agreement(name, len(raters), len(judged), kappa(np.arange(len(counts))), low, high)


def outcomes_of(
    verdicts: Sequence[Verdict], key: Mapping[str, Mapping[str, str]], preferred: str
) -> dict[str, dict[str, str]]:
    """Return win, tie or lose for the preferred method, by rater, by pair of the key; a later verdict counts."""
    found: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        if verdict.pair in key and verdict.verdict != UNPARSED:
            won = key[verdict.pair].get(verdict.verdict) == preferred
            word = "tie" if verdict.verdict == "tie" else "win" if won else "lose"
            found.setdefault(verdict.pair, {})[verdict.rater] = word
    return found
