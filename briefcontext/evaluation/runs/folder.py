"""The folder of a run: its configuration, its rows, and its results."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.rows import shown
from briefcontext.evaluation.statistics.tables import Row
from briefcontext.files import file_sha256, json_line, json_objects, lock, write_whole

CONFIG = "config.json"
ITEMS = "items.jsonl"
STUDY_ROWS = "rows.jsonl"
"""The rows of a preflight study, a question a line."""
SUMMARY = "summary.json"
REPORT = "report.md"
REPLIES = "replies.sqlite"
PROMPTS = "prompts"
_NOT_COMPARED = ("versions.", "provenance.", "data_set.spec", "data_set.name")
"""Prefixes of values that may differ when a run is resumed, but for these:"""
_COMPARED = ("versions.briefcontext", "provenance.encoder_revision")


class RunFolder:
    """One run's folder.

    `items.jsonl` grows by a row an answer. Of two rows with the same id the later one counts; a
    line that was cut short by a kill is dropped.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def locked(self) -> AbstractContextManager[object]:
        """Lock the folder. Raises InputError if another process runs here, or it cannot be made."""
        busy = InputError(f"Another process runs in {self.path}. Wait, or give another --out.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return lock(self.path / "run.lock", busy)
        except OSError as error:
            message = f"{self.path} cannot be written to ({error}). Give another --out."
            raise InputError(message) from error

    def claim(self, config: Mapping[str, Any]) -> None:
        """Take the folder for a configuration, or resume the run that has the same one."""
        if not self.check(config):
            self._write(CONFIG, config)

    def check(self, config: Mapping[str, Any]) -> bool:
        """Return True if the folder has a run of this configuration; False if it is free.

        It is also free if its run has no answer yet. Raises InputError if it has a run of another
        configuration, or other files.
        """
        if not (self.path / CONFIG).exists():
            if any(self.path.glob("*.jsonl")):
                raise InputError(f"{self.path} has files of no run. Give another --out.")
            return False
        before = self.config()
        files = (self.path / ITEMS, self.path / STUDY_ROWS)
        answered = any(file.exists() and file.stat().st_size for file in files)
        if "experiment" in before and not answered:
            return False
        now = json.loads(json.dumps(config))  # Tuples become lists.
        if before.get("experiment") != now["experiment"]:  # Everything else differs as well.
            before, now = ({"experiment": one.get("experiment")} for one in (before, now))
        differences = list(_differences(before, now))
        if differences:
            raise InputError(
                f"{self.path} has a run of another configuration ({'; '.join(differences)}). "
                "Give another --out, or the same settings to resume it."
            )
        return True

    def config(self) -> dict[str, Any]:
        """Return the configuration of the run. Raises InputError without one."""
        return self._read(CONFIG, f"{self.path} has no run", "Check the path, or restore the file.")

    def summary(self) -> dict[str, Any]:
        """Return the summary of the run. Raises InputError if it is not finished."""
        advice = "Check the path, or repeat the command of the run to resume it."
        return self._read(SUMMARY, f"{self.path} has no finished run", advice)

    def _read(self, name: str, missing: str, advice: str) -> dict[str, Any]:
        if not self.path.is_dir():
            raise InputError(f"There is no folder {self.path}. Check the path.")
        try:
            result: dict[str, Any] = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError) as error:
            raise InputError(f"{missing}: {name} cannot be read ({error}). {advice}") from error
        return result

    def rows(self) -> dict[str, Row]:
        """Return the rows by id, the last of each."""
        return {row["id"]: row for row in json_objects(self.path / ITEMS) if "id" in row}

    def append(self, row: Row) -> None:
        """Append a row to the file."""
        with (self.path / ITEMS).open("ab") as lines:
            lines.write(json_line(row).encode())

    def rewrite(self, rows: Iterable[Row]) -> None:
        """Write all rows again, one of each id, in the given order."""
        write_whole(self.path / ITEMS, "".join(map(json_line, rows)))

    def finish(self, report: str, summary: dict[str, Any], rows: str = ITEMS) -> None:
        """Write the report and the summary, to which the hashes of the files are added."""
        write_whole(self.path / REPORT, report)
        summary["sha256"] = {name: file_sha256(self.path / name) for name in (CONFIG, rows, REPORT)}
        self._write(SUMMARY, summary)

    def _write(self, name: str, value: Any) -> None:
        write_whole(self.path / name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], within: str = ""
) -> Iterator[str]:
    for key in sorted(before.keys() | now.keys()):
        name, old, new = within + key, before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{name}.")
        elif old != new and (name in _COMPARED or not name.startswith(_NOT_COMPARED)):
            yield f"{name} was {shown(old)} and is {shown(new)}"
