"""The report of a run, in Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from briefcontext.evaluation.experiments.experiment import Report
from briefcontext.evaluation.statistics.score_tables import Table

__all__ = ["SIMULATION", "is_simulated", "markdown_table", "report_markdown"]

SIMULATION = (
    "**SIMULATION.** The answers were made by a program with a known bias, not by a language model. "
    "No figure here is a result."
)
_SIMULATED = "simulated-reader"


def is_simulated(config: Mapping[str, Any]) -> bool:
    """Return whether a model of the run, or a judge of its answers, is the simulated reader."""
    return any(_SIMULATED in str(config.get(name) or "") for name in ("model", "extract_model", "judges"))


def markdown_table(table: Table) -> str:
    """Return a table as Markdown, with its title and note."""
    lines = [f"### {table.title}", ""]
    lines += [_line(table.columns), "|" + "|".join(" --- " for _ in table.columns) + "|"]
    lines += [_line(row) for row in table.rows]
    return "\n".join([*lines, *(["", table.note] if table.note else [])])


def _line(values: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(str(value).split()).replace("|", "\\|") for value in values) + " |"


def report_markdown(
    title: str, question: str, config: Mapping[str, Any], facts: Mapping[str, Any], report: Report
) -> str:
    """Return a run's report."""
    parts = [f"# {title}", ""]
    if is_simulated(config):
        parts += [SIMULATION, ""]
    missing = facts["planned"] - facts["answers"] - facts["failed"]
    if missing > 0:
        parts += [
            f"**UNFINISHED.** {missing:,} of {facts['planned']:,} answers are not there, and no figure here counts "
            "them. Give the same command again to get them.",
            "",
        ]
    parts += [question, ""]
    parts += [*_facts(config, facts), ""]
    for remark in report.remarks:
        parts += [remark, ""]
    for table in report.tables:
        parts += [markdown_table(table), ""]
    for figure in report.figures:
        if figure.suffix == ".png":
            parts += [f"![{title}]({figure.name})", "", f"The same as [SVG]({Path(figure.name).stem}.svg).", ""]
    if facts["errors"]:
        parts += ["### Failed calls", "", "They are asked again when the same command is given.", ""]
        parts += [f"- {count} × {error}" for error, count in facts["errors"].items()] + [""]
    if commit := (config.get("provenance") or {}).get("git_commit"):
        parts += [f"Code at commit {commit}.", ""]
    parts += ["### Versions", "", ", ".join(f"{name} {version}" for name, version in config["versions"].items())]
    return "\n".join(parts) + "\n"


def _facts(config: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    lines = [f"- Model: {config['model']}"]
    if facts.get("served_models"):
        lines.append(f"- Served as: {', '.join(facts['served_models'])}")
    if config.get("document_encoder"):
        lines.append(f"- Encoder of the chunks: {config['document_encoder']} (OP-RAG: bge)")
    if config.get("extract_model"):
        lines.append(f"- Model for the extractions: {config['extract_model']}")
    lines.append(f"- Questions: {facts['items']} of {config['data_set']['name']}, seed {config['seed']}")
    if sampling := config.get("sampling"):
        lines.append(f"- Drawn: {sampling}; --limit or --per-class draws others")
    if repeats := config.get("repeats"):
        lines.append(f"- Repeats: {repeats}, each sampled afresh at temperature {config['temperature']}")
    if rankings := config.get("rankings"):
        lines.append(f"- Rankings: {rankings}")
    if {"map_reduce", "briefcontext"} & set(config["methods"]):
        lines.append(
            f"- Read in partitions of {config['reading']['partition_size']} (the authors' notebook: two partitions), "
            "as small ones are what the method is for; quotes that no document holds are dropped, as evidence must be "
            "in its document (the notebook looks none up)"
        )
    if "briefcontext" in config["methods"]:
        lines.append("- BM25 ranks the k documents that were retrieved, as in equation 1 (the notebook: 64)")
    for reason, count in facts["left_out"].items():
        lines.append(f"- Left out: {count} questions: {reason}")
    if config.get("knowledge_base"):
        base = config["knowledge_base"]
        lines.append(f"- Knowledge base: {base['passages']:,} passages, encoder {base['encoder']}")
    if calibration := config.get("calibration"):
        lines.append(
            f"- Preflight: calibrated on {calibration['fitted_on']:,} questions, target recall "
            f"{100 * calibration['target_recall']:g}%"
        )
        lines += [f"- Caution: {caution}" for caution in calibration["cautions"]]
    lines.append(f"- Answers: {facts['answers']} of {facts['planned']}; failed: {facts['failed']}")
    lines.append(
        f"- Asked in all: {facts['calls']:,} requests, {facts['input_tokens']:,} input and "
        f"{facts['output_tokens']:,} output tokens (equal requests were asked once)"
    )
    return lines
