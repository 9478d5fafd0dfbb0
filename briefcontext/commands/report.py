"""Printing an answer in the terminal."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer
from langchain_core.documents import Document

from briefcontext.chains.answer import Answer
from briefcontext.chains.passage_reader import PASSAGES
from briefcontext.chains.plain_text import (
    answer_text,
    describe_passage,
    one_line,
    passage_text,
    quotes_text,
    usage_line,
)
from briefcontext.chains.reader import Extraction
from briefcontext.commands.terminal import printable, printable_line
from briefcontext.errors import counted
from briefcontext.knowledge.encoders.encoder import title_of

_NEAREST = 3
"""Titles that an abstention names."""
_STATUS = {"evidence": "evidence", "none": "nothing on the question", "failed": "NOT READ"}


def print_answer(state: Mapping[str, Any], *, verbose: bool = False, quotes: bool = False) -> None:
    """Print the answer, its notes and sources, and a line on its cost.

    Lines are wrapped for a terminal, and in a pipe or file only if COLUMNS is exported.

    Args:
        state: `answer` and `ranking` of the graph.
        verbose: Also print the quotes, the rankings, the partitions and the documents.
        quotes: Also print the quotes.
    """
    answer, documents = state["answer"], state["ranking"]
    parts = [answer_text(answer)]
    if answer["abstained"] and answer["written_by"] != PASSAGES:
        titles = dict.fromkeys(filter(None, map(title_of, documents)))
        parts += [f"The nearest titles: {'; '.join(list(titles)[:_NEAREST])}."] if titles else []
    if quotes or verbose:
        parts.append(quotes_text(answer))
    if verbose:
        parts += [_route(answer, documents), *_partitions(answer["extractions"])]
        parts += ["Documents:", *_passages(documents), *_single_call(answer)]
    advice = "Not medical advice: check every statement against its source."
    parts.append(f"{usage_line(answer)}\n{advice}")
    _print(parts)


def print_passages(documents: Sequence[Document]) -> None:
    """Print passages with their texts, best first."""
    _print(list(_passages(documents)))


def _print(parts: Sequence[str]) -> None:
    text = printable("\n\n".join(filter(None, parts)))
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        width = shutil.get_terminal_size().columns
        text = "\n".join(_wrapped(line, width) for line in text.split("\n"))
    typer.echo(text)


def _wrapped(line: str, width: int) -> str:
    # Indented, so that no part of an item looks like another item.
    hanging = "" if line[:1].isalpha() else "  "
    return textwrap.fill(
        line,
        width,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _route(answer: Answer, documents: Sequence[Document]) -> str:
    preflight = answer["preflight"]
    titles = {str(each.id): title_of(each) for each in documents}
    lines = [f"Route: {answer['route']}: {preflight['reason']}."]
    for name, ids in (("dense", preflight["dense_top"]), ("BM25", preflight["bm25_top"])):
        lines += [
            one_line(f"- {name} {rank}: {id} {titles.get(id, '')}")
            for rank, id in enumerate(ids, start=1)
        ]
    for signal, log_odds in (preflight.get("contributions") or {}).items():
        lines.append(f"- {log_odds:+.2f} {signal}")
    return "\n".join(lines)


def _partitions(extractions: Sequence[Extraction]) -> Iterator[str]:
    lines = []
    for extraction in extractions:
        facts = [_STATUS[extraction["status"]]]
        if extraction["quotes"]:
            facts.append(counted(len(extraction["quotes"]), "quote"))
        if extraction["choice"]:
            facts.append(f"choice {extraction['choice']}")
        if extraction["confidence"] is not None:
            facts.append(f"confidence {extraction['confidence']:.2f}")
        facts.append(extraction["finding"] or extraction["error"] or "")
        lines.append(f"- {extraction['index'] + 1}: {one_line(', '.join(filter(None, facts)))}")
    if lines:
        yield "\n".join(["Partitions:", *lines])


def _passages(documents: Sequence[Document]) -> Iterator[str]:
    for document in documents:
        passage = describe_passage(document)
        score = "" if passage["score"] is None else f" (score {passage['score']:.3f})"
        heading, _, text = passage_text(passage).partition("\n")
        yield f"- {heading}{score}\n  {printable_line(text)}"


def _single_call(answer: Answer) -> Iterator[str]:
    usage = answer["usage"]
    if usage["vanilla_input_tokens"] and answer["route"] == "map_reduce":
        yield (
            f"One call over all documents would read about {usage['vanilla_input_tokens']:,} "
            f"tokens and write about {usage['vanilla_output_tokens'] or 0:,}."
        )
