"""Runs side by side, and beside the papers' figures."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.preflight_report import COUNTS, decisions
from briefcontext.evaluation.runs.folder import SUMMARY
from briefcontext.evaluation.runs.paper_results import NOT_AVAILABLE, PUBLISHED
from briefcontext.evaluation.runs.report import SIMULATION, markdown_table
from briefcontext.evaluation.statistics.score_tables import (
    SCORE_NAMES,
    Table,
    p_value,
    percent,
    points_with_interval,
    title_of,
    with_interval,
)

__all__ = ["compare_runs"]

PREFLIGHT = "preflight"
"""The study that asks no model: it has counts of decisions in place of scores."""


def compare_runs(folders: Sequence[Path]) -> str:
    """Return runs side by side as Markdown, an experiment after another, and the papers' figures under each.

    Raises:
        InputError: there is none, or a folder is not one of a finished run.
    """
    if not folders:
        raise InputError("There is no run to compare. Name the folders of one or more.")
    names = _names(folders)
    summaries = {name: _summary(folder) for name, folder in zip(names, folders, strict=True)}
    parts = ["# Runs compared", ""]
    if any(summary.get("simulation") for summary in summaries.values()):
        marked = ", ".join(name for name, summary in summaries.items() if summary.get("simulation"))
        parts += [f"{SIMULATION} This holds for: {marked}.", ""]
    parts += [markdown_table(_runs_table(summaries)), ""]
    for experiment in dict.fromkeys(str(summary["experiment"]) for summary in summaries.values()):
        some = {name: summary for name, summary in summaries.items() if summary["experiment"] == experiment}
        parts += [f"## {experiment}", ""]
        own = _preflight_tables(some) if experiment == PREFLIGHT else [*_score_tables(some), *_own_tables(some)]
        for table in (*own, _published_table(experiment)):
            if table.rows:
                parts += [markdown_table(table), ""]
        if experiment in NOT_AVAILABLE:
            parts += ["The papers' figures of this experiment are not available here.", ""]
    return "\n".join(parts)


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' names; their whole paths where two are alike."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _summary(folder: Path) -> dict[str, Any]:
    file = folder / SUMMARY
    try:
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no finished run: there is no {SUMMARY}. Give the same experiment command to finish it."
        ) from None
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Run the experiment command again.") from error
    # A study of the preflight may have no other mark than its counts.
    summary.setdefault("experiment", PREFLIGHT)
    return summary


def _runs_table(summaries: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = ("items", "answers", "failed", "calls", "input_tokens", "output_tokens")
    rows = [
        [
            name,
            str(summary["experiment"]),
            "none" if summary["experiment"] == PREFLIGHT else str(summary.get("model") or "–"),
            str(summary.get("data_set") or "–"),
            _knowledge_base(summary),
            *(_number(summary.get(column, "–")) for column in columns),
            "yes" if summary.get("simulation") else "no",
        ]
        for name, summary in summaries.items()
    ]
    heads = ["Experiment", "Model", "Data set", "Knowledge base", "n", "Answers", "Failed", "Requests"]
    return Table("Runs", ["Run", *heads, "Input tokens", "Output tokens", "Simulation"], rows)


def _knowledge_base(summary: Mapping[str, Any]) -> str:
    base, passages, encoder = summary.get("knowledge_base"), summary.get("passages"), summary.get("encoder")
    if isinstance(base, dict):
        passages, encoder = base.get("passages"), base.get("encoder")
    name = encoder.get("name") if isinstance(encoder, dict) else encoder
    return f"{_number(passages)} passages, {name}" if passages is not None else "–"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _label(condition: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in condition.items()) or "any"


def _preflight_tables(summaries: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """What the checks decide, over all questions and by data set, a row a run and check."""
    rows = []
    for name, summary in summaries.items():
        for group, counted in {**(summary.get("groups") or {}), "all": summary}.items():
            for title, kind, decided, area in decisions(counted):
                row = [name, title, group, str(summary.get("k", "–")), _number(counted.get("n", "–")), kind]
                row += [_number(decided[count]) for count in COUNTS]
                row += [
                    with_interval(decided[share], *(decided.get(f"{share}_interval") or (None, None)))
                    for share in ("precision", "recall", "specificity")
                ]
                row += [percent(decided["f1"]), percent(decided["skip_share"])]
                rows.append([*row, with_interval(area["auc"], area["low"], area["high"]) if area else "–"])
    heads = ["Run", "Check", "Questions", "k", "n", "Positives", *map(str.upper, COUNTS)]
    heads += [f"{share} [95% CI]" for share in ("Precision", "Recall", "Specificity")]
    heads += ["F1", "Skip the map", "AUC [95% CI]"]
    note = (
        "Positive: the key document is ranked below 3, which a map can repair, or was not retrieved, which it cannot; "
        "the papers count both. Predicted positive: the question goes to the map. In per cent, shares with Wilson's "
        "intervals, areas under the ROC curve with the bootstrap's."
    )
    reasons = [[name, str(s["calibrated_reason"])] for name, s in summaries.items() if s.get("calibrated_reason")]
    return [Table("Decisions", heads, rows, note), Table("Without a calibrated check", ["Run", "Why"], reasons)]


def _score_tables(summaries: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Scores by metric, data set, method and condition, a column a run; cells without a score show their n alone."""
    found: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
    for name, summary in summaries.items():
        groups = summary.get("groups") or {str(summary.get("data_set", "")): summary.get("cells") or []}
        for group, cells in groups.items():
            for cell in cells:
                score = with_interval(cell.get("score"), cell.get("low"), cell.get("high"))
                title = f"{SCORE_NAMES.get(cell.get('metric', ''), 'Scores')} on {group}"
                values = found.setdefault(title, {}).setdefault((cell["method"], _label(cell["condition"])), {})
                values[name] = f"{score} (n = {cell['n']})"
    return [
        Table(
            title,
            ["Method", "Condition", *summaries],
            [
                [title_of(method), label, *(values.get(name, "–") for name in summaries)]
                for (method, label), values in rows.items()
            ],
            "In per cent, with 95% intervals.",
        )
        for title, rows in found.items()
    ]


