"""`briefcontext kb`: inspect a knowledge base, and remove documents."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from briefcontext.commands import options as shared
from briefcontext.commands.terminal import print_json, printable_line, say, say_line
from briefcontext.errors import InputError, KnowledgeBaseError, counted

LISTED_SOURCES = 5

Folder = Annotated[str, typer.Argument(metavar="DIR", help="Folder of the knowledge base.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]

kb = typer.Typer(
    invoke_without_command=True, help="Look into a knowledge base, and take documents out."
)


@kb.callback()
def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@kb.command()
def info(folder: Folder, as_json: AsJSON = False) -> None:
    """Show the contents of a knowledge base and how it was made."""
    from briefcontext.knowledge.knowledge_base import knowledge_base_info

    known = knowledge_base_info(folder)
    if as_json:
        print_json(known)
        return
    sources = known.pop("sources")
    _print_fields(known, 0)
    say_line(f"log: {counted(len(sources), 'source')} read")
    for source in sources[-LISTED_SOURCES:]:
        unfinished = "" if source["finished"] else ", not read to its end"
        outcomes = [
            f"{count:,} {name.replace('_', ' ')}"
            for name, count in source["counts"].items()
            if count and name != "read"
        ]
        say_line(f"{source['name']}: {', '.join(outcomes) or 'no record'}{unfinished}", 2)
    for note in sorted({source["note"] for source in sources if source["note"]}):
        say_line(note, 2)
    if len(sources) > LISTED_SOURCES:
        say_line(
            f"(the last {LISTED_SOURCES}; kb list shows the documents, and --json all sources)", 2
        )
    if known["state"] == "half-built":
        say_line("Its first build was stopped: run the same index command again to finish it.")


@kb.command("list")
def list_documents(folder: Folder, as_json: AsJSON = False) -> None:
    """List the documents by id."""
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(folder) as base:
        result = base.documents()
    if as_json:
        print_json(result)
        return
    for document in result:
        passages = counted(document["passages"], "passage")
        about = ", ".join(
            str(part) for part in (document["kind"], document["year"], passages) if part
        )
        shown = printable_line(f"{document['source_id']} {document['title'] or ''}")
        say(f"{shown}  ({about})")


@kb.command()
def remove(
    folder: Folder,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="As kb list shows them.")],
) -> None:
    """Remove documents. Indexing the file of one again adds it again."""
    from briefcontext.knowledge.build import remove_records

    report = remove_records(folder, ids)
    say_line(
        f"{report.counts.deleted:,} removed; {folder} holds {counted(report.passages, 'passage')}."
    )


@kb.command()
@shared.takes("years", "publication_types", "journals", "mesh", "languages")
def search(
    folder: Folder,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="The words or the question to search for.")
    ],
    k: Annotated[int, typer.Option("--top-k", min=1, help="How many passages.")] = 10,
    method: Annotated[
        Literal["dense", "bm25", "hybrid"], typer.Option(help="How to rank.")
    ] = "dense",
    as_json: AsJSON = False,
    **given: Any,
) -> None:
    """Show the best passages for a query."""
    from briefcontext.chains.plain_text import describe_passage
    from briefcontext.commands.report import print_passages
    from briefcontext.graphs.resources import RESOURCES

    if not query.strip():
        raise InputError("The query is empty. Give the words to look for.")
    settings = shared.settings_of(**given, knowledge_base=folder, retrieval=method)
    filters = settings.filters
    documents = RESOURCES.retriever(settings).invoke(query, k=k, filters=filters)
    if as_json:
        print_json([describe_passage(document) for document in documents])
        return
    if not documents:
        other = "No passage was found. Try other words, or --method dense."
        say_line(filters.without_passage() if filters else other)
    print_passages(documents)


@kb.command()
def sources(folder: Folder) -> None:
    """Show documents, tokens and lengths by source, as in the paper's tables of its corpus."""
    from briefcontext.evaluation.experiments.corpus import corpus_tables
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(folder) as base:
        for table in corpus_tables(base):
            say(f"{table.markdown()}\n")


@kb.command()
def verify(folder: Folder) -> None:
    """Check that passages, vectors and terms are consistent."""
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    with KnowledgeBase.open(folder) as base:
        problems = base.verify()
    if problems:
        raise KnowledgeBaseError(" ".join(problems))
    say_line(f"{folder} is sound.")


def _print_fields(fields: Mapping[str, Any], indent: int) -> None:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            say_line(f"{name}:", indent)
            _print_fields(value, indent + 2)
        elif value not in ("", None):
            say_line(f"{name}: {value}", indent)
