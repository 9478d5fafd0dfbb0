"""Runs side by side, and beside the papers' figures."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.preflight_report import COUNTS, SHARES, decisions, share_of
from briefcontext.evaluation.runs.folder import SUMMARY
from briefcontext.evaluation.runs.paper_results import NOT_AVAILABLE, PUBLISHED
from briefcontext.evaluation.runs.results import SIMULATION
from briefcontext.evaluation.statistics.tables import (
    SCORE_NAMES,
    Columns,
    Record,
    Table,
    amount_of,
    head_of,
    interval_of,
    label_of,
    p_value,
    percent,
    percent_of,
    points_with_interval,
    title_of,
    win_tie_lose,
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
    parts += [_runs_table(summaries).markdown(), ""]
    for experiment in dict.fromkeys(str(summary["experiment"]) for summary in summaries.values()):
        some = {name: summary for name, summary in summaries.items() if summary["experiment"] == experiment}
        parts += [f"## {experiment}", ""]
        own = _preflight_tables(some) if experiment == PREFLIGHT else [*_score_tables(some), *_own_tables(some)]
        for table in (*own, _published_table(experiment)):
            if table.rows:
                parts += [table.markdown(), ""]
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


def _runs_table(summaries: Mapping[str, Record]) -> Table:
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


def _knowledge_base(summary: Record) -> str:
    base, passages, encoder = summary.get("knowledge_base"), summary.get("passages"), summary.get("encoder")
    if isinstance(base, dict):
        passages, encoder = base.get("passages"), base.get("encoder")
    name = encoder.get("name") if isinstance(encoder, dict) else encoder
    return f"{_number(passages)} passages, {name}" if passages is not None else "–"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _label(condition: Record) -> str:
    return label_of(condition) or "any"


def _preflight_tables(summaries: Mapping[str, Record]) -> list[Table]:
    """What the checks decide, over all questions and by data set, a row a run and check."""
    decided = [
        {**one, "run": name, "questions": group, "k": summary.get("k", "–"), "n": counted.get("n", "–")}
        for name, summary in summaries.items()
        for group, counted in {**(summary.get("groups") or {}), "all": summary}.items()
        for one in decisions(counted)
    ]
    columns: Columns = {
        **{head_of(name): itemgetter(name) for name in ("run", "check", "questions")},
        "k": itemgetter("k"),
        "n": lambda one: _number(one["n"]),
        "Positives": itemgetter("positives"),
        **{name.upper(): amount_of(name, ",") for name in COUNTS},
        **{f"{head_of(name)} [95% CI]": share_of(name) for name in SHARES},
        "F1": percent_of("f1"),
        "Skip the map": percent_of("skip_share"),
        "AUC [95% CI]": interval_of("auc"),
    }
    note = (
        "Positive: the key document is ranked below 3, which a map can repair, or was not retrieved, which it cannot; "
        "the papers count both. Predicted positive: the question goes to the map. In per cent, shares with Wilson's "
        "intervals, areas under the ROC curve with the bootstrap's."
    )
    reasons = [[name, str(s["calibrated_reason"])] for name, s in summaries.items() if s.get("calibrated_reason")]
    return [
        Table.of("Decisions", decided, columns, note),
        Table("Without a calibrated check", ["Run", "Why"], reasons),
    ]


Cells = dict[tuple[str, str], dict[str, str]]
"""By what heads a row, and by column."""


def _score_tables(summaries: Mapping[str, Record]) -> list[Table]:
    """Scores by metric, data set, method and condition, a column a run; cells without a score show their n alone."""
    found: dict[str, Cells] = {}
    for name, summary in summaries.items():
        groups = summary.get("groups") or {str(summary.get("data_set", "")): summary.get("cells") or []}
        for group, cell in ((group, cell) for group, cells in groups.items() for cell in cells):
            title = f"{SCORE_NAMES.get(cell.get('metric', ''), 'Scores')} on {group}"
            row = found.setdefault(title, {}).setdefault((title_of(cell["method"]), _label(cell["condition"])), {})
            row[name] = _with_n("score")(cell)
    note = "In per cent, with 95% intervals."
    return [_side_by_side(title, ("Method", "Condition"), rows, summaries, note) for title, rows in found.items()]


def _side_by_side(title: str, heads: tuple[str, str], rows: Cells, columns: Iterable[str], note: str) -> Table:
    columns = list(columns)
    cells = [[*key, *(values.get(column, "–") for column in columns)] for key, values in rows.items()]
    return Table(title, [*heads, *columns], cells, note)


def _own_tables(summaries: Mapping[str, Record]) -> list[Table]:
    """What an experiment has beside scores: differences, spreads, conflicts, verdicts, costs, means over data sets."""
    rows: Cells = {}
    for name, summary in summaries.items():
        for what, condition, value in _own(summary):
            rows.setdefault((what, condition), {})[name] = value
    note = "Differences and spreads in percentage points, means in per cent, all with 95% intervals."
    return [_side_by_side("Beside the scores", ("What", "Condition"), rows, summaries, note)]


def _own(summary: Record) -> Iterator[tuple[str, str, str]]:
    """Yield what is compared, under which condition, and the figure."""
    effects = "Random documents minus neighbours" if summary["experiment"] == "attention_bias" else "Against the fewest"
    for key, words, shown in (
        ("spread", "Spread", _with_n("spread")),
        ("comparisons", "Difference from vanilla", _difference),
        ("mean_comparisons", "Difference from vanilla, mean over the positions", _difference),
        ("average_comparisons", "Difference from vanilla, mean over data sets", _difference),
        ("means", "Mean over the positions", _with_n("score")),
        ("effects", effects, _difference),
        ("conflicts", "Conflicts resolved", lambda one: f"{one['resolved']} of {one['n']}"),
        ("costs", "Input and output tokens", _tokens("input_tokens", "output_tokens")),
        ("predictions", "The same by equations 4 and 5", _tokens("predicted_input", "predicted_output")),
        ("savings", "Saved by the preflight", _with_n("saved")),
        ("averages", "Mean over data sets", lambda one: f"{interval_of('score')(one)} ({one['groups']} data sets)"),
        ("in_parts", "Did not fit and was read in parts", lambda one: f"{one['answers']} of {one['n']} answers"),
    ):
        for one in summary.get(key) or []:
            metric = f" in {SCORE_NAMES[one['metric']]}" if one.get("metric") in SCORE_NAMES else ""
            group = f" on {one['group']}" if "group" in one else ""
            subject = title_of(one["method"]) if "method" in one else one.get("what")
            what = f"{words}{metric}{group}" + (f", {subject}" if subject else "")
            yield what, _label(one["condition"] if "condition" in one else {"k": one["k"]}), shown(one)
    two = list(dict.fromkeys(title_of(cell["method"]) for cell in summary.get("cells", [])))
    against = f", {two[1]} against {two[0]}" if len(two) == 2 else ""
    for verdict in summary.get("verdicts", []):
        value = f"{win_tie_lose(verdict)}, preferred {interval_of('share')(verdict)} (n = {verdict['n']}, "
        value += f"p (Holm) {p_value(verdict['p_holm'])})"
        yield f"Win / tie / lose{against}", f"rater {verdict['rater']}", value
    if agreed := summary.get("consensus"):
        shares = " / ".join(percent(agreed[name] / agreed["n"]) for name in ("win", "tie", "lose"))
        yield f"Win / tie / lose in per cent{against}", "consensus of the raters", f"{shares} (n = {agreed['n']})"


def _with_n(name: str) -> Callable[[Record], str]:
    return lambda one: f"{interval_of(name)(one)} (n = {one['n']})"


def _tokens(input: str, output: str) -> Callable[[Record], str]:
    return lambda one: f"{one[input]:,.1f} and {one[output]:,.1f} (n = {one['n']})"


def _difference(one: Record) -> str:
    shown = points_with_interval(one["difference"], one["low"], one["high"])
    return f"{shown} (n = {one['n']}, p (Holm) {p_value(one['p_holm'])})"


def _published_table(experiment: str) -> Table:
    """The papers' figures, a row each, with a column a paper: where two texts differ, both stand side by side."""
    figures = [p for p in PUBLISHED if p.experiment == experiment]
    found: Cells = {}
    for p in figures:
        found.setdefault((p.row, p.column), {})[p.paper] = f"{p.figure} ({p.place})"
    return _side_by_side(
        "What the papers report",
        ("Row", "Column"),
        found,
        dict.fromkeys(p.paper for p in figures),
        "Other models, corpora and questions: to be set beside a run, and not to be tested against it. OP-RAG's "
        "figures were checked against its text; BriefContext's were noted from its two texts, and not checked again.",
    )
