"""`briefcontext pubmed`: a knowledge base of PubMed from NCBI's files."""

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from briefcontext.commands import options as shared
from briefcontext.commands.terminal import say_line
from briefcontext.errors import InputError, KnowledgeBaseError, counted

if TYPE_CHECKING:
    from briefcontext.knowledge.build import BuildReport
    from briefcontext.knowledge.pubmed.releases import Mirror, Options, Release, ReleaseSource
    from briefcontext.knowledge.store.manifest import Manifest
    from briefcontext.knowledge.store.place import Place

FILTERS = ("years", "publication_types", "journals", "mesh", "languages")
READ_RATE = 2_100
"""Records per second on two cores: read, match with vectors and write (benchmarks/pubmed.py)."""
ENCODE_RATES = {"e5": 1.2}
"""Abstracts per second that an encoder embeds on two cores."""
DOWNLOAD_RATE = 10e6
"""Bytes per second that the plan assumes for the network."""
BYTES_PER_RECORD = 3_100
CHUNK_RECORDS = 1_000_000

pubmed = typer.Typer(
    invoke_without_command=True,
    help="Build a knowledge base of PubMed from NCBI's files, and keep it up to date.",
)

Base = Annotated[str, typer.Option("--kb", help="Folder of the knowledge base.")]
Keep = Annotated[
    Path | None, typer.Option("--keep", metavar="DIR", help="Keep the downloaded files there.")
]
Encoder = Annotated[
    str | None, typer.Option(help="Encoder of a new base. Default: e5; medcpt with --embeddings.")
]
Embeddings = Annotated[
    bool,
    typer.Option(
        "--embeddings", help="Use NCBI's MedCPT vectors, and encode only articles without one."
    ),
]


@pubmed.callback()
def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@pubmed.command()
def plan(kb: Base = "pubmed-kb", encoder: Encoder = None, embeddings: Embeddings = False) -> None:
    """Show NCBI's files, and the download, disk and time for a base. Nothing is written."""
    from briefcontext.knowledge.pubmed.releases import BASELINE, UPDATES, finished_releases
    from briefcontext.knowledge.store.manifest import Manifest
    from briefcontext.knowledge.store.place import open_place

    manifest = Manifest.latest(open_place(kb))
    done = set(finished_releases(manifest.sources) if manifest else [])
    with closing(_mirror(None)) as mirror:
        files = {part: mirror.releases(part) for part in (BASELINE, UPDATES)}
        missing = [each for part in files.values() for each in part if each.name not in done]
        for part, releases in files.items():
            held = sum(each.name in done for each in releases)
            say_line(f"{part}: {counted(len(releases), 'file')} at NCBI, {held:,} of them in {kb}")
        size, chunks = mirror.size(missing), mirror.chunks() if embeddings else []
        if chunks:
            vectors = CHUNK_RECORDS * 768 * 4 * len(chunks)
            say_line(f"embeddings: {counted(len(chunks), 'chunk')}, about {_bytes(vectors)}")
            size += vectors
    if not missing:
        say_line("to do: nothing")
        return
    _print_plan(
        len(missing), size, encoder or ("medcpt" if embeddings else "e5"), embeddings=embeddings
    )


def _print_plan(files: int, size: int, encoder: str, *, embeddings: bool) -> None:
    from briefcontext.knowledge.pubmed.releases import RECORDS_PER_FILE

    records = files * RECORDS_PER_FILE
    say_line(f"to do: {counted(files, 'file')}, about {records:,} records before filters")
    say_line(f"download: about {_bytes(size)}, {_duration(size / DOWNLOAD_RATE)} at 10 MB a second")
    say_line(f"disk: about {_bytes(records * BYTES_PER_RECORD)} for the base, without filters")
    say_line(f"reading and writing: about {_duration(records / READ_RATE)} on two cores")
    if embeddings:
        say_line("encoding: only articles without a vector of NCBI's")
    elif rate := ENCODE_RATES.get(encoder):
        say_line(
            f"encoding with {encoder}: about {_duration(records / rate)} on two cores, without "
            f"filters"
        )
    else:
        say_line(f"encoding with {encoder}: depends on the device")


def _bytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB" if size >= 1e10 else f"{size / 1e6:,.0f} MB"


def _duration(seconds: float) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return counted(round(seconds / length), unit)
    return counted(round(seconds), "second")


