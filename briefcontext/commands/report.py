"""Printing an answer in the terminal."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
from langchain_core.documents import Document
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from briefcontext.chains.answer import NO_ANSWER, Answer, Conflict
from briefcontext.chains.citation import Citation
from briefcontext.chains.notes import Level, note_lines, with_signs
from briefcontext.chains.passage_reader import PASSAGES
from briefcontext.chains.place import find_place
from briefcontext.chains.reader import Extraction
from briefcontext.chains.references import Reference, counted_references, described, place_words
from briefcontext.commands.terminal import counted, printable, printable_line
from briefcontext.knowledge.encoders.encoder import title_of
from briefcontext.knowledge.study_type import source_notes

UNWRAPPED = 1_000_000
"""Characters; no line is as long."""
_BEGINNING = 60
"""Characters of a passage that tell it from others of its article."""


def print_answer(state: Mapping[str, Any], *, verbose: bool) -> None:
    """Print the answer, its sources, its route, what each partition gave, and what it used.

    Into a pipe or a file no line is wrapped or padded, unless COLUMNS is exported.
    """
    _print(_answer(state["answer"], state["ranking"], verbose=verbose))


def print_passages(documents: Sequence[Document]) -> None:
    """Print passages with their texts, best first, as `print_answer` prints those that were read."""
    _print(_documents(documents, texts=True))


def _print(parts: Iterable[RenderableType]) -> None:
    console = Console(highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        console.print(Group(*parts))
        return
    if "COLUMNS" not in os.environ:
        console.width = UNWRAPPED
    with console.capture() as captured:
        console.print(Group(*parts))
    typer.echo("\n".join(line.rstrip() for line in captured.get().split("\n")), nl=False)


def _answer(
    answer: Answer, documents: Sequence[Document], *, verbose: bool
) -> Iterator[RenderableType]:
    yield ""
    signs: dict[Level, str] = {"danger": "!!", "caution": "!"}
    checks = [
        _item(sign, line)
        for level, sign in signs.items()
        for line in note_lines(answer["notes"], answer["text"], level)
    ]
    if checks:
        yield Text("Check", "bold")
        yield from checks
        yield ""
    if letter := answer["choice"]:
        yield Text(printable_line(f"{letter}. {answer['options'].get(letter, '')}"), "bold")
    if answer["abstained"]:
        yield Text(NO_ANSWER, "bold")
    yield printable(with_signs(answer["text"], answer["notes"]))
    references, summary = (
        answer["references"],
        answer["evidence"]["summary"] if answer["citations"] else "",
    )
    copied = answer["written_by"] == PASSAGES
    listed = documents if verbose or (answer["abstained"] and not copied) else []
    filters = "" if answer["abstained"] else answer["provenance"]["searched"].get("filters", "")
    sections: dict[str, list[RenderableType]] = {
        "Only these were searched": [printable_line(filters)] if filters else [],
        f"Sources: {counted_references(references)}": [
            part
            for reference in references
            for part in _reference(reference, answer["citations"], quoted=verbose or not copied)
        ],
        "Summary of evidence": [printable_line(summary)] if summary else [],
        "Conflict": list(_conflict(answer["conflict"])) if answer["conflict"] else [],
        "Route": list(_route(answer, documents)),
        "Partitions": [
            part for each in answer["extractions"] for part in _extraction(each, verbose=verbose)
        ],
        "Documents" if verbose else "Documents (to read their texts, add --verbose)": list(
            _documents(listed, texts=verbose)
        ),
        "Used": [_usage(answer)],
        "Notes": [_item("-", line) for line in note_lines(answer["notes"], answer["text"], "info")],
    }
    for heading, parts in sections.items():
        if parts:
            yield Text(f"\n{heading}", "bold")
            yield from parts
    yield Text("\nNot medical advice: check every statement against its source.", "dim")


def _item(mark: str, text: str) -> Table:
    """Lay a text out in one paragraph, indented throughout, so that no part of it passes for a heading or an item."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_row(mark, printable_line(text))
    return grid


def _indented(text: str, spaces: int = 4) -> Padding:
    return Padding(printable(text), (0, 0, 0, spaces), expand=False)


def _reference(
    reference: Reference, citations: Sequence[Citation], *, quoted: bool
) -> Iterator[RenderableType]:
    """An article once, with the quotes from each passage of it that is cited, or only their places."""
    passages = [citation for citation in citations if citation["key"] in reference["keys"]]
    yield _item(f"[{reference['number']}]", described(reference, passages))
    for citation in passages:
        key = f"[{citation['key']}] " if len(passages) > 1 else ""
        for quote in citation["quotes"]:
            told = [
                place_words(quote),
                "" if quote["match"] in ("exact", "title") else quote["match"],
            ]
            where = ", ".join(filter(None, told))
            if quoted:
                yield _indented(f"{key}“{quote['text']}”{f' ({where})' if where else ''}")
            elif where:
                yield _indented(f"{key}{where}")
        if not citation["quotes"]:
            yield _indented(f"{key}(cited without a quote)")
    if reference["url"]:
        yield _indented(printable_line(reference["url"]))


