"""Printing an answer in the terminal."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import typer
from langchain_core.documents import Document
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from briefcontext.chains.answer import NO_ANSWER, Answer, Conflict
from briefcontext.chains.citation import Citation
from briefcontext.chains.reader import Extraction
from briefcontext.chains.references import Reference, counted_references, described, place_words
from briefcontext.chains.study_type import source_notes
from briefcontext.chains.support import marked
from briefcontext.commands.printable import counted, printable, printable_line

__all__ = ["print_answer", "print_passages"]

UNWRAPPED = 1_000_000
"""Characters; no line is as long."""


def print_answer(state: Mapping[str, Any], *, verbose: bool) -> None:
    """Print the answer, its sources, its route, what each partition gave, and what it used.

    Into a pipe or a file no line is wrapped or padded, unless COLUMNS is exported.
    """
    _print(partial(_print_answer, state=state, verbose=verbose))


def print_passages(documents: Sequence[Document]) -> None:
    """Print passages with their texts, best first, as `print_answer` prints those that were read."""
    _print(partial(_print_documents, documents=documents, texts=True))


def _print(printing: Callable[[Console], None]) -> None:
    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        printing(console)
        return
    if "COLUMNS" not in os.environ:
        console.width = UNWRAPPED
    with console.capture() as captured:
        printing(console)
    typer.echo("\n".join(line.rstrip() for line in captured.get().split("\n")), nl=False)


def _print_answer(console: Console, state: Mapping[str, Any], *, verbose: bool) -> None:
    answer: Answer = state["answer"]
    documents: list[Document] = state["ranking"]
    console.print()
    if answer["cautions"]:
        console.print("[bold]Caution[/bold]")
        for caution in answer["cautions"]:
            _print_item(console, "!", caution)
        console.print()
    if answer["choice"]:
        letter = answer["choice"]
        console.print(f"[bold]{_line(letter + '. ' + answer['options'].get(letter, ''))}[/bold]")
    if answer["abstained"]:
        console.print(f"[bold]{NO_ANSWER}[/bold]")
    console.print(_words(marked(answer["text"], answer["doubts"])))
    if answer["citations"]:
        _heading(console, f"Sources: {counted_references(answer['references'])}")
        for reference in answer["references"]:
            _print_reference(console, reference, answer["citations"])
        if answer["evidence"]["summary"]:
            _heading(console, "Summary of evidence")
            console.print(_line(answer["evidence"]["summary"]))
    if answer["conflict"]:
        _heading(console, "Conflict")
        _print_conflict(console, answer["conflict"])
    _heading(console, "Route")
    _print_route(console, answer)
    if answer["extractions"]:
        _heading(console, "Partitions")
        for extraction in answer["extractions"]:
            _print_extraction(console, extraction, verbose=verbose)
    if verbose or (answer["abstained"] and documents):
        _heading(console, "Documents" if verbose else "Documents (to read their texts, add --verbose)")
        _print_documents(console, documents, texts=verbose)
    _heading(console, "Used")
    console.print(_usage(answer))
    if answer["warnings"]:
        _heading(console, "Take note")
        for warning in answer["warnings"]:
            _print_item(console, "-", warning)
    console.print("\n[dim]Not medical advice: check every statement against its source.[/dim]")


def _heading(console: Console, text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def _print_item(console: Console, mark: str, text: str) -> None:
    """Print a text in one paragraph, indented throughout, so that no part of it passes for a heading or an item."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_row(escape(mark), _line(text))
    console.print(grid)


def _print_indented(console: Console, text: str, spaces: int = 4) -> None:
    console.print(Padding(_words(text), (0, 0, 0, spaces), expand=False))


def _print_reference(console: Console, reference: Reference, citations: Sequence[Citation]) -> None:
    """Print an article once, with the quotes from each passage of it that is cited."""
    passages = [citation for citation in citations if citation["key"] in reference["keys"]]
    _print_item(console, f"[{reference['number']}]", described(reference, passages))
    for citation in passages:
        key = f"[{citation['key']}] " if len(passages) > 1 else ""
        for quote in citation["quotes"]:
            told = [place_words(quote), "" if quote["match"] in ("exact", "title") else quote["match"]]
            where = ", ".join(filter(None, told))
            text = f"{key}“{quote['text']}”{f' ({where})' if where else ''}"
            _print_indented(console, text)
        if not citation["quotes"]:
            _print_indented(console, f"{key}(cited without a quote)")
    if reference["url"]:
        _print_indented(console, printable_line(reference["url"]))