def _own_tables(summaries: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """What an experiment has beside scores: differences, spreads, conflicts, verdicts, costs, means over data sets."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for name, summary in summaries.items():
        for what, condition, value in _own(summary):
            rows.setdefault((what, condition), {})[name] = value
    table = [
        [what, condition, *(values.get(name, "–") for name in summaries)] for (what, condition), values in rows.items()
    ]
    note = "Differences and spreads in percentage points, means in per cent, all with 95% intervals."
    return [Table("Beside the scores", ["What", "Condition", *summaries], table, note)]


def _own(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is compared, under which condition, and the figure."""
    for spread in summary.get("spread", []):
        value = f"{with_interval(spread['spread'], spread['low'], spread['high'])} (n = {spread['n']})"
        yield f"Spread{_metric(spread)}, {title_of(spread['method'])}", f"k {spread['k']}", value
    for key, words in (
        ("comparisons", "Difference from vanilla"),
        ("mean_comparisons", "Difference from vanilla, mean over the positions"),
        ("average_comparisons", "Difference from vanilla, mean over data sets"),
    ):
        for comparison in summary.get(key, []):
            group = f" on {comparison['group']}" if "group" in comparison else ""
            what = f"{words}{_metric(comparison)}{group}, {title_of(comparison['method'])}"
            yield what, _label(comparison["condition"]), _difference(comparison)
    for mean in summary.get("means", []):
        what = f"Mean over the positions{_metric(mean)}, {title_of(mean['method'])}"
        value = with_interval(mean.get("score"), mean.get("low"), mean.get("high"))
        yield what, _label(mean["condition"]), f"{value} (n = {mean['n']})"
    effects = "Random documents minus neighbours" if summary["experiment"] == "attention_bias" else "Against the fewest"
    for effect in summary.get("effects", []):
        what = f"{effects}{_metric(effect)}, {title_of(effect['method'])}"
        yield what, _label(effect["condition"]), _difference(effect)
    for conflict in summary.get("conflicts", []):
        yield "Conflicts resolved", _label(conflict["condition"]), f"{conflict['resolved']} of {conflict['n']}"
    two = list(dict.fromkeys(title_of(cell["method"]) for cell in summary.get("cells", [])))
    against = f", {two[1]} against {two[0]}" if len(two) == 2 else ""
    for verdict in summary.get("verdicts", []):
        share = with_interval(verdict["share"], verdict["low"], verdict["high"])
        value = f"{verdict['win']} / {verdict['tie']} / {verdict['lose']}, preferred {share} (n = {verdict['n']}, "
        yield (
            f"Win / tie / lose{against}",
            f"rater {verdict['rater']}",
            f"{value}p (Holm) {p_value(verdict['p_holm'])})",
        )
    if agreed := summary.get("consensus"):
        shares = " / ".join(percent(agreed[name] / agreed["n"]) for name in ("win", "tie", "lose"))
        yield f"Win / tie / lose in per cent{against}", "consensus of the raters", f"{shares} (n = {agreed['n']})"
    for cost in summary.get("costs", []):
        value = f"{cost['input_tokens']:,.1f} and {cost['output_tokens']:,.1f} (n = {cost['n']})"
        yield f"Input and output tokens, {title_of(cost['method'])}", _label(cost["condition"]), value
    for one in summary.get("predictions", []):
        value = f"{one['predicted_input']:,.1f} and {one['predicted_output']:,.1f} (n = {one['n']})"
        yield f"The same by equations 4 and 5, {title_of(one['method'])}", _label(one["condition"]), value
    for one in summary.get("savings", []):
        value = f"{with_interval(one['saved'], one['low'], one['high'])} (n = {one['n']})"
        yield f"Saved by the preflight, {one['what']}", _label(one["condition"]), value
    for average in summary.get("averages", []):
        value = with_interval(average["score"], average.get("low"), average.get("high"))
        what = f"Mean over data sets{_metric(average)}, {title_of(average['method'])}"
        yield what, _label(average["condition"]), f"{value} ({average['groups']} data sets)"
    for one in summary.get("in_parts") or []:
        value = f"{one['answers']} of {one['n']} answers"
        yield f"Did not fit and was read in parts, {title_of(one['method'])}", _label(one["condition"]), value


def _metric(figure: Mapping[str, Any]) -> str:
    return f" in {SCORE_NAMES[figure['metric']]}" if figure.get("metric") in SCORE_NAMES else ""


def _difference(figure: Mapping[str, Any]) -> str:
    shown = points_with_interval(figure["difference"], figure["low"], figure["high"])
    return f"{shown} (n = {figure['n']}, p (Holm) {p_value(figure['p_holm'])})"


def _published_table(experiment: str) -> Table:
    """The papers' figures, a row each, with a column a paper: where two texts differ, both stand side by side."""
    figures = [p for p in PUBLISHED if p.experiment == experiment]
    papers = list(dict.fromkeys(p.paper for p in figures))
    found: dict[tuple[str, str], dict[str, str]] = {}
    for p in figures:
        found.setdefault((p.row, p.column), {})[p.paper] = f"{p.figure} ({p.place})"
    return Table(
        "What the papers report",
        ["Row", "Column", *papers],
        [[*key, *(values.get(paper, "–") for paper in papers)] for key, values in found.items()],
        "Other models, corpora and questions: to be set beside a run, and not to be tested against it. OP-RAG's "
        "figures were checked against its text; BriefContext's were noted from its two texts, and not checked again.",
    )
