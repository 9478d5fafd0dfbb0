"""`briefcontext kb`: looking into a knowledge base, and taking documents out of it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from briefcontext.commands import options as shared
from briefcontext.commands.printable import counted, printable, printable_line
from briefcontext.errors import InputError, KnowledgeBaseError

__all__ = ["info", "kb"]

LISTED_SOURCES = 5

Folder = Annotated[str, typer.Argument(metavar="DIR", help="Folder of the knowledge base.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]

kb = typer.Typer(invoke_without_command=True, help="Look into a knowledge base, and take documents out.")


@kb.callback()
def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@kb.command()
def info(folder: Folder, as_json: AsJSON = False) -> None:
    """Show what a knowledge base holds and how it was made."""
    from briefcontext.knowledge.knowledge_base import knowledge_base_info

    known = knowledge_base_info(folder)
    if as_json:
        print_json(known)
        return
    sources = known.pop("sources")
    _print_fields(known, 0)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"sources: {len(sources):,}")
    for source in sources[-LISTED_SOURCES:]:
        unfinished = "" if source["finished"] else ", not read to its end"
        console.print(
            f"  {escape(printable_line(source['name']))}: {counted(source['counts']['read'], 'record')}{unfinished}"
        )
    for note in sorted({source["note"] for source in sources if source["note"]}):
        console.print(f"  {escape(printable_line(note))}")
    if len(sources) > LISTED_SOURCES:
        console.print(f"  (the last {LISTED_SOURCES}; kb list shows the documents, and --json all sources)")
    if known["state"] == "half-built":
        console.print("Its first build was stopped: run the same index command again to finish it.")


@kb.command("list")
def list_documents(folder: Folder, as_json: AsJSON = False) -> None:
    """Show the documents that it holds, by their ids."""
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(folder) as base:
        found = base.documents()
    if as_json:
        print_json(found)
        return
    console = Console(highlight=False, soft_wrap=True)
    for document in found:
        passages = counted(document["passages"], "passage")
        about = ", ".join(str(part) for part in (document["kind"], document["year"], passages) if part)
        shown = printable_line(f"{document['source_id']} {document['title'] or ''}")
        console.print(escape(f"{shown.rstrip()}  ({about})"))


@kb.command()
def remove(
    folder: Folder, ids: Annotated[list[str], typer.Argument(metavar="ID…", help="As kb list shows them.")]
) -> None:
    """Take documents out; one whose file is indexed again comes back."""
    from briefcontext.knowledge.build.build import remove_records

    report = remove_records(folder, ids)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{report.counts.deleted:,} removed; {escape(folder)} holds {counted(report.passages, 'passage')}.")


@kb.command()
def search(
    context: typer.Context,
    folder: Folder,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The words or the question to search for.")],
    k: Annotated[int, typer.Option("--top-k", min=1, help="How many passages.")] = 10,
    method: Annotated[Literal["dense", "bm25", "hybrid"], typer.Option(help="How to rank.")] = "dense",
    years: shared.Years = None,
    publication_types: shared.StudyTypes = None,
    journals: shared.Journals = None,
    mesh: shared.Mesh = None,
    languages: shared.Languages = None,
    as_json: AsJSON = False,
) -> None:
    """Show the passages that rank highest."""
    from briefcontext.commands.report import print_passages
    from briefcontext.graphs import resources

    if not query.strip():
        raise InputError("The query is empty. Give the words to look for.")
    settings = shared.settings_of(context, knowledge_base=folder, retrieval=method)
    filters = settings.filters
    found = resources.retriever(settings).invoke(query, k=k, filters=filters)
    if as_json:
        print_json([{"id": d.id, "text": d.page_content, **d.metadata} for d in found])
        return
    if not found:
        filtered = f"No passage fulfils the filters ({filters}). Widen them, or leave them out."
        other = f"No passage was found. Try other words, or --method dense; kb info {folder} tells what it holds."
        typer.echo(filtered if filters else printable_line(other))
    print_passages(found)


@kb.command()
def sources(folder: Folder) -> None:
    """Show documents, tokens and lengths by source, as the paper's tables of its corpus do."""
    from briefcontext.evaluation.experiments.corpus import corpus_tables
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(folder) as base:
        for table in corpus_tables(base):
            typer.echo(printable(table.markdown()) + "\n")


@kb.command()
def verify(folder: Folder) -> None:
    """Check that passages, vectors and terms fit together."""
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(folder) as base:
        problems = base.verify()
    if problems:
        raise KnowledgeBaseError(" ".join(problems))
    typer.echo(f"{printable_line(folder)} is sound.")


def print_json(value: Any) -> None:
    """Print a value as JSON, and nothing else, on standard output."""
    Console(highlight=False, soft_wrap=True, markup=False, emoji=False).print(
        json.dumps(value, ensure_ascii=False, default=str)
    )


def _print_fields(fields: Mapping[str, Any], indent: int) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for name, value in fields.items():
        if isinstance(value, Mapping):
            console.print(f"{' ' * indent}{escape(name)}:")
            _print_fields(value, indent + 2)
        elif value not in ("", None):
            console.print(f"{' ' * indent}{escape(printable_line(f'{name}: {value}'))}")
