"""Experiment `open_ended`: answers to open questions, in pairs, for people to judge."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from briefcontext.errors import needing
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.judging.pairs import (
    UNPARSED,
    Verdict,
    is_judge,
    kept_verdicts,
    make_pairs,
    read_key,
    write_sheets,
)
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.runs.results import is_simulated
from briefcontext.evaluation.statistics.comparison import correct
from briefcontext.evaluation.statistics.inference import (
    AUC_RESAMPLES,
    CONFIDENCE,
    mcnemar_exact,
    wilson,
)
from briefcontext.evaluation.statistics.tables import (
    P_VALUES,
    WIN_TIE_LOSE,
    Columns,
    N,
    Record,
    Table,
    cells,
    cells_table,
    grouped,
    interval_of,
    p_value,
    percent,
    title_of,
    with_interval,
)

OUTCOMES = ("win", "tie", "lose")
_VERDICTS: Columns = {
    "Rater": itemgetter("rater"),
    **N,
    **WIN_TIE_LOSE,
    "In per cent": lambda c: " / ".join(
        percent(c[name] / c["n"] if c["n"] else None) for name in OUTCOMES
    ),
    "Preferred [95% CI]": interval_of("share"),
    **P_VALUES,
    "Unparsed": itemgetter("unparsed"),
    "Unknown pairs": itemgetter("unknown_pairs"),
}
_VERDICTS_NOTE = (
    "p by an exact sign test without the ties. A model judge is asked in both orders, and what it "
    "says "
    "differently in the two counts as a tie. Where a reply of its states no verdict (unparsed), "
    "the pair is no "
    "part of n."
)


class OpenEnded(RealRankings):
    """Pairs of answers, blinded and shuffled by the seed, as a sheet and a page; verdicts are taken in later."""

    name = "open_ended"
    title = "Open questions in pairs"
    question = "Which of two answers to an open question do raters prefer, without knowing which method wrote it?"
    methods = (VANILLA, "briefcontext")
    ks = (16,)
    force_choice = False
    needs_answers = False
    repeatable = False

    def short(self, item: Item) -> bool:
        """Leave answers as long as they are: nobody compares them word by word."""
        return False

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        """Leave multiple choice out."""
        return "is multiple choice" if item.options else super().left_out(item, oracle=oracle)

    def report(self, report: Report) -> None:
        """Write the sheets, and count what verdicts there are."""
        config = report.config
        first, second = config["methods"]
        folder = Path(config["folder"])
        pairs = make_pairs(report.rows, first, second, report.seed)
        # A judge that is simulated makes no figure a result, but the answers are what they are.
        write_sheets(folder, pairs, simulated=is_simulated({**config, "judges": []}))
        report.summary["pairs"] = len(pairs)
        report.remarks.append(
            f"Pairs for raters, in pairs.csv and on the page pairs.html: {len(pairs)}. Which "
            f"answer is whose "
            "is in key.json: keep it from them. Take their verdicts in with --verdicts FILE."
        )
        verdicts, key = kept_verdicts(folder), read_key(folder)
        counted = count_verdicts(verdicts, key, second)
        versus = f"{title_of(second)} against {title_of(first)}"
        report.show("verdicts", counted, versus, _VERDICTS, _VERDICTS_NOTE)
        if changed := sum(count["changed"] for count in counted):
            report.remarks.append(
                f"Verdicts that differ from an earlier one of the same rater on the same pair: "
                f"{changed}; the later "
                "one counts. Were these two people, give each a name of their own in the column "
                "rater."
            )
        people = [count["rater"] for count in counted if not is_judge(count["rater"])]
        said = outcomes_of([v for v in verdicts if v.rater in people], key, second)
        if len(people) > 1 and said:
            agreed = _agreed(said, people, report.seed)
            report.add("consensus", agreed, [_consensus_table(agreed, versus)])
        # Raters judge, and no key does: a question that has one is counted with the others.
        used = cells([{**row, "metric": "none"} for row in report.rows], seed=report.seed)
        report.add("cells", used, [cells_table("What was used", used)])


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


def count_verdicts(
    verdicts: Sequence[Verdict], key: Mapping[str, Mapping[str, str]], preferred: str
) -> list[dict[str, Any]]:
    """Count, for each rater, how often a method's answer was preferred to the other's.

    Verdicts that could not be read, and those on pairs that the key does not know, are counted
    apart; of two on the same pair the later one counts. A sign test (exact McNemar on wins and
    losses), corrected by Holm over the raters.
    """
    found: list[dict[str, Any]] = []
    for rater, given in grouped(verdicts, lambda verdict: verdict.rater).items():
        said = [
            [verdict.verdict for verdict in own]
            for own in grouped(given, lambda verdict: verdict.pair).values()
        ]
        names = [by_rater[rater] for by_rater in outcomes_of(given, key, preferred).values()]
        counts = {name: names.count(name) for name in OUTCOMES}
        low, high = wilson(counts["win"], len(names)) if names else (None, None)
        found.append(
            {
                "rater": rater,
                "n": len(names),
                **counts,
                "share": counts["win"] / len(names) if names else None,
                "low": low,
                "high": high,
                "unparsed": sum(words[-1] == UNPARSED for words in said),
                "unknown_pairs": len({verdict.pair for verdict in given} - key.keys()),
                "changed": sum(
                    one != next_one for words in said for one, next_one in pairwise(words)
                ),
                "p": mcnemar_exact(counts["win"], counts["lose"]),
            }
        )
    correct(found)
    return found


def _agreed(
    said: Mapping[str, Mapping[str, str]], people: Sequence[str], seed: int
) -> dict[str, Any]:
    """Count what more than half of the people say of each pair, and how far they agree."""
    outcomes = list(consensus(said).values())
    counts, n = {name: outcomes.count(name) for name in OUTCOMES}, len(outcomes)
    return {
        "n": n,
        **counts,
        **{
            f"{name}_interval": {**wilson(count, n)._asdict(), "n": n}
            for name, count in counts.items()
        },
        "p": mcnemar_exact(counts["win"], counts["lose"]),
        "agreement": agreement(said, people, seed=seed),
    }


def consensus(outcomes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return for each pair the outcome that more than half of its raters gave; a tie where there is none."""
    found = {}
    for pair, by_rater in outcomes.items():
        outcome, count = Counter(by_rater.values()).most_common(1)[0]
        found[pair] = outcome if 2 * count > len(by_rater) else "tie"
    return found


