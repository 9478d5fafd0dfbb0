"""Experiment `cost`: what each method takes for a question, with the tokens really used."""

from collections.abc import Mapping, Sequence
from itertools import product
from operator import itemgetter
from statistics import fmean
from typing import Any

from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.experiments.integration import RealRankings
from briefcontext.evaluation.figures.plots import stacked_plot
from briefcontext.evaluation.methods.method import VANILLA
from briefcontext.evaluation.runs.progress import Prices
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
    percent_of,
    reported,
    title_of,
    under,
)

_STAGES = {"extract": "map", "reduce": "reduce"}
_COSTS: Columns = {
    **METHOD,
    **under("k"),
    **N,
    "Calls": amount_of("calls", ".2f"),
    "Input, one call": amount_of("one_call_input"),
    "Input, map": amount_of("map_input"),
    "Input, reduce": amount_of("reduce_input"),
    "Input in all": amount_of("input_tokens"),
    "Output in all": amount_of("output_tokens"),
    "Input over vanilla's": lambda c: (
        "–" if c["input_ratio"] is None else f"{c['input_ratio']:.2f}"
    ),
}
_COSTS_NOTE = (
    "Means of the tokens that the provider reported (BriefContext's equations 4 and 5 with real figures): vanilla "
    "takes its one call; BriefContext the sum over its partitions and the reduce call. With "
    "preflight, questions "
    "whose rankings agree take one call. Documents that did not fit into one call are read by map "
    "and reduce."
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
_PREDICTED_COSTS = {
    "Cost predicted ($)": amount_of("predicted_cost", ".6f"),
    "Cost used ($)": amount_of("cost", ".6f"),
}
_PREDICTIONS_NOTE = (
    "Means for a question. Equation 4 of BriefContext where one call answers, (N_con + N_ins) p_in "
    "+ N_out p_out; "
    "equation 5 where M partitions are read, N_con p_in + M N_ins p_in + (M + 1) N_out p_out. "
    "N_con, N_ins and "
    "N_out are measured on vanilla's call, the first two by the documents' share of its characters. Equation 5 "
    "leaves out what the reduce step reads (of it reduce), and takes the map's instructions and replies to be as "
    "long as vanilla's."
)
_SAVINGS: Columns = {
    **under("k"),
    **N,
    "Skip the map": percent_of("skip_the_map"),
    "Of the map-reduce's": itemgetter("what"),
    "Saved": percent_of("saved"),
}
_SAVINGS_NOTE = (
    "In per cent: BriefContext with its preflight against the map-reduce for every question."
)


class Cost(RealRankings):
    """Tokens as they were used, beside what BriefContext's equations 4 and 5 predict, and what the preflight saves."""

    name = "cost"
    title = "Cost"
    question = (
        "How many tokens does a question take: one call over all documents, or map and reduce?"
    )
    methods = (VANILLA, "briefcontext", "map_reduce")
    ks = (8, 16)
    needs_answers = False
    repeatable = False

    def report(self, report: Report) -> None:
        """Tokens by method and stage, and against vanilla."""
        rows, prices = reported(report.rows), report.config["prices"]
        costs = cost_of(rows)
        report.show("costs", costs, "Tokens for a question", _COSTS, _COSTS_NOTE)
        columns = (
            _PREDICTIONS if prices.cost(0, 0) is None else {**_PREDICTIONS, **_PREDICTED_COSTS}
        )
        predicted = predictions(rows, prices)
        report.show(
            "predictions",
            predicted,
            "Predicted by the equations, and used",
            columns,
            _PREDICTIONS_NOTE,
        )
        report.show(
            "savings", savings(rows, prices), "Saved by the preflight", _SAVINGS, _SAVINGS_NOTE
        )
        report.scores("that the tokens bought")
        bar = itemgetter("one_call_input", "map_input", "reduce_input", "output_tokens")
        report.draw(
            stacked_plot,
            {
                f"{title_of(c['method'])}\nk = {c['condition'].get('k', 'any')}": bar(c)
                for c in costs
            },
            parts=("Input, one call", "Input, map", "Input, reduce", "Output"),
            x_label="Tokens for a question (mean)",
        )


def cost_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the mean tokens of a question by method and condition, by stage, and over vanilla's."""
    found = []
    for (method, condition), some in grouped(
        answered(rows), lambda row: (row["method"], condition_of(row))
    ).items():
        cost: dict[str, Any] = {"method": method, "condition": dict(condition), "n": len(some)}
        for stage, side in product(("one_call", "map", "reduce"), ("input", "output")):
            cost[f"{stage}_{side}"] = fmean(_tokens(row, stage, f"{side}_tokens") for row in some)
        for name in ("calls", "input_tokens", "output_tokens"):
            cost[name] = fmean(row["usage"][name] for row in some)
        same = [
            pair for pair in paired(rows, method, VANILLA) if condition_of(pair[0]) == condition
        ]
        own, base = (sum(pair[side]["usage"]["input_tokens"] for pair in same) for side in (0, 1))
        cost["input_ratio"] = own / base if base else None
        found.append(cost)
    return found


def predictions(rows: Sequence[Row], prices: Prices) -> list[dict[str, Any]]:
    """Return what equations 4 and 5 predict for a question beside what it took, by method and condition.

    Means over the questions that vanilla answered under the same condition, whose call gives N_con,
    N_ins and N_out: the tokens of the documents, of the instructions and of the answer.
    """
    found: list[dict[str, Any]] = []
    for name in dict.fromkeys(row["method"] for row in rows):
        pairs = [
            pair
            for pair in paired(rows, name, VANILLA)
            if not any(row.get("in_parts") for row in pair)
        ]
        for condition, some in grouped(pairs, lambda pair: condition_of(pair[0])).items():
            each = [_predicted(*pair) for pair in some]
            means = {what: fmean(one[what] for one in each) for what in each[0]}
            predicted = prices.cost(means["predicted_input"], means["predicted_output"])
            used = prices.cost(means["input_tokens"], means["output_tokens"])
            head = {"method": name, "condition": dict(condition), "n": len(some)}
            found.append({**head, **means, "predicted_cost": predicted, "cost": used})
    return found


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
    """Return what the preflight saves of the map-reduce's tokens, and of its cost where there are prices.

    Over the questions that both answered, by condition: one less the ratio of the sums.
    """
    found = []
    for condition, pairs in grouped(
        paired(rows, "briefcontext", "map_reduce"), lambda p: condition_of(p[0])
    ).items():
        own, whole = ([_spent(pair[side]["usage"], prices) for pair in pairs] for side in (0, 1))
        for what in own[0]:
            above, below = ([spent[what] for spent in side] for side in (own, whole))
            if not sum(below):
                continue
            found.append(
                {
                    "condition": dict(condition),
                    "n": len(pairs),
                    "skip_the_map": fmean(row["route"] != "map_reduce" for row, _ in pairs),
                    "what": what,
                    "saved": 1 - sum(above) / sum(below),
                }
            )
    return found


def _spent(usage: Mapping[str, int], prices: Prices) -> dict[str, float]:
    spent: dict[str, float] = {
        "input tokens": usage["input_tokens"],
        "output tokens": usage["output_tokens"],
    }
    cost = prices.cost(usage["input_tokens"], usage["output_tokens"])
    return spent if cost is None else {**spent, "cost": cost}


def _tokens(row: Row, stage: str, side: str) -> int:
    return sum(
        call[side] for call in row["calls"] if _STAGES.get(call["stage"], "one_call") == stage
    )
