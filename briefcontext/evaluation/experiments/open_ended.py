"""Experiment `open_ended`: answers to open questions, in pairs, for people to judge."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from statsmodels.stats import inter_rater  # type: ignore[import-untyped]

from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import WIN_TIE_LOSE_COLOURS, stacked_plot
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
from briefcontext.evaluation.runs.published import NPJ, PUBLISHED, SHORT
from briefcontext.evaluation.runs.results import is_simulated
from briefcontext.evaluation.statistics.comparison import correct
from briefcontext.evaluation.statistics.inference import mcnemar_exact, wilson
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


def _shares(one: Record) -> str:
    return " / ".join(percent(one[name] / one["n"] if one["n"] else None) for name in OUTCOMES)


_VERDICTS: Columns = {
    "Rater": itemgetter("rater"),
    **N,
    **WIN_TIE_LOSE,
    "In per cent": _shares,
    "Preferred [95% CI]": interval_of("share"),
    **P_VALUES,
    "No clear verdict": itemgetter("unclear"),
    "Unknown pairs": itemgetter("unknown_pairs"),
}
_VERDICTS_NOTE = (
    "Identical answers are ties and are not given to raters. p: exact sign test without the ties. "
    "No clear verdict: a model judge, asked in both orders, contradicted itself (a tie) or stated "
    "no verdict (not in n)."
)


class OpenEnded(RealRankings):
    """Pairs of answers, blinded and shuffled by the seed; verdicts are read back later."""

    name = "open_ended"
    title = "Open questions in pairs"
    question = "Which of two answers do raters prefer, without knowing which method wrote it?"
    methods = (VANILLA, "briefcontext")
    ks = (16,)
    force_choice = False
    needs_answers = False
    repeatable = False

    def short(self, item: Item) -> bool:
        return False

    def left_out(self, item: Item, *, oracle: bool) -> str | None:
        if item.options:
            return (
                "is multiple choice; the experiment open_ended takes free questions. Remove "
                "`options`, or use another experiment."
            )
        return super().left_out(item, oracle=oracle)

    def report(self, report: Report) -> None:
        config, folder = report.config, Path(report.config["folder"])
        first, second = config["methods"]
        pairs, identical = make_pairs(report.rows, first, second, report.seed)
        # The judge has no part in the answers.
        write_sheets(folder, pairs, simulated=is_simulated({**config, "judges": []}))
        report.summary |= {"pairs": len(pairs), "identical": identical}
        report.sentences.append(
            f"Pairs: {len(pairs) + identical}; identical answers, counted as ties: {identical}; "
            f"for raters, in pairs.csv and pairs.html: {len(pairs)}."
        )
        report.remarks.append(
            "key.json says which method wrote which answer: keep it from the raters. Read their "
            "verdicts back with --verdicts FILE."
        )
        verdicts, key = kept_verdicts(folder), read_key(folder)
        counted = count_verdicts(verdicts, key, second, identical)
        versus = f"{title_of(second)} against {title_of(first)}"
        report.show("verdicts", counted, versus, _VERDICTS, _VERDICTS_NOTE)
        for one in counted:
            report.sentences.append(
                f"{one['rater']}: win / tie / lose {_shares(one)}%, n = {one['n']} (the paper: "
                "29.2 / 58.3 / 12.5%, n = 48)."
            )
        changed = sum(count["changed"] for count in counted)
        if changed:
            report.remarks.append(
                f"Verdicts that replace an earlier one of the rater on the pair: {changed}. If "
                "these are two people, give each a name in the column rater."
            )
        people = [count["rater"] for count in counted if not is_judge(count["rater"])]
        said = outcomes_of([v for v in verdicts if v.rater in people], key, second)
        if len(people) > 1 and said:
            agreed = _agreed(said, people, identical)
            report.add("consensus", agreed, [_consensus_table(agreed, versus)])
        bars = {
            one["rater"]: [100 * one[name] / one["n"] for name in OUTCOMES]
            for one in counted
            if one["n"]
        }
        paper = {
            f"three experts\n({SHORT[NPJ]})": [
                float(one.value) for one in PUBLISHED if one.experiment == self.name
            ]
        }
        report.draw(
            stacked_plot,
            {**bars, **paper} if bars else {},
            parts=[name.capitalize() for name in OUTCOMES],
            x_label=f"Verdicts (%), {versus}",
            caption=f"n = {', '.join(str(one['n']) for one in counted)} pairs",
            colours=WIN_TIE_LOSE_COLOURS,
            published=[*paper],
            paper=f"{SHORT[NPJ]}, n = 48",
            percent=True,
        )
        # Raters judge, so an answer key is not used.
        used = cells([{**row, "metric": "none"} for row in report.rows], seed=report.seed)
        report.add("cells", used, [cells_table("What was used", used)])


def outcomes_of(
    verdicts: Sequence[Verdict], key: Mapping[str, Mapping[str, str]], preferred: str
) -> dict[str, dict[str, str]]:
    """Return win, tie or lose for the preferred method, by pair and rater; later verdicts count."""
    result: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        if verdict.pair in key and verdict.verdict != UNPARSED:
            won = key[verdict.pair].get(verdict.verdict) == preferred
            word = "tie" if verdict.verdict == "tie" else "win" if won else "lose"
            result.setdefault(verdict.pair, {})[verdict.rater] = word
    return result


def count_verdicts(
    verdicts: Sequence[Verdict],
    key: Mapping[str, Mapping[str, str]],
    preferred: str,
    identical: int = 0,
) -> list[dict[str, Any]]:
    """Count, for each rater, how often a method's answer was preferred to the other's."""
    results: list[dict[str, Any]] = []
    for rater, given in grouped(verdicts, lambda verdict: verdict.rater).items():
        by_pair = grouped(given, lambda verdict: verdict.pair).values()
        names = [by_rater[rater] for by_rater in outcomes_of(given, key, preferred).values()]
        counts = _counts(names, identical)
        last = [own[-1] for own in by_pair]
        pairs = [pair for own in by_pair for pair in pairwise(own)]
        results.append(
            {
                "rater": rater,
                **counts,
                "share": counts["win"] / counts["n"] if counts["n"] else None,
                **(wilson(counts["win"], counts["n"])._asdict() if counts["n"] else {}),
                "unclear": sum(is_judge(rater) and bool(verdict.comment) for verdict in last),
                "unknown_pairs": len({verdict.pair for verdict in given} - key.keys()),
                "changed": sum(one.verdict != other.verdict for one, other in pairs),
                "p": mcnemar_exact(counts["win"], counts["lose"]),
            }
        )
    correct(results)
    return results


def _counts(outcomes: Sequence[str], identical: int) -> dict[str, int]:
    counts = {name: outcomes.count(name) for name in OUTCOMES}
    counts["tie"] += identical
    return {"n": len(outcomes) + identical, **counts}


def _agreed(
    said: Mapping[str, Mapping[str, str]], people: Sequence[str], identical: int
) -> dict[str, Any]:
    counts = _counts(list(consensus(said).values()), identical)
    p = mcnemar_exact(counts["win"], counts["lose"])
    return {**counts, "p": p, "agreement": agreement(said, people)}


def consensus(outcomes: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return for each pair the outcome that more than half of its raters gave, or else a tie."""
    result = {}
    for pair, by_rater in outcomes.items():
        outcome, count = Counter(by_rater.values()).most_common(1)[0]
        result[pair] = outcome if 2 * count > len(by_rater) else "tie"
    return result


