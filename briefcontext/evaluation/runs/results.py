"""What is made of a run's rows: summary, report and figures; and whether it all belongs together."""

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
from briefcontext.evaluation.statistics.tables import REPEATS, REPEATS_NOTE, Row, repeat_rows
from briefcontext.files import file_sha256, json_objects
from briefcontext.prompts import Prompts

SIMULATION = (
    "**SIMULATION.** The answers were made by a program with a known bias, not by a language "
    "model. "
    "No figure here is a result."
)
_SIMULATED = "simulated-reader"

Summary = dict[str, Any]


def is_simulated(config: Mapping[str, Any]) -> bool:
    """Return whether a model of the run, or a judge of its answers, is the simulated reader."""
    return any(
        _SIMULATED in str(config.get(name) or "") for name in ("model", "extract_model", "judges")
    )


def write_results(
    folder: RunFolder,
    experiment: Experiment,
    left_out: Mapping[str, int],
    planned: int,
    prices: Prices,
    figures: bool,
) -> Summary:
    """Make summary, report and figures of a run's rows; `planned` is the number of answers that it has to get."""
    config = {**folder.config(), "judges": judges(folder.path)}
    rows = list(folder.rows().values())
    facts = {
        "left_out": left_out,
        "planned": planned,
        **_counts(rows),
        "missing": planned - len(rows),
    }
    config |= {"simulation": is_simulated(config), "folder": str(folder.path), "prices": prices}
    report = Report(rows, config, folder.path / experiment.name if figures else None)
    if facts["answers"]:
        experiment.report(report)
    else:
        report.remarks.append("No question was answered: every call failed.")
    if repeats := repeat_rows(rows):
        report.show("repeats", repeats, "Over the repeats", REPEATS, REPEATS_NOTE)
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
    """Return what a run's rows add up to: questions, answers, failures, and what was asked, equal requests once."""
    failed = [row for row in rows if row["status"] != "ok"]
    asked = {call["request_sha256"]: call for row in rows for call in row["calls"]}
    return {
        "items": len({row["item"] for row in rows}),
        "answers": len(rows) - len(failed),
        "failed": len(failed),
        "errors": dict(Counter(row["error"] for row in failed).most_common()),
        "calls": len(asked),
        "input_tokens": sum(call["input_tokens"] for call in asked.values()) or None,
        "output_tokens": sum(call["output_tokens"] for call in asked.values()) or None,
        "unreported": sum(not call["input_tokens"] for call in asked.values()),
        "served_models": sorted(
            {call["served_model"] for call in asked.values() if call.get("served_model")}
        ),
    }


