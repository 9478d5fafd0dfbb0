"""The results of a run: summary, report and figures; and their verification."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.experiments.experiment import Experiment, Report
from briefcontext.evaluation.judging.pairs import judges
from briefcontext.evaluation.runs.folder import PROMPTS, STUDY_ROWS, RunFolder
from briefcontext.evaluation.runs.progress import Prices
from briefcontext.evaluation.statistics.tables import Row, repeats_table
from briefcontext.files import file_sha256, json_objects
from briefcontext.prompts import Prompts

SIMULATION = (
    "**SIMULATION.** The answers were made by a program with a known bias, not by a language "
    "model. No figure here is a result."
)
_SIMULATED = "simulated-reader"

Summary = dict[str, Any]


def is_simulated(config: Mapping[str, Any]) -> bool:
    """Return True if a model of the run, or a judge of its answers, is the simulated reader."""
    names = [str(config.get(name) or "") for name in ("model", "extract_model", "judges")]
    return any(_SIMULATED in name for name in names)


def write_results(
    folder: RunFolder,
    experiment: Experiment,
    left_out: Mapping[str, int],
    planned: int,
    prices: Prices,
    figures: bool,
) -> Summary:
    """Write summary, report and figures from a run's rows; `planned` is its number of answers."""
    config = {**folder.config(), "judges": judges(folder.path)}
    rows = list(folder.rows().values())
    missing = planned - len(rows)
    facts = {"left_out": left_out, "planned": planned, **_counts(rows), "missing": missing}
    config |= {"simulation": is_simulated(config), "folder": str(folder.path), "prices": prices}
    drawings = folder.path / experiment.name if figures else None
    report = Report(rows, config, experiment.title, drawings)
    if facts["answers"]:
        experiment.report(report)
    else:
        report.remarks.append("No question was answered: every call failed.")
    repeats, tables = repeats_table(rows)
    if repeats:
        report.add("repeats", repeats, tables)
    summary: Summary = {
        "experiment": config["experiment"],
        "model": config["model"],
        "data_set": config["data_set"]["name"],
        "questions_sha256": config["items_sha256"],
        "knowledge_base": config.get("knowledge_base"),
        "simulation": config["simulation"],
        **facts,
        **report.summary,
        "tables": list(map(asdict, report.tables)),
    }
    folder.finish(_report_markdown(experiment, config, facts, report), summary)
    return summary


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    failed = [row for row in rows if row["status"] != "ok"]
    calls = {call["request_sha256"]: call for row in rows for call in row["calls"]}.values()
    served = {call["served_model"] for call in calls if call.get("served_model")}
    return {
        "items": len({row["item"] for row in rows}),
        "answers": len(rows) - len(failed),
        "failed": len(failed),
        "errors": dict(Counter(row["error"] for row in failed).most_common()),
        "calls": len(calls),
        "input_tokens": sum(call["input_tokens"] for call in calls) or None,
        "output_tokens": sum(call["output_tokens"] for call in calls) or None,
        "unreported": sum(not call["input_tokens"] for call in calls),
        "served_models": sorted(served),
    }


def _report_markdown(
    experiment: Experiment, config: Mapping[str, Any], facts: Mapping[str, Any], report: Report
) -> str:
    parts = [f"# {experiment.title}"]
    if config["simulation"]:
        parts.append(SIMULATION)
    if facts["missing"] > 0:
        parts.append(
            f"**UNFINISHED.** {facts['missing']:,} of {facts['planned']:,} answers are missing. "
            "Repeat the command to get them."
        )
    parts += [experiment.question, *report.sentences]
    parts += ["\n".join(f"- {fact}" for fact in [*_facts(config, facts), *report.remarks])]
    shown: set[str] = set()
    parts += [table.markdown(shown) for table in report.tables]
    parts += [f"![{experiment.title}]({figure.name}.png)" for figure in report.figures]
    if facts["errors"]:
        errors = [f"- {count} × {error}" for error, count in facts["errors"].items()]
        parts += ["### Failed calls", "Repeat the command to ask again.", "\n".join(errors)]
    versions = [f"{name} {version}" for name, version in config["versions"].items()]
    parts.append(f"Versions: {', '.join(versions)}.")
    return "\n\n".join(parts) + "\n"


