"""Experiment `cost`: the tokens of each method for a question."""

from collections.abc import Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import stacked_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.runs.published import NPJ, SHORT, published_curves
from briefcontext.evaluation.statistics.comparison import paired
from briefcontext.evaluation.statistics.tables import (
    METHOD,
    Columns,
    N,
    Row,
    amount_of,
    answered,
    condition_of,
    grouped,
    percent,
    percent_of,
    reported,
    title_of,
    under,
)

_STAGES = {"extract": "map", "reduce": "reduce"}
_INPUTS = {"one_call_input": "Input, one call", "map_input": "Input, map",
           "reduce_input": "Input, reduce"}  # fmt: skip
_COSTS: Columns = {
    **METHOD,
    **under("k"),
    **N,
    "Calls": amount_of("calls", ".2f"),
    **{head: amount_of(name) for name, head in _INPUTS.items()},
    "Input in all": amount_of("input_tokens"),
    "Output in all": amount_of("output_tokens"),
    "Input over vanilla's": lambda c: f"{c['input_ratio']:.2f}" if c["input_ratio"] else "–",
}
_COSTS_NOTE = (
    "Means of the tokens that the provider reported. BriefContext's preflight answers in one call "
    "if the rankings agree. Documents that do not fit into one call are read by map and reduce."
)
_PREDICTIONS: Columns = {
    **METHOD,
    **under("k"),
    **N,
    "N_con": amount_of("n_con"),
    "N_ins": amount_of("n_ins"),
    "N_out": amount_of("n_out"),
    "M": amount_of("partitions"),
    "Input predicted": amount_of("predicted_input"),
    "Input used": amount_of("input_tokens"),
    "of it reduce": amount_of("reduce_input"),
    "Output predicted": amount_of("predicted_output"),
    "Output used": amount_of("output_tokens"),
}
_PREDICTED_COSTS: Columns = {
    "Cost predicted ($)": amount_of("predicted_cost", ".6f"),
    "Cost used ($)": amount_of("cost", ".6f"),
}
_PREDICTIONS_NOTE = (
    "Equation 4 of BriefContext for one call, (N_con + N_ins) p_in + N_out p_out; equation 5 for M "
    "partitions, N_con p_in + M N_ins p_in + (M + 1) N_out p_out. N_con, N_ins and N_out are those "
    "of vanilla's call, the first two by the documents' share of its characters. Equation 5 leaves "
    "out what the reduce step reads."
)
_SAVINGS: Columns = {
    **under("k"),
    **N,
    "Skip the map": percent_of("skip_the_map"),
    "Of the map-reduce's": itemgetter("what"),
    "Saved": percent_of("saved"),
}
_SAVINGS_NOTE = (
    "In per cent: BriefContext with its preflight against map-reduce for every question."
)


class Cost(RealRankings):
    """Tokens used, as predicted by BriefContext's equations, and saved by the preflight."""

    name = "cost"
    title = "Cost"
    question = "How many tokens does a question take: one call over all documents, or map-reduce?"
    methods = (VANILLA, "briefcontext", "map_reduce")
    ks = (8, 16)
    needs_answers = False
    repeatable = False

    def report(self, report: Report) -> None:
        rows, prices = reported(report.rows), report.config["prices"]
        costs, saved = cost_of(rows), savings(rows, prices)
        report.show("costs", costs, "Tokens for a question", _COSTS, _COSTS_NOTE)
        columns = {**_PREDICTIONS, **(_PREDICTED_COSTS if prices.known else {})}
        predicted = predictions(rows, prices)
        title = "Predicted by the equations, and used"
        report.show("predictions", predicted, title, columns, _PREDICTIONS_NOTE)
        report.show("savings", saved, "Saved by the preflight", _SAVINGS, _SAVINGS_NOTE)
        report.scores("that the tokens bought")
        named = [
            (f"{title_of(c['method'])} at k {c['condition'].get('k', 'any')}", c) for c in costs
        ]
        for what in ("input", "output"):
            shown = ", ".join(f"{name} {c[f'{what}_tokens']:,.0f}" for name, c in named)
            report.sentences.append(f"Mean {what} tokens for a question: {shown or 'none'}.")
        shown = ", ".join(
            f"{percent(one['saved'])}% of the {one['what']} at k {one['condition'].get('k')}"
            for one in saved
        )
        report.sentences.append(f"Saved by the preflight, against map-reduce: {shown or 'none'}.")
        sides = (*_INPUTS, "output_tokens")
        bars = {
            f"{title_of(c['method'])}\nk = {c['condition'].get('k', 'any')}": itemgetter(*sides)(c)
            for c in costs
        }
        published = {}
        for (k, method), own in grouped(
            published_curves(self.name), lambda each: (each.k, each.method)
        ).items():
            given, made = (float(curve.value) for curve in own)
            one_call = (given, 0.0, 0.0, made) if method == VANILLA else (0.0, given, 0.0, made)
            published[f"{title_of(method)}\nk = {k} ({SHORT[NPJ]})"] = one_call
        report.draw(
            stacked_plot,
            {**bars, **published} if bars else {},
            parts=(*_INPUTS.values(), "Output"),
            x_label="Tokens for a question (mean)",
            caption=f"n = {len({row['item'] for row in rows})} questions",
            published=[*published],
            paper=SHORT[NPJ],
        )