@pubmed.command()
@shared.takes(*FILTERS)
def build(
    kb: Base,
    encoder: Encoder = None,
    embeddings: Embeddings = False,
    keep: Keep = None,
    **given: Any,
) -> None:
    """Build a base from the baseline and the updates. The same command resumes a stopped build."""
    from briefcontext.knowledge.build import place_to_build
    from briefcontext.knowledge.pubmed.releases import BASELINE, UPDATES, Options

    place = place_to_build(kb)
    options = Options(shared.settings_of(**given).filters, embeddings)
    held = Options.load(place)
    if held is not None and held != options:
        raise InputError(
            f"{kb} was built {_described(held)}. Give the same options, or another folder."
        )
    encoder = encoder or ("medcpt" if embeddings else None)
    with closing(_mirror(keep)) as mirror:
        releases = mirror.releases(BASELINE) + mirror.releases(UPDATES)
        if not releases:
            raise KnowledgeBaseError(
                "NCBI lists no files of PubMed. Check the address, or try again later."
            )
        _index(kb, place, mirror, releases, options, encoder)


@pubmed.command()
def update(kb: Base, keep: Keep = None) -> None:
    """Add the update files that NCBI published since."""
    from briefcontext.knowledge.build import place_to_build
    from briefcontext.knowledge.pubmed.releases import (
        UPDATES,
        Options,
        due_updates,
        finished_releases,
    )
    from briefcontext.knowledge.store.manifest import Manifest

    place = place_to_build(kb)
    options, manifest = Options.load(place), Manifest.published(place)
    if options is None or manifest is None:
        raise KnowledgeBaseError(
            f"{kb} is not a base of PubMed. Build one: briefcontext pubmed build --kb {kb}"
        )
    with closing(_mirror(keep)) as mirror:
        releases = due_updates(mirror.releases(UPDATES), finished_releases(manifest.sources))
        if not releases and Manifest.draft(place) is None:
            say_line(f"{kb}: nothing new.")
            return
        for release in releases:
            _index(kb, place, mirror, [release], options, None)


def _mirror(keep: Path | None) -> "Mirror":
    from briefcontext.files import cache_folder
    from briefcontext.knowledge.pubmed.releases import Mirror

    return Mirror(keep or cache_folder() / "pubmed", keep=keep is not None)


def _described(options: "Options") -> str:
    filters = f"with {options.filters}" if options.filters else "without filters"
    return f"{filters}{' and with --embeddings' if options.embeddings else ''}"


def _index(
    kb: str,
    place: "Place",
    mirror: "Mirror",
    releases: Sequence["Release"],
    options: "Options",
    encoder: str | None,
) -> None:
    """Index new files, and print a line for each."""
    from briefcontext.commands.index import DEFAULT_ENCODER
    from briefcontext.knowledge.build import build_knowledge_base, check_build
    from briefcontext.knowledge.encoders import load_encoder
    from briefcontext.knowledge.encoders.sentence_transformer import full_name
    from briefcontext.knowledge.pubmed.releases import STATE_FILE, Vectors, release_sources
    from briefcontext.knowledge.store.manifest import Manifest

    manifest = Manifest.latest(place)
    name = full_name(encoder or (DEFAULT_ENCODER if manifest is None else manifest.encoder.name))
    vectors = Vectors(mirror.vectors, mirror.chunks()) if options.embeddings else None
    progress = _Progress(_due(manifest, releases))
    sources = release_sources(mirror, releases, options, vectors=vectors, report=progress.show)
    check_build(place, sources, name, chunk_tokens=None)
    report = build_knowledge_base(sources, kb, encoder=load_encoder(name))
    if place.stamp(STATE_FILE) is None:
        options.save(place)
    if vectors is not None:
        vectors.close()
    _print_report(report, progress.left_out)


def _due(manifest: "Manifest | None", releases: Sequence["Release"]) -> int:
    finished = (
        {source.name for source in manifest.sources if source.finished} if manifest else set()
    )
    return sum(release.name not in finished for release in releases)


class _Progress:
    """Prints a line for each finished file."""

    def __init__(self, files: int) -> None:
        self._files, self._read, self._records = files, 0, 0
        self.left_out = 0
        self._began = time.monotonic()

    def show(self, source: "ReleaseSource") -> None:
        """Print the records, the speed and the remaining time."""
        self._read += 1
        self._records += source.read
        self.left_out += source.left_out
        elapsed = time.monotonic() - self._began
        left = elapsed / self._read * (self._files - self._read)
        kept = f", {source.left_out:,} left out by the filters" if source.left_out else ""
        say_line(
            f"{source.name} ({self._read}/{self._files}): {counted(source.read, 'record')}{kept}; "
            f"{self._records / max(elapsed, 1e-3):,.0f} records/s, {_duration(left)} left"
        )


def _print_report(report: "BuildReport", left_out: int) -> None:
    counts = report.counts
    parts = [
        f"{getattr(counts, name):,} {name}"
        for name in ("indexed", "updated", "unchanged", "deleted", "rejected")
    ]
    say_line(
        f"{counted(counts.read, 'record')} read = {' + '.join(parts)}; "
        f"{left_out:,} more left out by the filters"
    )
    say_line(f"{report.path} holds {counted(report.passages, 'passage')}.")
    if counts.rejected:
        say_line(f"Why records were rejected: {report.rejects_file}")
