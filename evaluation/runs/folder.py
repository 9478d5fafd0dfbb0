"""The folder of a run: its configuration, its rows, and what is made of them."""

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from briefcontext.errors import InputError
from briefcontext.evaluation.statistics.tables import Row
from briefcontext.files import json_line, json_objects, lock, write_whole
from briefcontext.prompts import Prompts

__all__ = ["RunFolder"]

CONFIG = "config.json"
ITEMS = "items.jsonl"
STUDY_ROWS = "rows.jsonl"
"""The rows of a preflight study, a question a line."""
SUMMARY = "summary.json"
REPORT = "report.md"
REPLIES = "replies.sqlite"
PROMPTS = "prompts"
_NOTED = ("versions", "provenance")


class RunFolder:
    """One run's folder.

    `items.jsonl` is written to as answers come, a row a line; a line that was cut short by a kill is dropped when the
    run goes on. A later row of the same id takes the place of an earlier one.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def locked(self) -> AbstractContextManager[object]:
        """Keep other processes from running here.

        Raises:
            InputError: another one does, or the folder cannot be made.
        """
        busy = InputError(f"Another process runs in {self.path}. Wait for it, or give another --out.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return lock(self.path / "run.lock", busy)
        except OSError as error:
            raise InputError(f"{self.path} cannot be written to ({error}). Give another --out.") from error

    def claim(self, config: Mapping[str, Any]) -> None:
        """Take the folder for a configuration, or go on with the run that has the same one.

        Versions, and what the run was started by, are noted and not compared.

        Raises:
            InputError: the folder holds a run of another configuration, or something else.
        """
        if (self.path / CONFIG).exists():
            before = self.config()
            # As it would be read: a tuple is a list there.
            now: dict[str, Any] = json.loads(json.dumps(config))
            differences = [
                f"{name} was {_short(before.get(name))} and is {_short(now.get(name))}"
                for name in sorted({*before, *now} - {*_NOTED})
                if before.get(name) != now.get(name)
            ]
            if differences:
                raise InputError(
                    f"{self.path} holds a run of another configuration ({'; '.join(differences)}). "
                    "Give another --out, or the same settings to go on with it."
                )
            return
        if any(self.path.glob("*.jsonl")):
            raise InputError(f"{self.path} holds files that no run wrote: there is no {CONFIG}. Give another --out.")
        self.write_json(CONFIG, config)

    def keep_prompts(self, prompts: Prompts) -> None:
        """Write the prompts that the run uses as text, one file each, into the folder `prompts`."""
        (self.path / PROMPTS).mkdir(exist_ok=True)
        for name, text in prompts.texts.items():
            write_whole(self.path / PROMPTS / f"{name}.txt", text)

    def config(self) -> dict[str, Any]:
        """Return the configuration of the run.

        Raises:
            InputError: there is none.
        """
        try:
            config: dict[str, Any] = json.loads((self.path / CONFIG).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{self.path} is no run: there is no {CONFIG} in it. Check the path.") from None
        except (OSError, json.JSONDecodeError) as error:
            raise InputError(f"{self.path / CONFIG} cannot be read: {error}. Restore it.") from error
        return config

    def rows(self) -> dict[str, Row]:
        """Return the rows by id, the last of each."""
        return {row["id"]: row for row in json_objects(self.path / ITEMS) if "id" in row}

    def answered(self) -> set[str]:
        """Return the ids of the rows that a model has answered."""
        return {id for id, row in self.rows().items() if row["status"] == "ok"}

    def append(self, row: Row) -> None:
        """Add a row; it is with the operating system before this returns."""
        with (self.path / ITEMS).open("ab+") as lines:
            # A line that a kill cut short would run into this one.
            if lines.tell() and lines.seek(-1, 2) >= 0 and lines.read() != b"\n":
                lines.write(b"\n")
            lines.write(json_line(row).encode())

    def rewrite(self, rows: Iterable[Row]) -> None:
        """Write all rows anew, one of each id, in the order given."""
        write_whole(self.path / ITEMS, "".join(map(json_line, rows)))

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as JSON."""
        write_whole(self.path / name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