def agreement(
    outcomes: Mapping[str, Mapping[str, str]], raters: Sequence[str], *, seed: int
) -> dict[str, Any] | None:
    """Return how far raters agree beyond chance, on the pairs that all of them judged; None where there is none.

    Cohen's kappa of two raters with its 95% interval, or Fleiss' of more; None where all verdicts
    are alike, and chance cannot be told from agreement. The interval of Cohen's is statsmodels'; of
    Fleiss', for which it has none, a percentile bootstrap over the pairs.
    """
    with needing("experiments", "Experiments need statsmodels"):
        from statsmodels.stats import inter_rater  # type: ignore[import-untyped]
    judged = [[OUTCOMES.index(by_rater[rater]) for rater in raters]
              for by_rater in outcomes.values() if all(rater in by_rater for rater in raters)]  # fmt: skip
    if len(raters) < 2 or not judged:
        return None
    name = "Cohen's kappa" if len(raters) == 2 else "Fleiss' kappa"
    found = {
        "name": name,
        "raters": len(raters),
        "pairs": len(judged),
        "kappa": None,
        "low": None,
        "high": None,
    }
    codes = np.array(judged)
    if len(np.unique(codes)) == 1:
        return found
    if len(raters) == 2:
        with np.errstate(
            invalid="ignore"
        ):  # where a rater's verdicts are all alike, its test divides 0 by 0
            cohens = inter_rater.cohens_kappa(inter_rater.to_table(codes, len(OUTCOMES))[0])
        return {
            **found,
            "kappa": float(cohens.kappa),
            "low": float(cohens.kappa_low),
            "high": float(cohens.kappa_upp),
        }
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
    return {**found, "kappa": kappa(np.arange(len(counts))), "low": low, "high": high}


def _consensus_table(agreed: Mapping[str, Any], versus: str) -> Table:
    def share(name: str) -> Callable[[Record], str]:
        return lambda one: with_interval(
            one[name] / one["n"], *itemgetter("low", "high")(one[f"{name}_interval"])
        )

    kappa = agreed["agreement"]
    note = "No pair was judged by all raters, so that their agreement cannot be told."
    if kappa is not None:
        shown = "–" if kappa["kappa"] is None else f"{kappa['kappa']:.2f}"
        span = "" if kappa["low"] is None else f" [{kappa['low']:.2f}, {kappa['high']:.2f}]"
        note = (
            f"Agreement of {kappa['raters']} raters on the {kappa['pairs']} pairs that all judged: {kappa['name']} "
            f"{shown}{span}."
        )
    return Table.of(
        f"{versus}, consensus of the raters",
        [agreed],
        {
            **N,
            **{f"{name.capitalize()} [95% CI]": share(name) for name in OUTCOMES},
            "p": lambda one: p_value(one["p"]),
        },
        "In per cent of the pairs: what more than half of a pair's raters say, and a tie where no verdict has so many. "
        f"Model judges are not counted. p by an exact sign test without the ties. {note}",
    )
