"""Checking that what a run's folder holds belongs together."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.runs.folder import PROMPTS, STUDY_ROWS, SUMMARY, RunFolder
from briefcontext.evaluation.runs.results import counts_of
from briefcontext.files import file_sha256, json_objects
from briefcontext.prompts import Prompts

__all__ = ["verify_run"]


def verify_run(path: Path) -> list[str]:
    """Return what in a run's folder does not belong together; nothing where all does.

    The hashes of configuration, rows and report must be those that the summary names, the prompts those of the
    configuration, each row one of a method that the run has, and the summary's counts what the rows
    add up to.

    Raises:
        InputError: it is no folder of a finished run.
    """
    folder = RunFolder(path)
    config = folder.config()
    try:
        summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path} holds no finished run: {SUMMARY} cannot be read ({error}).") from error
    if "sha256" not in summary:
        raise InputError(f"{path} names no hashes: it is a run of an older version. Give the same command again.")
    problems = []
    for name, digest in summary["sha256"].items():
        if not (path / name).exists():
            problems.append(f"{name} is missing.")
        elif file_sha256(path / name) != digest:
            problems.append(f"{name} is not the one that the summary was made of.")
    if config["experiment"] == "preflight":
        studied = list(json_objects(path / STUDY_ROWS))
        counted = {"n": len(studied), "misplaced": sum(row["misplaced"] for row in studied)}
        return problems + _differences(summary, counted)
    try:
        if Prompts(path / PROMPTS).digest != config["prompts_sha256"]:
            problems.append(f"The texts in {PROMPTS} are not the prompts that the configuration names.")
    except InputError as error:
        problems.append(f"The prompts cannot be read: {error}")
    rows = folder.rows()
    for id, row in rows.items():
        label = ", ".join(f"{name} {value}" for name, value in row["condition"].items())
        named = f"{row['item']}|{row['method']}|{label}" + (f"|repeat {row['repeat']}" if row.get("repeat") else "")
        if id != named or row["method"] not in config["methods"]:
            problems.append(f"Row {id!r} is not one of this run.")
    return problems + _differences(summary, counts_of(list(rows.values())))


def _differences(summary: Mapping[str, Any], counted: Mapping[str, Any]) -> list[str]:
    return [
        f"The summary has {name} {summary.get(name)}, and the rows {count}."
        for name, count in counted.items()
        if count != summary.get(name)
    ]