def agreement(
    outcomes: Mapping[str, Mapping[str, str]], raters: Sequence[str]
) -> dict[str, Any] | None:
    """Return how far raters agree beyond chance, on the pairs that all of them judged.

    Cohen's kappa of two raters with its 95% interval, or Fleiss' of more, by statsmodels. Its value
    is None if all verdicts are equal.
    """
    judged = [
        [OUTCOMES.index(by_rater[rater]) for rater in raters]
        for by_rater in outcomes.values()
        if all(rater in by_rater for rater in raters)
    ]
    if len(raters) < 2 or not judged:
        return None
    codes, two = np.array(judged), len(raters) == 2
    name = "Cohen's kappa" if two else "Fleiss' kappa"
    result = {"name": name, "raters": len(raters), "pairs": len(judged), "kappa": None}
    if len(np.unique(codes)) == 1:
        return result
    if not two:
        counts, _ = inter_rater.aggregate_raters(codes, len(OUTCOMES))
        return {**result, "kappa": float(inter_rater.fleiss_kappa(counts))}
    # statsmodels divides 0 by 0 in a test that is not used here.
    with np.errstate(invalid="ignore"):
        cohen = inter_rater.cohens_kappa(inter_rater.to_table(codes, len(OUTCOMES))[0])
    interval = {"low": float(cohen.kappa_low), "high": float(cohen.kappa_upp)}
    return {**result, "kappa": float(cohen.kappa), **interval}


def _consensus_table(agreed: Mapping[str, Any], versus: str) -> Table:
    def share(name: str) -> Callable[[Record], str]:
        return lambda one: with_interval(one[name] / one["n"], *wilson(one[name], one["n"]))

    kappa, note = agreed["agreement"], "No pair was judged by all raters."
    if kappa is not None:
        value = "–" if kappa["kappa"] is None else f"{kappa['kappa']:.2f}"
        span = f" [{kappa['low']:.2f}, {kappa['high']:.2f}]" if "low" in kappa else ""
        note = (
            f"{kappa['name']} of {kappa['raters']} raters on {kappa['pairs']} pairs: {value}{span}."
        )
    return Table.from_records(
        f"{versus}, consensus of the raters",
        [agreed],
        {
            **N,
            **{f"{name.capitalize()} [95% CI]": share(name) for name in OUTCOMES},
            "p": lambda one: p_value(one["p"]),
        },
        "In per cent: the verdict of more than half of a pair's raters, or else a tie; without "
        "model judges.",
        note,
    )
