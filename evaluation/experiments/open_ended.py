"""Experiment `open_ended`: answers to open questions, in pairs, for people to judge."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Materials, Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.judging.agreement import agreement, consensus, outcomes_of
from briefcontext.evaluation.judging.pairs import make_pairs, read_key, write_sheets
from briefcontext.evaluation.judging.verdicts import Verdict, is_judge, kept_verdicts
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.methods.method_io import Reading
from briefcontext.evaluation.runs.report import is_simulated
from briefcontext.evaluation.statistics.inference import holm, mcnemar_exact, wilson
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    cells,
    cells_table,
    p_value,
    percent,
    title_of,
    with_interval,
)

__all__ = ["OpenEnded"]


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

    def base_reading(self, item: Item, materials: Materials) -> Reading:
        """Leave the answer as long as it is: nobody compares it word by word."""
        return replace(super().base_reading(item, materials), short=False)

    def left_out(self, item: Item, materials: Materials, *, oracle: bool) -> str | None:
        """Leave multiple choice out."""
        if item.options:
            return "is multiple choice"
        return super().left_out(item, materials, oracle=oracle)

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Write the sheets, and count what verdicts there are."""
        first, second = self._two(config["methods"])
        folder = Path(config["folder"])
        pairs = make_pairs(rows, first, second, config["seed"])
        # A judge that is simulated makes no figure a result, but the answers are what they are.
        write_sheets(folder, pairs, simulated=is_simulated({**config, "judges": []}))
        verdicts = kept_verdicts(folder)
        key = read_key(folder)
        counted = count_verdicts(verdicts, key, second)
        # Raters judge, and no key does: a question that has one is counted with the others.
        used = cells([{**row, "metric": "none"} for row in rows], seed=config["seed"])
        report = Report(
            summary={"pairs": len(pairs), "verdicts": counted, "cells": used},
            remarks=[
                f"{len(pairs)} pairs are in pairs.csv, and on the page pairs.html, for raters. Which answer is whose "
                "is in key.json: keep it from them. Take their verdicts in with --verdicts FILE."
            ],
        )
        if changed := sum(count["changed"] for count in counted):
            report.remarks.append(
                f"{changed} verdicts differ from an earlier one of the same rater on the same pair; the later one "
                "counts. Were these two people, give each a name of their own in the column rater."
            )
        if counted:
            report.tables.append(_table(counted, first, second))
        people = [count["rater"] for count in counted if not is_judge(count["rater"])]
        said = outcomes_of([v for v in verdicts if v.rater in people], key, second)
        if len(people) > 1 and said:
            report.summary["consensus"] = agreed = _agreed(said, people, config["seed"])
            report.tables.append(_consensus_table(agreed, first, second))
        report.tables.append(cells_table("What was used", used))
        return report

    @staticmethod
    def _two(names: Sequence[str]) -> tuple[str, str]:
        if len(names) != 2:
            raise InputError(f"Pairs are made of two methods, and {len(names)} are given. Name two with --method.")
        return names[0], names[1]


def count_verdicts(
    verdicts: Sequence[Verdict], key: Mapping[str, Mapping[str, str]], preferred: str
) -> list[dict[str, Any]]:
    """Count, for each rater, how often a method's answer was preferred to the other's.

    Verdicts on pairs that the key does not know are counted apart, and of two on the same pair the later one counts.
    A sign test (exact McNemar on wins and losses), corrected by Holm over the raters.
    """
    found: list[dict[str, Any]] = []
    for rater in dict.fromkeys(verdict.rater for verdict in verdicts):
        given = [verdict for verdict in verdicts if verdict.rater == rater]
        own: dict[str, str] = {}
        changed = 0
        for verdict in given:
            changed += own.get(verdict.pair, verdict.verdict) != verdict.verdict
            own[verdict.pair] = verdict.verdict
        names = [by_rater[rater] for by_rater in outcomes_of(given, key, preferred).values()]
        win, lose = names.count("win"), names.count("lose")
        interval = wilson(win, len(names)) if names else None
        found.append(
            {
                "rater": rater,
                "n": len(names),
                "win": win,
                "tie": names.count("tie"),
                "lose": lose,
                "share": win / len(names) if names else None,
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
                "unknown_pairs": len(own) - len(names),
                "changed": changed,
                "p": mcnemar_exact(win, lose),
            }
        )
    for count, corrected in zip(found, holm([c["p"] for c in found]), strict=True):
        count["p_holm"] = corrected
    return found


def _agreed(said: Mapping[str, Mapping[str, str]], people: Sequence[str], seed: int) -> dict[str, Any]:
    """Count what more than half of the people say of each pair, and how far they agree."""
    outcomes = list(consensus(said).values())
    counts = {name: outcomes.count(name) for name in ("win", "tie", "lose")}
    kappa = agreement(said, people, seed=seed)
    return {
        "n": len(outcomes),
        **counts,
        **{f"{name}_interval": asdict(wilson(count, len(outcomes))) for name, count in counts.items()},
        "p": mcnemar_exact(counts["win"], counts["lose"]),
        "agreement": None if kappa is None else asdict(kappa),
    }


def _consensus_table(agreed: Mapping[str, Any], first: str, second: str) -> Table:
    shares = [
        with_interval(agreed[name] / agreed["n"], agreed[f"{name}_interval"]["low"], agreed[f"{name}_interval"]["high"])
        for name in ("win", "tie", "lose")
    ]
    row = [str(agreed["n"]), *shares, p_value(agreed["p"])]
    kappa = agreed["agreement"]
    note = "No pair was judged by all raters, so that their agreement cannot be told."
    if kappa is not None:
        shown = "–" if kappa["kappa"] is None else f"{kappa['kappa']:.2f}"
        span = "" if kappa["low"] is None else f" [{kappa['low']:.2f}, {kappa['high']:.2f}]"
        note = (
            f"Agreement of {kappa['raters']} raters on the {kappa['pairs']} pairs that all judged: {kappa['name']} "
            f"{shown}{span}."
        )
    return Table(
        f"{title_of(second)} against {title_of(first)}, consensus of the raters",
        ["n", "Win [95% CI]", "Tie [95% CI]", "Lose [95% CI]", "p"],
        [row],
        "In per cent of the pairs: what more than half of a pair's raters say, and a tie where no verdict has so many. "
        f"Model judges are not counted. p by an exact sign test without the ties. {note}",
    )


def _table(counted: Sequence[Mapping[str, Any]], first: str, second: str) -> Table:
    rows = [
        [
            str(c["rater"]),
            str(c["n"]),
            f"{c['win']} / {c['tie']} / {c['lose']}",
            " / ".join(percent(c[name] / c["n"]) if c["n"] else "–" for name in ("win", "tie", "lose")),
            with_interval(c["share"], c["low"], c["high"]),
            p_value(c["p"]),
            p_value(c["p_holm"]),
            str(c["unknown_pairs"]),
        ]
        for c in counted
    ]
    return Table(
        f"{title_of(second)} against {title_of(first)}",
        ["Rater", "n", "Win / tie / lose", "In per cent", "Preferred [95% CI]", "p", "p (Holm)", "Unknown pairs"],
        rows,
        "p by an exact sign test without the ties. A model judge is asked in both orders, and what it says "
        "differently in the two counts as a tie.",
    )
