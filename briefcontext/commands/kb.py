"""`briefcontext kb`: looking into a knowledge base, and taking documents out of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from briefcontext.commands.printable import counted, printable, printable_line
from briefcontext.errors import InputError, KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase, knowledge_base_info
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.knowledge_base import SearchMethod, retriever_over

__all__ = ["info", "list_documents", "remove", "search", "sources", "verify"]

LISTED_SOURCES = 5


def info(path: str, *, as_json: bool) -> None:
    """Print what a knowledge base holds and how it was made."""
    known = knowledge_base_info(path)
    if as_json:
        print_json(known)
        return
    sources = known.pop("sources")
    _print_fields(known, 0)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"sources: {len(sources):,}")
    for source in sources[-LISTED_SOURCES:]:
        unfinished = "" if source["finished"] else ", not read to its end"
        console.print(f"  {escape(printable_line(source['name']))}: {source['counts']['read']:,} records{unfinished}")
    for note in sorted({source["note"] for source in sources if source["note"]}):
        console.print(f"  {escape(printable_line(note))}")
    if len(sources) > LISTED_SOURCES:
        console.print(f"  (the last {LISTED_SOURCES}; kb list shows the documents, and --json all sources)")
    if known["state"] == "half-built":
        console.print("Its first build was stopped: run the same index command again to finish it.")


def list_documents(path: str, *, as_json: bool) -> None:
    """Print the documents of a knowledge base, by their ids."""
    with KnowledgeBase.open(path) as base:
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


def remove(path: str, source_ids: Sequence[str]) -> None:
    """Take documents out of a knowledge base, by their ids.

    Raises:
        KnowledgeBaseError: one of them is not held.
    """
    from briefcontext.knowledge.build.build import remove_records

    report = remove_records(path, source_ids)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{report.counts.deleted:,} removed; {escape(path)} holds {counted(report.passages, 'passage')}.")


def search(path: str, query: str, *, k: int, method: SearchMethod, filters: Filters, as_json: bool) -> None:
    """Print the passages that a retriever ranks highest."""
    if not query.strip():
        raise InputError("The query is empty. Give the words to look for.")
    with KnowledgeBase.open(path) as base:
        found = retriever_over(base, method).invoke(query, k=k, filters=filters)
    if as_json:
        print_json([{"id": d.id, "text": d.page_content, **d.metadata} for d in found])
        return
    console = Console(highlight=False, soft_wrap=True)
    if not found and filters:
        console.print(escape(f"No passage fulfils the filters ({filters})."))
    for document in found:
        metadata = document.metadata
        retracted = " RETRACTED" if metadata.get("retracted") else ""
        head = printable_line(f"{metadata.get('title') or document.id}{retracted}")
        section, page = metadata.get("section"), metadata.get("page")
        told = (document.id, section, page and f"page {page}", metadata.get("year"), metadata.get("url"))
        about = printable_line(" · ".join(str(part) for part in told if part))
        console.print(f"{metadata['rank']:>3}  {metadata['score']:.3f}  {escape(head)}")
        console.print(f"     {escape(about)}\n     {escape(printable_line(document.page_content))}")


def sources(path: str) -> None:
    """Print how many documents and tokens a knowledge base holds by source, and how long they are."""
    from briefcontext.evaluation.experiments.corpus import corpus_tables, open_knowledge_base

    with open_knowledge_base(path) as base:
        for table in corpus_tables(base):
            typer.echo(printable(table.markdown()) + "\n")


def verify(path: str) -> None:
    """Check a knowledge base against itself.

    Raises:
        KnowledgeBaseError: something is wrong with it.
    """
    with KnowledgeBase.open(path) as base:
        problems = base.verify()
    if problems:
        raise KnowledgeBaseError(" ".join(problems))
    typer.echo(f"{printable_line(path)} is sound.")


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
