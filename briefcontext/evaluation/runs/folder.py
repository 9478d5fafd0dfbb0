"""The folder of a run: its configuration, its rows, and what is made of them."""

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
_NOTED = ("versions.", "provenance.", "data_set.spec")
"""Beginnings of the names of what is noted, and may differ as a run goes on; but for these:"""
_COMPARED = ("versions.briefcontext", "provenance.encoder_revision")


class RunFolder:
    """One run's folder.

    `items.jsonl` is written to as answers come, a row a line; of two rows with the same id the
    later one counts, and a line that was cut short by a kill is dropped.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def locked(self) -> AbstractContextManager[object]:
        """Keep other processes from running here; raise InputError where one does, or the folder cannot be made."""
        busy = InputError(
            f"Another process runs in {self.path}. Wait for it, or give another --out."
        )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return lock(self.path / "run.lock", busy)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written to ({error}). Give another --out."
            ) from error

    def claim(self, config: Mapping[str, Any]) -> None:
        """Take the folder for a configuration, or go on with the run that has the same one: see `check`."""
        if not self.check(config):
            self._write(CONFIG, config)

    def check(self, config: Mapping[str, Any]) -> bool:
        """Return whether the folder holds a run of this configuration, which can go on; if not, it is free.

        It is free, too, where a run has got no answer yet: its model's name may have been a wrong
        one. Where the data lie, what the run was started by, and the versions of other packages are
        noted and not compared.

        Raises:
            InputError: the folder holds a run of another configuration, or something else.
        """
        if not (self.path / CONFIG).exists():
            if any(self.path.glob("*.jsonl")):
                raise InputError(
                    f"{self.path} holds files that no run wrote: there is no {CONFIG}. Give "
                    f"another --out."
                )
            return False
        before = self.config()
        rows = [
            file
            for file in (self.path / ITEMS, self.path / STUDY_ROWS)
            if file.exists() and file.stat().st_size
        ]
        if "experiment" in before and not rows:
            return False
        now = json.loads(json.dumps(config))  # As it would be read: a tuple is a list there.
        if before.get("experiment") != now["experiment"]:  # All else differs, too.
            before, now = ({"experiment": one.get("experiment")} for one in (before, now))
        if differences := list(_differences(before, now)):
            raise InputError(
                f"{self.path} holds a run of another configuration ({'; '.join(differences)}). "
                "Give another --out, or the same settings to go on with it."
            )
        return True

    def config(self) -> dict[str, Any]:
        """Return the configuration of the run; raise InputError where there is none."""
        return self._read(CONFIG, f"{self.path} is no run", "Check the path, or restore the file.")

    def summary(self) -> dict[str, Any]:
        """Return the summary of the run; raise InputError where it is not finished."""
        again = (
            "Check the path, or give the command that began the run again: it goes on from there."
        )
        return self._read(SUMMARY, f"{self.path} holds no finished run", again)

    def _read(self, name: str, missing: str, advice: str) -> dict[str, Any]:
        if not self.path.is_dir():
            raise InputError(f"There is no folder {self.path}. Check the path.")
        try:
            found: dict[str, Any] = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{missing}: {name} cannot be read ({why}). {advice}") from error
        return found

    def rows(self) -> dict[str, Row]:
        """Return the rows by id, the last of each."""
        return {row["id"]: row for row in json_objects(self.path / ITEMS) if "id" in row}

    def append(self, row: Row) -> None:
        """Add a row; it is with the operating system before this returns."""
        with (self.path / ITEMS).open("ab") as lines:
            lines.write(json_line(row).encode())

    def rewrite(self, rows: Iterable[Row]) -> None:
        """Write all rows anew, one of each id, in the order given."""
        write_whole(self.path / ITEMS, "".join(map(json_line, rows)))

    def finish(self, report: str, summary: dict[str, Any], rows: str = ITEMS) -> None:
        """Write the report and the summary, to which the hashes of what it was made of are added."""
        write_whole(self.path / REPORT, report)
        summary["sha256"] = {name: file_sha256(self.path / name) for name in (CONFIG, rows, REPORT)}
        self._write(SUMMARY, summary)

    def _write(self, name: str, value: Any) -> None:
        write_whole(self.path / name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], within: str = ""
) -> Iterator[str]:
    """Yield what is compared and differs, by names such as `reading.partition_size`."""
    for key in sorted(before.keys() | now.keys()):
        name, was, is_now = within + key, before.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(is_now, dict):
            yield from _differences(was, is_now, f"{name}.")
        elif was != is_now and (name in _COMPARED or not name.startswith(_NOTED)):
            yield f"{name} was {shown(was)} and is {shown(is_now)}"