def cost_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the mean tokens of a question by method, condition and stage."""
    results = []
    groups = grouped(answered(rows), lambda row: (row["method"], condition_of(row)))
    for (method, condition), some in groups.items():
        cost: dict[str, Any] = {"method": method, "condition": dict(condition), "n": len(some)}
        for stage in ("one_call", "map", "reduce"):
            for side in ("input", "output"):
                cost[f"{stage}_{side}"] = fmean(
                    _tokens(row, stage, f"{side}_tokens") for row in some
                )
        for name in ("calls", "input_tokens", "output_tokens"):
            cost[name] = fmean(row["usage"][name] for row in some)
        pairs = paired(rows, method, VANILLA)
        same = [pair for pair in pairs if condition_of(pair[0]) == condition]
        own, base = (sum(pair[side]["usage"]["input_tokens"] for pair in same) for side in (0, 1))
        cost["input_ratio"] = own / base if base else None
        results.append(cost)
    return results


def predictions(rows: Sequence[Row], prices: Prices) -> list[dict[str, Any]]:
    """Return the prediction of equations 4 and 5 and the use, by method and condition."""
    results: list[dict[str, Any]] = []
    for name in dict.fromkeys(row["method"] for row in rows):
        pairs = paired(rows, name, VANILLA)
        whole = [pair for pair in pairs if not any(row.get("in_parts") for row in pair)]
        for condition, some in grouped(whole, lambda pair: condition_of(pair[0])).items():
            each = [_predicted(*pair) for pair in some]
            means = {what: fmean(one[what] for one in each) for what in each[0]}
            head = {"method": name, "condition": dict(condition), "n": len(some)}
            costs = {
                "predicted_cost": prices.cost(means["predicted_input"], means["predicted_output"]),
                "cost": prices.cost(means["input_tokens"], means["output_tokens"]),
            }
            results.append({**head, **means, **costs})
    return results


def _predicted(row: Row, vanilla: Row) -> dict[str, float]:
    n_con = sum(call["context_tokens"] for call in vanilla["calls"])
    n_ins, n_out = vanilla["usage"]["input_tokens"] - n_con, vanilla["usage"]["output_tokens"]
    return {
        "n_con": n_con,
        "n_ins": n_ins,
        "n_out": n_out,
        "partitions": row["partitions"],
        "predicted_input": n_con + max(row["partitions"], 1) * n_ins,
        "predicted_output": (row["partitions"] + 1) * n_out,
        "input_tokens": row["usage"]["input_tokens"],
        "reduce_input": _tokens(row, "reduce", "input_tokens"),
        "output_tokens": row["usage"]["output_tokens"],
    }


def savings(rows: Sequence[Row], prices: Prices) -> list[dict[str, Any]]:
    """Return the share of map-reduce's tokens and cost that the preflight saves, by condition."""
    results = []
    both = paired(rows, "briefcontext", "map_reduce")
    for condition, pairs in grouped(both, lambda pair: condition_of(pair[0])).items():
        skipped = fmean(row["route"] != "map_reduce" for row, _ in pairs)
        head = {"condition": dict(condition), "n": len(pairs), "skip_the_map": skipped}
        (given, made), (all_given, all_made) = (
            [sum(pair[side]["usage"][name] for pair in pairs)
             for name in ("input_tokens", "output_tokens")]
            for side in (0, 1)
        )  # fmt: skip
        sums = {"input tokens": (given, all_given), "output tokens": (made, all_made)}
        if prices.known:
            sums["cost"] = (prices.cost(given, made), prices.cost(all_given, all_made))
        for what, (own, whole) in sums.items():
            if whole:
                results.append({**head, "what": what, "saved": 1 - own / whole})
    return results


def _tokens(row: Row, stage: str, side: str) -> int:
    return sum(
        call[side] for call in row["calls"] if _STAGES.get(call["stage"], "one_call") == stage
    )