def _facts(config: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    served, methods = facts["served_models"], {*config["methods"]}
    named = {
        "Model": config["model"],
        "Served as": ", ".join(served),
        "Model for the extractions": config.get("extract_model"),
        "Encoder of the chunks (OP-RAG: bge)": config.get("document_encoder"),
    }
    lines = [f"{name}: {value}" for name, value in named.items() if value]
    if len(served) > 1 + bool(config.get("extract_model")):
        lines.append("Caution: answers of several models are mixed; items.jsonl names each one's")
    drawn = f", {config['sampling']}" if config.get("sampling") else ""
    data_set, seed = config["data_set"]["name"], config["seed"]
    lines.append(f"Questions: {facts['items']}, data set {data_set}, seed {seed}{drawn}")
    if config.get("repeats"):
        given = config["temperature"]
        at = "the model's own temperature" if given is None else f"temperature {given}"
        lines.append(f"Repeats: {config['repeats']}, each sampled again at {at}")
    if config.get("rankings"):
        lines.append(f"Rankings: {config['rankings']}")
    if methods & {"map_reduce", "briefcontext"}:
        size = config["reading"]["partition_size"]
        lines.append(f"Partitions of {size} documents; quotes not found in a document are dropped")
    lines += [f"Left out, {count}: {reason}" for reason, count in facts["left_out"].items()]
    base, calibration = config.get("knowledge_base"), config.get("calibration")
    if base:
        lines.append(f"Knowledge base: {base['passages']:,} passages, encoder {base['encoder']}")
    if calibration:
        lines.append(
            f"Preflight: calibrated on {calibration['fitted_on']:,} questions, target recall "
            f"{100 * calibration['target_recall']:g}%"
        )
        lines += [f"Caution: {caution}" for caution in calibration["cautions"]]
    given, made = (
        f"{facts[name]:,}" if facts[name] else "–" for name in ("input_tokens", "output_tokens")
    )
    lines.append(
        f"Answers: {facts['answers']} of {facts['planned']}, {facts['failed']} failed; "
        f"{facts['calls']:,} requests, {given} input and {made} output tokens (equal requests once)"
    )
    if facts["unreported"]:
        lines.append(
            f"Caution: the provider did not report the tokens of {facts['unreported']:,} requests; "
            "means of tokens and costs leave out their answers"
        )
    return lines


def verify_run(path: Path) -> list[str]:
    """Return the problems of a run's folder: files that differ from their hashes, or wrong counts.

    Raises InputError if it has no finished run.
    """
    folder = RunFolder(path)
    config, summary = folder.config(), folder.summary()
    problems = []
    if summary.get("missing"):
        problems.append(f"{summary['missing']:,} answers are missing. Repeat the run's command.")
    for name, digest in summary["sha256"].items():
        if not (path / name).exists():
            problems.append(f"{name} is missing.")
        elif file_sha256(path / name) != digest:
            problems.append(f"{name} is not the one that the summary was made from.")
    if config["experiment"] == "preflight":
        rows = list(json_objects(path / STUDY_ROWS))
        counted = {"n": len(rows), "misplaced": sum(row["misplaced"] for row in rows)}
    else:
        counted = _counts(list(folder.rows().values()))
        try:
            if Prompts(path / PROMPTS).digest != config["prompts_sha256"]:
                problems.append(f"{PROMPTS} are not the prompts of the configuration.")
        except InputError as error:
            problems.append(f"The prompts cannot be read: {error}")
    for name, count in counted.items():
        if count != summary.get(name):
            problems.append(f"{name}: {summary.get(name)} in the summary, {count} in the rows.")
    return problems
