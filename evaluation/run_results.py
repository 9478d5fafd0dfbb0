"""Summary, report and figures of a run, made of its rows."""

from collections import Counter
from typing import Any

from briefcontext.evaluation.experiment import Experiment, Report
from briefcontext.evaluation.plan import LeftOut
from briefcontext.evaluation.run_folder import REPORT, SUMMARY, RunFolder, write_whole
from briefcontext.evaluation.run_report import is_simulated, report_markdown
from briefcontext.evaluation.verdict_files import judges

__all__ = ["Summary", "write_results"]

Summary = dict[str, Any]


def write_results(
    folder: RunFolder, experiment: Experiment, left_out: LeftOut, planned: int, *, figures: bool
) -> Summary:
    """Make summary, report and figures of a run's rows."""
    config = {**folder.config(), "judges": judges(folder.path)}
    rows = list(folder.rows().values())
    failed = [row for row in rows if row["status"] != "ok"]
    asked = {call["request_sha256"]: call for row in rows for call in row["calls"]}
    facts = {
        "items": len({row["item"] for row in rows}),
        "left_out": left_out,
        "planned": planned,
        "answers": len(rows) - len(failed),
        "failed": len(failed),
        "errors": dict(Counter(row["error"] for row in failed).most_common()),
        "calls": len(asked),
        "input_tokens": sum(call["input_tokens"] for call in asked.values()),
        "output_tokens": sum(call["output_tokens"] for call in asked.values()),
    }
    simulation = is_simulated(config)
    report = (
        experiment.report(
            rows,
            {**config, "simulation": simulation, "folder": str(folder.path)},
            folder.path if figures else None,
        )
        if len(failed) < len(rows)
        else Report(remarks=["No question was answered: every call failed."])
    )
    summary: Summary = {
        "experiment": config["experiment"],
        "model": config["model"],
        "data_set": config["data_set"]["name"],
        "simulation": simulation,
        **facts,
        "missing": planned - len(rows),
        **report.summary,
    }
    folder.write_json(SUMMARY, summary)
    write_whole(folder.path / REPORT, report_markdown(experiment.title, experiment.question, config, facts, report))
    return summary
