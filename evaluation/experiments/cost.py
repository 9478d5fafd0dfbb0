"""Experiment `cost`: what each method takes for a question, with the tokens really used."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import stacked_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.statistics.comparison import paired
from briefcontext.evaluation.statistics.inference import bootstrap_ratio
from briefcontext.evaluation.statistics.score_tables import (
    Row,
    Table,
    answered,
    bootstrap_bounds,
    cells,
    cells_tables,
    percent,
    title_of,
    with_interval,
)

__all__ = ["Cost", "cost_of", "predictions", "savings"]

_STAGES = {"extract": "map", "reduce": "reduce"}


class Cost(RealRankings):
    """Tokens as they were used, beside what BriefContext's equations 4 and 5 predict, and what the preflight saves.

    Equation 4 gives the cost of one call, (N_con + N_ins) p_in + N_out p_out; equation 5 that of M partitions and the
    reduce step, N_con p_in + M N_ins p_in + (M + 1) N_out p_out. N_con, N_ins and N_out, the tokens of the documents,
    of the instructions and of the answer, are those of vanilla's call on the same question; M is that of the answer.
    """

    name = "cost"
    title = "Cost"
    question = "How many tokens does a question take: one call over all documents, or map and reduce?"
    methods = (VANILLA, "briefcontext", "map_reduce")
    ks = (8, 16)
    needs_answers = False
    repeatable = False

    def report(self, rows: Sequence[Row], config: Mapping[str, Any], out: Path | None) -> Report:
        """Tokens by method and stage, and against vanilla."""
        costs = cost_of(rows, seed=config["seed"])
        every = cells(rows, seed=config["seed"])
        prices = config["prices"]
        predicted = predictions(rows, prices)
        saved = savings(rows, prices, seed=config["seed"])
        report = Report(
            summary={"costs": costs, "cells": every, "predictions": predicted, "savings": saved},
            tables=[
                _table(costs),
                *([_predictions_table(predicted)] if predicted else []),
                *([_savings_table(saved)] if saved else []),
                *cells_tables("that the tokens bought", every),
            ],
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


def predictions(rows: Sequence[Row], prices: Prices) -> list[dict[str, Any]]:
    """Return what equations 4 and 5 predict for a question beside what it took, by method and condition.

    Means over the questions that vanilla answered under the same condition, whose call gives N_con, N_ins and N_out.
    """
    groups: dict[tuple[Any, ...], list[dict[str, float]]] = {}
    for name in dict.fromkeys(row["method"] for row in rows):
        for row, vanilla in paired(rows, name, VANILLA):
            if row.get("in_parts") or vanilla.get("in_parts"):
                continue
            n_con = sum(call["context_tokens"] for call in vanilla["calls"])
            n_in, n_out, m = vanilla["usage"]["input_tokens"], vanilla["usage"]["output_tokens"], row["partitions"]
            n_ins = n_in - n_con
            one = {
                "n_con": n_con,
                "n_ins": n_ins,
                "n_out": n_out,
                "partitions": m,
                "predicted_input": n_con + max(m, 1) * n_ins,
                "predicted_output": (m + 1) * n_out,
                "input_tokens": row["usage"]["input_tokens"],
                "reduce_input": _tokens(row, "reduce", "input_tokens"),
                "output_tokens": row["usage"]["output_tokens"],
            }
            groups.setdefault((name, *row["condition"].items()), []).append(one)
    found: list[dict[str, Any]] = []
    for key, some in groups.items():
        means = {name: fmean(one[name] for one in some) for name in some[0]}
        prediction = prices.cost(means["predicted_input"], means["predicted_output"])
        cost = prices.cost(means["input_tokens"], means["output_tokens"])
        found.append(
            {"method": key[0], "condition": dict(key[1:]), "n": len(some), **means, "predicted_cost": prediction,
             "cost": cost}
        )  # fmt: skip
    return found


def savings(rows: Sequence[Row], prices: Prices, *, seed: int) -> list[dict[str, Any]]:
    """Return what the preflight saves of the map-reduce's tokens, and of its cost where there are prices.

    Over the questions that both answered, by condition: one less the ratio of the sums, with a bootstrap's interval.
    """
    groups: dict[tuple[Any, ...], list[tuple[Row, Row]]] = {}
    for with_check, always in paired(rows, "briefcontext", "map_reduce"):
        groups.setdefault(tuple(with_check["condition"].items()), []).append((with_check, always))
    found = []
    for condition, pairs in groups.items():
        measures: dict[str, Callable[[Row], float]] = {
            "input tokens": lambda row: row["usage"]["input_tokens"],
            "output tokens": lambda row: row["usage"]["output_tokens"],
        }
        if prices.cost(1, 1) is not None:
            measures["cost"] = lambda row: prices.cost(row["usage"]["input_tokens"], row["usage"]["output_tokens"]) or 0
        for what, measure in measures.items():
            above, below = ([measure(pair[side]) for pair in pairs] for side in (0, 1))
            if not sum(below):
                continue
            kept = bootstrap_ratio(above, below, seed=seed) if len(pairs) > 1 else None
            found.append(
                {
                    "condition": dict(condition),
                    "n": len(pairs),
                    "skip_the_map": fmean(row["route"] != "map_reduce" for row, _ in pairs),
                    "what": what,
                    "saved": 1 - sum(above) / sum(below),
                    "low": 1 - kept.high if kept else None,
                    "high": 1 - kept.low if kept else None,
                }
            )
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


def _predictions_table(predicted: Sequence[Mapping[str, Any]]) -> Table:
    names = ["n_con", "n_ins", "n_out", "partitions", "predicted_input", "input_tokens", "reduce_input"]
    names += ["predicted_output", "output_tokens"]
    costs = any(one["cost"] is not None for one in predicted)
    heads = ["N_con", "N_ins", "N_out", "M", "Input predicted", "Input used", "of it reduce", "Output predicted"]
    return Table(
        "Predicted by the equations, and used",
        ["Method", "k", "n", *heads, "Output used", *(["Cost predicted ($)", "Cost used ($)"] if costs else [])],
        [
            [
                title_of(one["method"]), str(one["condition"].get("k", "any")), str(one["n"]),
                *(f"{one[name]:,.1f}" for name in names),
                *([f"{one[name]:.6f}" for name in ("predicted_cost", "cost")] if costs else []),
            ]
            for one in predicted
        ],
        "Means for a question. Equation 4 of BriefContext where one call answers, (N_con + N_ins) p_in + N_out p_out; "
        "equation 5 where M partitions are read, N_con p_in + M N_ins p_in + (M + 1) N_out p_out. N_con, N_ins and "
        "N_out are measured on vanilla's call, the first two by the documents' share of its characters. Equation 5 "
        "leaves out what the reduce step reads (of it reduce), and takes the map's instructions and replies to be as "
        "long as vanilla's.",
    )  # fmt: skip


def _savings_table(saved: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "Saved by the preflight",
        ["k", "n", "Skip the map", "Of the map-reduce's", "Saved [95% CI]"],
        [
            [str(one["condition"].get("k", "any")), str(one["n"]), percent(one["skip_the_map"]), one["what"],
             with_interval(one["saved"], one["low"], one["high"])]
            for one in saved
        ],
        "In per cent: BriefContext with its preflight against the map-reduce for every question. Intervals by "
        "bootstrap over the questions.",
    )  # fmt: skip
