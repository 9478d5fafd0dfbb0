"""`briefcontext index`: from files to a knowledge base, with progress and a count of every record."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from briefcontext.knowledge.build import BuildReport, build_knowledge_base
from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.pipeline import Progress as BuildProgress
from briefcontext.knowledge.sources import FileSources, open_sources
from briefcontext.printable import printable_line

__all__ = ["index"]


class ProgressBars:
    """A bar for each source on standard error; nothing where that is not a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[counted]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, progress: BuildProgress) -> None:
        """Tell how far the build is."""
        name = progress.source or "finishing"
        if name not in self._tasks:
            title = f"{escape(Path(name).name)} ({progress.source_number}/{progress.source_count})"
            self._tasks[name] = self._bars.add_task(title, total=progress.size, counted="")
        task = self._tasks[name]
        elapsed = self._bars.tasks[task].elapsed or 0
        rate = progress.vectors / elapsed if elapsed else 0
        counted = f"{progress.counts.read:,} records, {rate:,.0f} passages/s"
        self._bars.update(task, completed=progress.consumed, total=progress.size, counted=counted)


def index(
    paths: Sequence[str],
    kb: str,
    *,
    encoder: str,
    format: str,
    fields: Mapping[str, str],
    chunk_tokens: int | None,
    store: str | None,
) -> None:
    """Build the knowledge base and print what became of every record.

    Raises:
        BriefContextError: a path, the encoder or the knowledge base cannot be used.
    """
    sources = open_sources(paths, format=format, fields=fields)
    with ProgressBars() as bars:
        report = build_knowledge_base(
            sources,
            kb,
            encoder=load_encoder(encoder),
            chunk_tokens=chunk_tokens,
            store=store,
            progress=bars.show,
        )
    _print_report(report, sources)


def _print_report(report: BuildReport, sources: FileSources) -> None:
    console = Console(highlight=False)
    for skipped in sources.skipped:
        console.print(f"skipped {escape(printable_line(f'{skipped.name}: {skipped.reason}'))}")
    for source in report.sources:
        if source.skipped:
            console.print(f"{escape(printable_line(source.name))}: indexed before, nothing new")
    counts = report.counts
    parts = [f"{getattr(counts, name):,} {name}" for name in ("indexed", "updated", "unchanged", "deleted", "rejected")]
    console.print(f"{counts.read:,} records read = {' + '.join(parts)}")
    if counts.unchanged:
        console.print("Unchanged are records held already, older ones, and deletions of records not held.")
    console.print(f"{escape(str(report.path))} holds {report.passages:,} passages.")
    if report.rejects_file:
        console.print(f"Why records were rejected: {escape(str(report.rejects_file))}")
