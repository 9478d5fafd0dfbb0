"""`briefcontext kb`: looking into a knowledge base."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from briefcontext.commands.printable import printable_line
from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.filters import Filters
from briefcontext.retrievers.search_method import SearchMethod, retriever_over

__all__ = ["info", "search", "verify"]


def info(path: str, *, as_json: bool) -> None:
    """Print what a knowledge base holds and how it was made."""
    with KnowledgeBase.open(path) as base:
        known = base.info()
    if as_json:
        print_json(known)
    else:
        _print_fields(known, 0)


def search(path: str, query: str, *, k: int, method: SearchMethod, filters: Filters, as_json: bool) -> None:
    """Print the passages that a retriever ranks highest."""
    with KnowledgeBase.open(path) as base:
        found = retriever_over(base, method).invoke(query, k=k, filters=filters)
    if as_json:
        print_json([{"id": d.id, "text": d.page_content, **d.metadata} for d in found])
        return
    console = Console(highlight=False, soft_wrap=True)
    if not found and filters:
        console.print(escape(f"No passage fulfils the filters ({filters})."))
    for document in found:
        title = document.metadata.get("title") or ""
        retracted = " RETRACTED" if document.metadata.get("retracted") else ""
        score = document.metadata["score"]
        shown = printable_line(f"{document.id}  {title}{retracted}")
        console.print(f"{document.metadata['rank']:>3}  {score:.3f}  {escape(shown)}")


def verify(path: str) -> None:
    """Check a knowledge base against itself.

    Raises:
        KnowledgeBaseError: something is wrong with it.
    """
    with KnowledgeBase.open(path) as base:
        problems = base.verify()
    if problems:
        raise KnowledgeBaseError(" ".join(problems))
    Console(highlight=False).print(f"{escape(path)} is sound.")


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
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            console.print(f"{' ' * indent}{escape(name)}: {len(value)}")
            for item in value:
                _print_fields(item, indent + 2)
        elif value != "":
            console.print(f"{' ' * indent}{escape(printable_line(f'{name}: {value}'))}")