def _conflict(conflict: Conflict) -> Iterator[str]:
    if conflict["statement"]:
        yield printable(conflict["statement"])
    for letter, partitions in conflict["choices"].items():
        places = ", ".join(str(index + 1) for index in partitions)
        yield f"{printable_line(letter)}: partition{'s' if len(partitions) > 1 else ''} {places}"
    if conflict["settled"]:
        yield f"The answer settles on {printable_line(conflict['settled'])}."


def _route(answer: Answer, documents: Sequence[Document]) -> Iterator[RenderableType]:
    preflight = answer["preflight"]
    yield f"{answer['route']}: {printable_line(preflight['reason'])}"
    if preflight["iou"] is not None:
        grid = Table.grid(padding=(0, 2))
        names = _passage_names(documents)
        for ranking, top in (("dense", preflight["dense_top"]), ("BM25", preflight["bm25_top"])):
            for rank, id in enumerate(top, start=1):
                grid.add_row(
                    f"  {ranking}" if rank == 1 else "",
                    f"{rank}  {printable_line(names.get(id, id))}",
                )
        grid.add_row(
            "  IoU", f"{preflight['iou']:.2f} (agreement is above {preflight['threshold']:.2f})"
        )
        if preflight.get("method") == "calibrated":
            shown = f"{preflight['probability']:.3f} (the map from {preflight['probability_threshold']:.3f})"
            grid.add_row("  misplaced", shown)
            for name, added in (preflight["contributions"] or {}).items():
                grid.add_row(f"    {added:+.2f}", printable_line(name))
        yield grid


def _passage_names(documents: Sequence[Document]) -> dict[str, str]:
    """Name passages by their titles, and those of one title by section and beginning, too."""
    names = {str(each.id): title_of(each) or str(each.id) for each in documents}
    titles = Counter(names.values())
    for each in documents:
        if titles[title := names[str(each.id)]] > 1:
            section = find_place(each).section
            begins = each.page_content.lstrip("# \n").removeprefix(section).strip()[:_BEGINNING]
            place = [section] if section.startswith(title) else [title, section]
            names[str(each.id)] = ", ".join(filter(None, (*place, f"“{begins.rstrip()}…”")))
    return names


def _extraction(extraction: Extraction, *, verbose: bool) -> Iterator[RenderableType]:
    told = {"evidence": "evidence", "none": "nothing on the question", "failed": "NOT READ"}
    parts = [told[extraction["status"]]]
    if extraction["quotes"]:
        parts.append(counted(len(extraction["quotes"]), "quote"))
    if extraction["choice"]:
        parts.append(f"choice {extraction['choice']}")
    if extraction["confidence"] is not None:
        parts.append(f"confidence {extraction['confidence']:.2f}")
    yield f"{extraction['index'] + 1}  {printable_line(', '.join(parts))}"
    if extraction["finding"]:
        yield _indented(extraction["finding"], 3)
    for quote in extraction["quotes"] if verbose else []:
        yield _indented(f"{quote['document_id']}: “{quote['text']}”", 3)


def _documents(documents: Sequence[Document], *, texts: bool) -> Iterator[RenderableType]:
    for place, document in enumerate(documents, start=1):
        known = document.metadata
        score = f"  {known['score']:.3f}" if known.get("score") is not None else ""
        title = title_of(document) or str(document.id)
        yield _item(f"{place:>3}{score} ", title)
        page = known.get("page") and f"page {known['page']}"
        section, year, url = (known.get(name) for name in ("section", "year", "url"))
        told = (document.id, *source_notes(document), section, page, year, url)
        yield _indented(
            printable_line(" · ".join(str(part) for part in told if part and part != title)), 5
        )
        if texts:
            yield _indented(printable_line(document.page_content), 5)


def _usage(answer: Answer) -> str:
    usage = answer["usage"]
    if not usage["calls"]:
        return f"no model calls, {usage['seconds']:.1f} s"
    again = (
        f" ({usage['retries']} {'retry' if usage['retries'] == 1 else 'retries'})"
        if usage["retries"]
        else ""
    )
    tokens = f"{usage['input_tokens']:,} tokens in, {usage['output_tokens']:,} out"
    tokens = tokens if usage["input_tokens"] else "tokens not reported"
    text = f"{counted(usage['calls'], 'call')}{again}, {tokens}, {usage['seconds']:.1f} s"
    if usage["vanilla_input_tokens"] and answer["route"] == "map_reduce":
        text += (
            f"; one call over all documents would have read about {usage['vanilla_input_tokens']:,}"
        )
        if usage["vanilla_output_tokens"]:
            text += f" and written {usage['vanilla_output_tokens']:,}"
    return text