def _report_markdown(
    experiment: Experiment, config: Mapping[str, Any], facts: Mapping[str, Any], report: Report
) -> str:
    parts = [f"# {experiment.title}"]
    if config["simulation"]:
        parts.append(SIMULATION)
    if facts["missing"] > 0:
        parts.append(
            f"**UNFINISHED.** Answers that are not there: {facts['missing']:,} of {facts['planned']:,}; no figure here "
            "counts them. Give the same command again to get them."
        )
    parts += [
        experiment.question,
        "\n".join(f"- {fact}" for fact in _facts(config, facts)),
        *report.remarks,
    ]
    parts += [table.markdown() for table in report.tables]
    for figure in report.figures:
        parts += [
            f"![{experiment.title}]({figure.name}.png)",
            f"The same as [SVG]({figure.name}.svg).",
        ]
    if errors := "\n".join(f"- {count} × {error}" for error, count in facts["errors"].items()):
        parts += [
            "### Failed calls",
            "They are asked again when the same command is given.",
            errors,
        ]
    if commit := (config.get("provenance") or {}).get("git_commit"):
        parts.append(f"Code at commit {commit}.")
    parts += [
        "### Versions",
        ", ".join(f"{name} {version}" for name, version in config["versions"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _facts(config: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    lines = [f"Model: {config['model']}"]
    if facts.get("served_models"):
        lines.append(f"Served as: {', '.join(facts['served_models'])}")
        if len(facts["served_models"]) > 1 + bool(config.get("extract_model")):
            lines.append(
                "Caution: answers of several models stand side by side; items.jsonl names each one's"
            )
    if config.get("document_encoder"):
        lines.append(f"Encoder of the chunks: {config['document_encoder']} (OP-RAG: bge)")
    if config.get("extract_model"):
        lines.append(f"Model for the extractions: {config['extract_model']}")
    lines.append(
        f"Questions: {facts['items']} of {config['data_set']['name']}, seed {config['seed']}"
    )
    if sampling := config.get("sampling"):
        lines.append(f"Drawn: {sampling}; --limit or --per-class draws others")
    if repeats := config.get("repeats"):
        given = config["temperature"]
        at = "the model's own temperature" if given is None else f"temperature {given}"
        lines.append(f"Repeats: {repeats}, each sampled afresh at {at}")
    if rankings := config.get("rankings"):
        lines.append(f"Rankings: {rankings}")
    if {"map_reduce", "briefcontext"} & set(config["methods"]):
        lines.append(
            f"Read in partitions of {config['reading']['partition_size']} (the authors' notebook: two partitions), "
            "as small ones are what the method is for; quotes that no document holds are dropped, "
            "as evidence must be "
            "in its document (the notebook looks none up)"
        )
    if "briefcontext" in config["methods"]:
        lines.append(
            "BM25 ranks the k documents that were retrieved, as in equation 1 (the notebook: 64)"
        )
    lines += [
        f"Questions left out, {reason}: {count}" for reason, count in facts["left_out"].items()
    ]
    if base := config.get("knowledge_base"):
        lines.append(f"Knowledge base: {base['passages']:,} passages, encoder {base['encoder']}")
    if calibration := config.get("calibration"):
        lines.append(
            f"Preflight: calibrated on {calibration['fitted_on']:,} questions, target recall "
            f"{100 * calibration['target_recall']:g}%"
        )
        lines += [f"Caution: {caution}" for caution in calibration["cautions"]]
    lines.append(f"Answers: {facts['answers']} of {facts['planned']}; failed: {facts['failed']}")
    tokens = [
        f"{facts[name]:,}" if facts[name] else "–" for name in ("input_tokens", "output_tokens")
    ]
    lines.append(
        f"Asked in all: {facts['calls']:,} requests, {tokens[0]} input and {tokens[1]} output tokens (equal requests "
        "were asked once)"
    )
    if facts["unreported"]:
        lines.append(
            f"Caution: requests whose tokens the provider did not report: {facts['unreported']:,} of "
            f"{facts['calls']:,}; no mean of tokens, and no cost, counts their answers (–: none is left)"
        )
    return lines


def verify_run(path: Path) -> list[str]:
    """Return what in a run's folder does not belong together; nothing where all does.

    The hashes of configuration, rows and report must be those that the summary names, the prompts
    those of the configuration, and the summary's counts what the rows add up to.

    Raises:
        InputError: it is no folder of a finished run.
    """
    folder = RunFolder(path)
    config, summary = folder.config(), folder.summary()
    problems = []
    if missing := summary.get("missing"):
        problems.append(
            f"Answers that are not there: {missing:,}. Give the command that began it again to get "
            f"them."
        )
    for name, digest in summary["sha256"].items():
        if not (path / name).exists():
            problems.append(f"{name} is missing.")
        elif file_sha256(path / name) != digest:
            problems.append(f"{name} is not the one that the summary was made of.")
    if config["experiment"] == "preflight":
        studied = list(json_objects(path / STUDY_ROWS))
        counted = {"n": len(studied), "misplaced": sum(row["misplaced"] for row in studied)}
    else:
        try:
            if Prompts(path / PROMPTS).digest != config["prompts_sha256"]:
                problems.append(
                    f"The texts in {PROMPTS} are not the prompts that the configuration names."
                )
        except InputError as error:
            problems.append(f"The prompts cannot be read: {error}")
        counted = _counts(list(folder.rows().values()))
    return problems + [
        f"The summary has {name} {summary.get(name)}, and the rows {count}."
        for name, count in counted.items()
        if count != summary.get(name)
    ]
