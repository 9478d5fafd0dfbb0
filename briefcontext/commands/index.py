"""`briefcontext index`: build a knowledge base from files, with progress and counts."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from briefcontext.commands.options import assignments, values
from briefcontext.commands.terminal import EXIT_FAILED, printable_line, say_line
from briefcontext.errors import counted

if TYPE_CHECKING:
    from briefcontext.knowledge.build import BuildReport
    from briefcontext.knowledge.build.pipeline import Progress as BuildProgress
    from briefcontext.knowledge.sources.files import SkippedFile
    from briefcontext.knowledge.store.place import Place

DEFAULT_ENCODER = "e5"
LISTED_SKIPPED = 10
LISTED_REJECTS = 3


class ProgressBars(Progress):
    """A bar for each source on standard error, or a line at each 5% if it is not a terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[counted]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._sources: dict[str, TaskID] = {}
        self._clock = clock
        self._begun = clock()
        self._printed = 0

    def show(self, progress: "BuildProgress") -> None:
        """Show the progress of the build."""
        name = progress.source or "finishing"
        if name not in self._sources:
            for earlier in self._sources.values():
                self.update(earlier, completed=self._tasks[earlier].total)
            title = f"{escape(Path(name).name)} ({progress.source_number}/{progress.source_count})"
            self._sources[name] = self.add_task(title, total=progress.size, counted="")
        # Passages and time are those of all sources so far.
        elapsed = self._clock() - self._begun
        rate = progress.vectors / elapsed if elapsed else 0
        speed = f"{counted(progress.counts.read, 'record')}, {rate:,.0f} passages/s"
        self.update(
            self._sources[name], completed=progress.consumed, total=progress.size, counted=speed
        )
        read = progress.consumed / progress.size if progress.size else 0
        twentieth = int((progress.source_number - 1 + read) / max(progress.source_count, 1) * 20)
        if self.disable and progress.source and twentieth > self._printed:
            self._printed = twentieth
            typer.echo(f"{twentieth * 5}% {printable_line(name)}: {speed}", err=True)


def index(
    paths: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="Files, folders or globs.")],
    kb: Annotated[
        str, typer.Option("--kb", help="Folder of the knowledge base to build or to update.")
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            help="e5, medcpt, bge, minilm, or a sentence-transformers model. Default: the base's "
            "encoder, or e5 for a new base."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(help="Format of the sources. Default: by each file.")
    ] = "auto",
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Column of a field in JSON lines or CSV: --field id=doc --field text=body.",
        ),
    ] = None,
    loader: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:CLASS", help="Read all files with this document loader of LangChain."
        ),
    ] = None,
    loader_arguments: Annotated[
        list[str] | None,
        typer.Option("--loader-arg", metavar="NAME=VALUE", help="Another argument of the loader."),
    ] = None,
    chunk_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens per chunk. Default: 128 for whole texts, else no chunks.",
        ),
    ] = None,
    on: Annotated[
        Literal["ray"] | None,
        typer.Option(help="Encode and write on a Ray cluster: RAY_ADDRESS, or a local one."),
    ] = None,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Time for reading a file, or a record of a large one.")
    ] = 30.0,
    max_memory: Annotated[
        float, typer.Option(min=0.1, help="Memory for reading a file, in gigabytes.")
    ] = 1.0,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync",
            help="Remove what the base has of these files and folders that is gone from them.",
        ),
    ] = False,
) -> None:
    """Build or update a knowledge base. The same command resumes a stopped build."""
    from briefcontext.knowledge import build_knowledge_base, load_encoder
    from briefcontext.knowledge.build import check_build, place_to_build, remove_records
    from briefcontext.knowledge.build.files import gone_records
    from briefcontext.knowledge.encoders.sentence_transformer import full_name
    from briefcontext.knowledge.sources.files import SkippedFile, open_sources
    from briefcontext.knowledge.sources.limited import ReadLimits
    from briefcontext.knowledge.store.manifest import Manifest

    place = place_to_build(kb)
    sources = open_sources(
        paths,
        format=format,
        fields=assignments(field or [], "Field", "FIELD=COLUMN, for example id=doc"),
        loader=loader,
        loader_arguments=values(loader_arguments or []),
        limits=ReadLimits(max_seconds, max_memory),
    )
    # Check everything before weights are loaded or downloaded.
    manifest = Manifest.latest(place)
    own = DEFAULT_ENCODER if manifest is None else manifest.encoder.name
    name = own if encoder is None else full_name(encoder)
    check_build(place, sources, name, chunk_tokens=chunk_tokens)
    loaded = load_encoder(name)
    with ProgressBars() as bars:
        report = build_knowledge_base(
            sources, kb, encoder=loaded, chunk_tokens=chunk_tokens, on=on, progress=bars.show
        )
    gone = gone_records(kb, paths, sources)
    if gone and sync:
        # A record may also be in another file, which is then read again.
        several = [source for source in sources if getattr(source, "document_id", None) is None]
        remove_records(kb, gone, reread=several)
        synced = build_knowledge_base(sources, kb, encoder=loaded, on=on)
    else:
        synced = None
    skipped = [source for source in sources if isinstance(source, SkippedFile)]
    rejects = _first_rejects(report, skipped, place) if report.rejects_file else []
    _print_report(report, rejects, skipped, synced, len(gone))
    if gone and not sync:
        left = counted(len(gone), "record")
        typer.echo(f"In the base, but in no file any more: {left}. --sync removes them.")
    nothing = report.counts.read == report.counts.rejected and not any(
        source.skipped for source in report.sources
    )
    raise typer.Exit(EXIT_FAILED if nothing or not (synced or report).passages else 0)


