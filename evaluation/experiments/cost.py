"""Experiment `cost`: what each method takes for a question, with the tokens really used."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import stacked_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    answered,
    bootstrap_bounds,
    cells,
    cells_tables,
    title_of,
)

__all__ = ["Cost", "cost_of"]

_STAGES = {"extract": "map", "reduce": "reduce"}


class Cost(RealRankings):
    """Tokens of one call over all documents (equation 4) and of map and reduce (equation 5), as they were used.

    Equation 4 of BriefContext gives vanilla RAG's cost: the tokens of its one call. Equation 5 gives
    BriefContext's: the sum over the calls on the partitions, plus the reduce call. Both are evaluated here with the
    tokens that the provider reported for each call, and not with estimates.
    """

    name = "cost"
    title = "Cost"
    question = "How many tokens does a question take: one call over all documents, or map and reduce?"
    methods = (VANILLA, "briefcontext", "map_reduce")
    ks = (8, 16)
    needs_answers = False

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Tokens by method and stage, and against vanilla."""
        costs = cost_of(rows, seed=config["seed"])
        every = cells(rows, seed=config["seed"])
        report = Report(
            summary={"costs": costs, "cells": every},
            tables=[_table(costs), *cells_tables("that the tokens bought", every)],
        )
        if out is not None:
            bars = {
                f"{title_of(c['method'])}\nk = {c['condition'].get('k', 'any')}": (
                    c["one_call_input"],
                    c["map_input"],
                    c["reduce_input"],
                    c["output_tokens"],
                )
                for c in costs
            }
            report.figures += stacked_plot(
                bars,
                ("Input, one call", "Input, map", "Input, reduce", "Output"),
                out / self.name,
                x_label="Tokens for a question (mean)",
                simulated=config["simulation"],
            )
        return report


def cost_of(rows: Sequence[Row], *, seed: int) -> list[dict[str, Any]]:
    """Return the mean tokens of a question by method and condition, by stage, and over vanilla's."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in answered(rows):
        groups.setdefault((row["method"], *row["condition"].items()), []).append(row)
    vanilla = {key[1:]: {row["item"]: row for row in some} for key, some in groups.items() if key[0] == VANILLA}
    found = []
    for key, some in groups.items():
        cost: dict[str, Any] = {"method": key[0], "condition": dict(key[1:]), "n": len(some)}
        for stage in ("one_call", "map", "reduce"):
            for side in ("input", "output"):
                cost[f"{stage}_{side}"] = fmean(_tokens(row, stage, f"{side}_tokens") for row in some)
        for name in ("calls", "input_tokens", "output_tokens"):
            cost[name] = fmean(row["usage"][name] for row in some)
        for side in ("input_tokens", "output_tokens"):
            tokens = [float(row["usage"][side]) for row in some]
            cost[f"{side}_low"], cost[f"{side}_high"] = bootstrap_bounds(tokens, seed=seed)
        cost["in_parts"] = sum(bool(row.get("in_parts")) for row in some)
        same = [(row, vanilla[key[1:]][row["item"]]) for row in some if row["item"] in vanilla.get(key[1:], {})]
        base = sum(other["usage"]["input_tokens"] for _, other in same)
        cost["input_ratio"] = sum(row["usage"]["input_tokens"] for row, _ in same) / base if base else None
        found.append(cost)
    return found


def _tokens(row: Row, stage: str, side: str) -> int:
    return sum(call[side] for call in row["calls"] if _STAGES.get(call["stage"], "one_call") == stage)


def _bounds(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{low:,.1f}, {high:,.1f}"


def _table(costs: Sequence[Mapping[str, Any]]) -> Table:
    in_parts = any(c["in_parts"] for c in costs)
    rows = [
        [
            title_of(c["method"]),
            str(c["condition"].get("k", "any")),
            str(c["n"]),
            *([str(c["in_parts"])] if in_parts else []),
            f"{c['calls']:.2f}",
            *(f"{c[f'{stage}_input']:,.1f}" for stage in ("one_call", "map", "reduce")),
            *(
                f"{c[side]:,.1f} [{_bounds(c[f'{side}_low'], c[f'{side}_high'])}]"
                for side in ("input_tokens", "output_tokens")
            ),
            "–" if c["input_ratio"] is None else f"{c['input_ratio']:.2f}",
        ]
        for c in costs
    ]
    return Table(
        "Tokens for a question",
        ["Method", "k", "n", *(["In parts"] if in_parts else []), "Calls", "Input, one call", "Input, map",
         "Input, reduce", "Input in all [95% CI]", "Output in all [95% CI]", "Input over vanilla's"],
        rows,
        "Means of the tokens that the provider reported (BriefContext's equations 4 and 5 with real figures): vanilla "
        "takes its one call; BriefContext the sum over its partitions and the reduce call. With preflight, questions "
        "whose rankings agree take one call. Intervals by bootstrap over questions."
        + (" In parts: documents that did not fit into one call, whose calls stand under map and reduce."
           if in_parts else ""),
    )  # fmt: skip
