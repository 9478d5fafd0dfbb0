"""Answers and passages as plain text, for the terminal, agents and MCP clients."""

from collections.abc import Sequence

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.answer import NO_ANSWER, Answer
from briefcontext.chains.articles import source_id
from briefcontext.chains.citation import Citation, publication_year, web_link
from briefcontext.chains.notes import note_lines, with_signs
from briefcontext.chains.place import chunk_start, find_place
from briefcontext.chains.references import Reference, place_words
from briefcontext.errors import counted
from briefcontext.knowledge.demo import LABEL
from briefcontext.knowledge.study_type import source_notes

MAX_NOTES = 5
"""Limit of notes in one list, without dangers."""


class Passage(TypedDict):
    """A passage of the knowledge base."""

    id: str
    """The id of the passage."""
    key: str
    """The citation key that the model sees; empty outside of a run."""
    source_id: str
    """A PMID if there is one."""
    title: str
    authors: str
    section: str
    """The heading above the text, with its outer headings."""
    paragraph: int | None
    """The number of the paragraph in its section, from 1."""
    page: int | None
    text: str
    chunk_index: int
    start: int
    """Offset of the first character in the source."""
    end: int
    year: int | None
    publication_types: str
    retracted: bool
    notes: list[str]
    """Remarks on the source, such as RETRACTED, its study type and the species."""
    url: str | None
    rank: int | None
    """The rank, from 1; None if the passage was not searched for."""
    score: float | None


def describe_passage(document: Document) -> Passage:
    """Return a document's text with the facts that identify it."""
    metadata, place, start = document.metadata, find_place(document), chunk_start(document)
    return Passage(
        id=str(document.id),
        key=str(metadata.get("key") or ""),
        source_id=source_id(document),
        title=str(metadata.get("title") or ""),
        authors=str(metadata.get("authors") or ""),
        section=place.section,
        paragraph=place.paragraph,
        page=place.page,
        text=document.page_content,
        chunk_index=int(metadata.get("chunk_index") or 0),
        start=start,
        end=int(metadata.get("end") or start + len(document.page_content)),
        year=publication_year(document),
        publication_types=str(metadata.get("publication_types") or ""),
        retracted=bool(metadata.get("retracted", False)),
        notes=source_notes(document),
        url=web_link(document),
        rank=metadata.get("rank"),
        score=metadata.get("score"),
    )


def passage_text(passage: Passage) -> str:
    """Return a passage as a line on its source, and its text."""
    title = passage["title"] or passage["id"]
    section = "" if passage["section"] == title else passage["section"]
    facts = [title, section, passage["source_id"]]
    facts += [*passage["notes"], str(passage["year"] or ""), passage["url"] or ""]
    rank = f"{passage['rank']}. " if passage["rank"] else ""
    return f"{rank}{_joined(facts)}\n{passage['text']}"


def answer_text(answer: Answer, *, max_notes: int | None = None) -> str:
    """Return an answer with its notes, dangers first, and a line for each source.

    `max_notes` limits each list of notes, except dangers.
    """
    text, notes = answer["text"], answer["notes"]
    demonstration = [each["message"] for each in notes if each["kind"] == "demonstration"]
    dangers = [f"Danger: {line}" for line in note_lines(notes, text, "danger")]
    checks = [*dangers, *note_lines(notes, text, "caution")]
    parts = [_listed("Check:", checks, None if max_notes is None else len(dangers) + max_notes)]
    if letter := answer["choice"]:
        parts.append(one_line(f"Choice: {letter}. {answer['options'].get(letter, '')}"))
    if answer["abstained"]:
        parts.append(f"NO ANSWER: {NO_ANSWER}")
    parts.append(with_signs(text, notes))
    sources = [
        f"[{']['.join(each['keys'])}] {describe_source(each, answer['citations'])}"
        for each in answer["references"]
    ]
    parts.append("\n".join(["Sources:", *sources]) if sources else "")
    if sources and answer["evidence"]["summary"]:
        parts.append(f"Evidence: {answer['evidence']['summary']}")
    parts.append(_conflict(answer))
    others = [each for each in notes if each["kind"] != "demonstration"]
    parts.append(_listed("Notes:", note_lines(others, text, "info"), max_notes))
    filters = answer["provenance"]["searched"].get("filters")
    if filters and not answer["abstained"]:
        parts.append(f"Filters: {filters}")
    return "\n".join([*demonstration, "\n\n".join(filter(None, parts))])


def describe_source(reference: Reference, citations: Sequence[Citation]) -> str:
    """Return a cited article in one line: title, study type, journal, year, PMID and link."""
    first = next(each for each in citations if each["key"] in reference["keys"])
    notes = [each for each in first["notes"] if each != LABEL]
    published = f"{reference['journal']} {reference['year'] or ''}"
    name = f"PMID {reference['pmid']}" if reference["pmid"] else reference["source_id"]
    return _joined([reference["title"], *notes, published, name, reference["url"] or ""])


def quotes_text(answer: Answer) -> str:
    """Return the quotes of each citation with their places, a line each."""
    lines = []
    for citation in answer["citations"]:
        for quote in citation["quotes"]:
            match = "" if quote["match"] in ("exact", "title") else quote["match"]
            place = ", ".join(filter(None, [place_words(quote), match]))
            words = one_line(f"“{quote['text']}”")
            lines.append(f"[{citation['key']}] {words}{f' ({place})' if place else ''}")
        if not citation["quotes"]:
            lines.append(f"[{citation['key']}] (cited without a quote)")
    return "\n".join(["Quotes:", *lines]) if lines else ""


def usage_line(answer: Answer) -> str:
    """Return the documents, the route, the calls, the tokens and the time in one line."""
    usage, documents = answer["usage"], counted(len(answer["documents"]), "document")
    parts = [f"{documents} read", answer["route"].replace("_", "-")]
    parts += [counted(usage["calls"], "call") if usage["calls"] else "no model calls"]
    tokens = usage["input_tokens"] + usage["output_tokens"]
    if usage["calls"]:
        parts.append(f"{tokens:,} tokens" if usage["input_tokens"] else "tokens not reported")
    return ", ".join([*parts, f"{usage['seconds']:.1f} s"])


def one_line(text: str) -> str:
    """Return a text on one line, so that no part of it looks like another item."""
    return " ".join(text.split())


def _joined(facts: Sequence[str]) -> str:
    return " · ".join(one_line(fact) for fact in facts if fact.strip())


def _listed(heading: str, lines: Sequence[str], limit: int | None) -> str:
    if not lines:
        return ""
    shown = [f"- {one_line(line)}" for line in lines[:limit]]
    if limit is not None and len(lines) > limit:
        shown.append(f"- more notes: {len(lines) - limit}")
    return "\n".join([heading, *shown])


def _conflict(answer: Answer) -> str:
    conflict = answer["conflict"]
    if conflict is None:
        return ""
    chosen = [
        f"{counted(len(partitions), 'partition')} chose {letter}"
        for letter, partitions in conflict["choices"].items()
    ]
    words = f"{', '.join(chosen)}." if chosen else ""
    if settled := conflict["settled"]:
        words += f" The answer settles on {settled}."
    return one_line(f"The evidence contradicts itself: {conflict['statement'] or ''} {words}")
