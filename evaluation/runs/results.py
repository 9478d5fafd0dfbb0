"""Summary, report and figures of a run, made of its rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from briefcontext.evaluation.experiments.experiment import Experiment, Report
from briefcontext.evaluation.judging.verdicts import judges
from briefcontext.evaluation.runs.folder import CONFIG, ITEMS, REPORT, SUMMARY, RunFolder
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.runs.report import is_simulated, report_markdown
from briefcontext.evaluation.runs.runner import LeftOut
from briefcontext.evaluation.statistics.score_tables import Row, answered, repeat_rows, repeat_tables, title_of
from briefcontext.files import file_sha256, write_whole

__all__ = ["Summary", "counts_of", "write_results"]

Summary = dict[str, Any]


def write_results(
    folder: RunFolder, experiment: Experiment, left_out: LeftOut, planned: int, *, prices: Prices, figures: bool
) -> Summary:
    """Make summary, report and figures of a run's rows."""
    config = {**folder.config(), "judges": judges(folder.path)}
    rows = list(folder.rows().values())
    failed = [row for row in rows if row["status"] != "ok"]
    facts = {"left_out": left_out, "planned": planned, **counts_of(rows)}
    simulation = is_simulated(config)
    report = (
        experiment.report(
            rows,
            {**config, "simulation": simulation, "folder": str(folder.path), "prices": prices},
            folder.path if figures else None,
        )
        if len(failed) < len(rows)
        else Report(remarks=["No question was answered: every call failed."])
    )
    repeats = repeat_rows(rows)
    report.tables += repeat_tables(repeats)
    in_parts = _in_parts(rows)
    if in_parts:
        words = "; ".join(
            f"{title_of(one['method'])}{_label(one['condition'])}: {one['answers']} of {one['n']}" for one in in_parts
        )
        report.remarks.insert(
            0,
            f"**{sum(one['answers'] for one in in_parts)} answers did not fit the window and were read in parts**, by "
            f"map and reduce in place of one call ({words}). There a method is not what its name says: take a model "
            "with a larger input window, or fewer documents.",
        )
    summary: Summary = {
        "experiment": config["experiment"],
        "model": config["model"],
        "data_set": config["data_set"]["name"],
        "knowledge_base": config.get("knowledge_base"),
        "in_parts": in_parts,
        **({"repeats": repeats} if repeats else {}),
        "simulation": simulation,
        **facts,
        "missing": planned - len(rows),
        **report.summary,
    }
    write_whole(folder.path / REPORT, report_markdown(experiment.title, experiment.question, config, facts, report))
    summary["sha256"] = {name: file_sha256(folder.path / name) for name in (CONFIG, ITEMS, REPORT)}
    folder.write_json(SUMMARY, summary)
    return summary


def counts_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Return what a run's rows add up to: questions, answers, failures, and what was asked, equal requests once."""
    failed = [row for row in rows if row["status"] != "ok"]
    asked = {call["request_sha256"]: call for row in rows for call in row["calls"]}
    return {
        "items": len({row["item"] for row in rows}),
        "answers": len(rows) - len(failed),
        "failed": len(failed),
        "errors": dict(Counter(row["error"] for row in failed).most_common()),
        "calls": len(asked),
        "input_tokens": sum(call["input_tokens"] for call in asked.values()),
        "output_tokens": sum(call["output_tokens"] for call in asked.values()),
        "served_models": sorted({call["served_model"] for call in asked.values() if call.get("served_model")}),
    }


def _in_parts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Count the answers that were to take one call and did not fit into it, by method and condition."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in answered(rows):
        groups.setdefault((row["method"], *row["condition"].items()), []).append(row)
    counted = [
        {
            "method": key[0],
            "condition": dict(key[1:]),
            "answers": sum(bool(row.get("in_parts")) for row in some),
            "n": len(some),
        }
        for key, some in groups.items()
    ]
    return [one for one in counted if one["answers"]]


def _label(condition: Mapping[str, Any]) -> str:
    return "".join(f", {name} {value}" for name, value in condition.items())