def _first_rejects(
    report: "BuildReport", skipped: "list[SkippedFile]", place: "Place"
) -> list[dict[str, str]]:
    """Return the first rejected records of the files that were read now."""
    from briefcontext.knowledge.build.draft import REJECTS_FILE

    read = {source.name for source in report.sources if source.counts.read > 0} - {
        file.name for file in skipped
    }
    rows = map(json.loads, (place.read(REJECTS_FILE) or b"").splitlines())
    return list(islice((row for row in rows if row["source"] in read), LISTED_REJECTS))


def _print_report(
    report: "BuildReport",
    rejects: Sequence[Mapping[str, str]],
    skipped: "list[SkippedFile]",
    synced: "BuildReport | None",
    gone: int,
) -> None:
    for file in skipped[:LISTED_SKIPPED]:
        say_line(f"skipped {file.name}: {file.reason}")
    if len(skipped) > LISTED_SKIPPED:
        say_line(f"{len(skipped):,} files were skipped in all, and count as rejected records.")
    named = {file.name for file in skipped}
    for source in report.sources:
        if source.skipped and source.name not in named:
            say_line(f"{source.name}: indexed before, nothing new")
    counts = report.counts
    parts = [
        f"{getattr(counts, name):,} {name}"
        for name in ("indexed", "updated", "unchanged", "deleted", "rejected")
    ]
    say_line(f"{counted(counts.read, 'record')} read = {' + '.join(parts)}")
    if counts.updated:
        say_line(
            "Updated records replaced earlier records with the same id. If these are different "
            "documents, choose another id with --field id=COLUMN."
        )
    if counts.unchanged:
        say_line("Unchanged records are in the base already, are older, or delete nothing.")
    if synced is not None:
        say_line(
            f"Removed {counted(gone - synced.counts.indexed, 'record')} of files that are gone."
        )
    say_line(f"{report.path} holds {counted((synced or report).passages, 'passage')}.")
    if counts.lost_characters:
        lost = counted(counts.lost_characters, "character")
        say_line(
            f"{lost} of PDF files without Unicode, shown as □: check the passages, or run text "
            "recognition (OCR) on the files."
        )
    if counts.rejected:
        for row in rejects:
            say_line(f"rejected {row['source']}, {row['position']}: {row['reason']}")
        say_line(f"Why records were rejected: {report.rejects_file}")