def _print_conflict(console: Console, conflict: Conflict) -> None:
    if conflict["statement"]:
        console.print(_words(conflict["statement"]))
    for letter, partitions in conflict["choices"].items():
        places = ", ".join(str(index + 1) for index in partitions)
        console.print(f"{_line(letter)}: partition{'s' if len(partitions) > 1 else ''} {places}")
    if conflict["settled"]:
        console.print(f"The answer settles on {_line(conflict['settled'])}.")


def _print_route(console: Console, answer: Answer) -> None:
    preflight = answer["preflight"]
    console.print(f"{answer['route']}: {_line(preflight['reason'])}")
    if preflight["iou"] is not None:
        grid = Table.grid(padding=(0, 2))
        grid.add_row("  retrieved", _line(", ".join(preflight["dense_top"])))
        grid.add_row("  BM25", _line(", ".join(preflight["bm25_top"])))
        grid.add_row("  IoU", f"{preflight['iou']:.2f} (agreement is above {preflight['threshold']:.2f})")
        if preflight.get("method") == "calibrated":
            shown = f"{preflight['probability']:.3f} (the map from {preflight['probability_threshold']:.3f})"
            grid.add_row("  misplaced", shown)
            for name, added in (preflight["contributions"] or {}).items():
                grid.add_row(f"    {added:+.2f}", _line(name))
        console.print(grid)


def _print_extraction(console: Console, extraction: Extraction, *, verbose: bool) -> None:
    told = {"evidence": "evidence", "none": "nothing on the question", "failed": "NOT READ"}
    parts = [told[extraction["status"]]]
    if extraction["quotes"]:
        parts.append(counted(len(extraction["quotes"]), "quote"))
    if extraction["choice"]:
        parts.append(f"choice {extraction['choice']}")
    if extraction["confidence"] is not None:
        parts.append(f"confidence {extraction['confidence']:.2f}")
    console.print(f"{extraction['index'] + 1}  {_line(', '.join(parts))}")
    if extraction["finding"]:
        _print_indented(console, extraction["finding"], 3)
    if verbose:
        for quote in extraction["quotes"]:
            _print_indented(console, f"{quote['document_id']}: “{quote['text']}”", 3)


def _print_documents(console: Console, documents: Sequence[Document], *, texts: bool) -> None:
    for place, document in enumerate(documents, start=1):
        known = document.metadata
        score = f"  {known['score']:.3f}" if known.get("score") is not None else ""
        title = str(known.get("title") or document.id)
        _print_item(console, f"{place:>3}{score} ", title)
        page = known.get("page") and f"page {known['page']}"
        section, year, url = (known.get(name) for name in ("section", "year", "url"))
        told = (document.id, *source_notes(document), section, page, year, url)
        about = " · ".join(str(part) for part in told if part and part != title)
        _print_indented(console, printable_line(about), 5)
        if texts:
            _print_indented(console, printable_line(document.page_content), 5)


def _usage(answer: Answer) -> str:
    usage = answer["usage"]
    if not usage["calls"]:
        return f"no model calls, {usage['seconds']:.1f} s"
    again = f" ({usage['retries']} {'retry' if usage['retries'] == 1 else 'retries'})" if usage["retries"] else ""
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    text = f"{counted(usage['calls'], 'call')}{again}, {tokens}, {usage['seconds']:.1f} s"
    if usage["vanilla_input_tokens"] and answer["route"] == "map_reduce":
        text += f"; one call over all documents would have read about {usage['vanilla_input_tokens']:,}"
        if usage["vanilla_output_tokens"]:
            text += f" and written {usage['vanilla_output_tokens']:,}"
    return text


def _words(text: str) -> str:
    """Return a text that rich prints as it is, whatever it holds."""
    return escape(printable(text))


def _line(text: str) -> str:
    """Do as `_words` does, without line breaks."""
    return escape(printable_line(text))
