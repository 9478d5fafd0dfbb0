"""MEDLINE text, which PubMed saves as .txt and .nbib, and RIS of reference managers."""

from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from itertools import chain, takewhile
from typing import Any

from langchain_core.documents import Document

from briefcontext.knowledge.sources.publication import (
    NO_TITLE,
    RETRACTED_TYPE,
    article_number,
    article_url,
    author_list,
    citation,
    is_pmid,
    language,
    pubmed_marks,
    pubmed_url,
    year_in,
)
from briefcontext.knowledge.sources.source import Entry, Reject, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import decoded, read_whole

_VALUE = 6
_NOTES = {
    "CRI": "CorrectedandRepublishedIn",
    "ECF": "ExpressionOfConcernFor",
    "ECI": "ExpressionOfConcernIn",
    "EIN": "ErratumIn",
    "PRIN": "PartialRetractionIn",
    "RIN": "RetractionIn",
    "ROF": "RetractionOf",
    "RRI": "RetractedandRepublishedIn",
    "UIN": "UpdateIn",
    "UOF": "UpdateOf",
}
_Fields = Mapping[str, list[str]]


def is_medline(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is MEDLINE text."""
    return start.removeprefix(BOM_UTF8).lstrip().startswith(b"PMID- ")


@rejecting
def read_medline(stream: BufferedIOBase) -> Iterator[Entry]:
    """Read the records of MEDLINE text as `read_pubmed_xml` reads those of XML."""
    for number, fields in enumerate(_medline_records(decoded(read_whole(stream))), start=1):
        yield _medline_document(fields, f"record {number}")


def _medline_records(text: str) -> Iterator[_Fields]:
    fields, tag = defaultdict[str, list[str]](list), ""
    for line in filter(str.strip, text.replace("\r", "").split("\n")):
        if line[4:_VALUE] == "- " and not line.startswith(" "):
            tag, value = line[:4].strip(), line[_VALUE:].strip()
            if tag == "PMID" and fields:
                yield fields
                fields = defaultdict(list)
            if tag in ("AU", "CN"):  # PubMed lists authors and groups in one order.
                fields["authors"].append(_author(value) if tag == "AU" else value)
            fields[tag].append(value)
        elif tag:  # The value continues.
            fields[tag][-1] += f" {line.strip()}"
    if fields:
        yield fields


def _medline_document(fields: _Fields, position: str) -> Document | Reject:
    def first(*tags: str) -> str:
        values = (value for tag in tags for value in fields.get(tag, []))
        return next((value for value in values if value != NO_TITLE), "")

    pmid, revised = first("PMID"), first("LR")
    if not is_pmid(pmid):
        return Reject(position, f"The PMID {pmid!r} is not a number.")
    abstracts = ("AB", "OAB") if "eng" in fields.get("OABL", ["eng"]) else ("AB",)
    notes = {kind: list(map(_related, fields.get(tag, []))) for tag, kind in _NOTES.items()}
    optional = {
        "authors": author_list(fields.get("authors", [])),
        "volume": first("VI"),
        "issue": first("IP"),
        "pages": first("PG") or article_number(_identifier(fields, "pii")),
        "doi": _identifier(fields, "doi"),
        "pmcid": first("PMC"),
        "year": year_in(first("DP")),
        "journal_abbreviation": first("TA"),
        "mesh": "; ".join(dict.fromkeys(map(_heading, fields.get("MH", [])))),
    }
    metadata = {
        **pubmed_marks(fields.get("PT", []), notes),
        "languages": "; ".join(fields.get("LA", [])),
        "url": pubmed_url(pmid),
        "journal": first("JT", "TA"),
        "revised": f"{revised[:4]}-{revised[4:6]}-{revised[6:]}" if len(revised) == 8 else "",
        "version": 1,
    }
    return citation(
        pmid,
        f"{position} (PMID {pmid})",
        title=first("TI", "TT", "BTI"),
        abstract=first(*abstracts),
        metadata=metadata,
        optional=optional,
    )


def _identifier(fields: _Fields, kind: str) -> str:
    """Return the identifier of a kind: `10.1000/1` of `10.1000/1 [doi]`."""
    values = (value.partition(" [") for value in (*fields.get("LID", []), *fields.get("AID", [])))
    return next((value for value, _, of_kind in values if of_kind == f"{kind}]"), "")


def _heading(value: str) -> str:
    return value.partition("/")[0].lstrip("*")


def _related(value: str) -> str:
    source, _, pmid = value.partition("PMID: ")
    return pmid.strip() or source.strip().replace(";", ",")


def _author(name: str) -> str:
    """Return `Doe, JA Jr` for `Doe JA Jr`."""
    words = name.split()
    place = next((place for place in (-1, -2) if words[place:] and words[place].isupper()), None)
    is_person = place is not None and len(words) > -place and len(words[place]) < 5
    return f"{' '.join(words[:place])}, {' '.join(words[place:])}" if is_person else name


@rejecting
def read_ris(stream: BufferedIOBase) -> Iterator[Entry]:
    """Read the records of a RIS file. One without a PMID has its DOI, ID or title as id."""
    import rispy
    from rispy.parser import ParseError  # type: ignore[import-untyped]

    try:
        # A file that is cut off keeps its last record.
        text = f"{decoded(read_whole(stream))}\nER  - \n"
        entries: Sequence[Mapping[str, Any]] = rispy.loads(text)
    except ParseError as error:
        raise UnreadableError(f"It cannot be read as RIS: {error}.") from error
    for number, entry in enumerate(entries, start=1):
        yield _ris_document(entry, f"record {number}")


def _ris_document(entry: Mapping[str, Any], position: str) -> Document | Reject:
    def known(*names: str) -> str:
        values = (entry.get(name, "") for name in names)
        texts = (" ".join(each) if isinstance(each, list) else str(each) for each in values)
        return next(filter(None, (" ".join(text.split()) for text in texts)), "")

    title = known("title", "primary_title", "translated_title")
    doi, number, types = known("doi"), known("accession_number"), known("type_of_work")
    base = known("name_of_database").lower()
    of_pubmed = not base or "pubmed" in base or "medline" in base
    stated = next((text for text in (number, known("notes")) if "PMID" in text), "")
    digits = "".join(takewhile(str.isdecimal, stated.partition("PMID")[2].lstrip(": ")))
    pmid = next(filter(is_pmid, (digits, number if of_pubmed else "")), "")
    keywords = entry.get("keywords", [])
    optional = {
        "publication_types": types,
        "authors": author_list(chain(entry.get("authors", []), entry.get("first_authors", []))),
        "volume": known("volume"),
        "issue": known("number"),
        "pages": "-".join(filter(None, (known("start_page"), known("end_page")))),
        "doi": doi,
        "pmid": pmid,
        "year": year_in(known("year", "publication_year", "date")),
        "journal": known("secondary_title", "journal_name", "alternate_title1"),
        "journal_abbreviation": known("alternate_title3", "alternate_title2"),
        "languages": language(known("language")),
        "mesh": "; ".join(keywords),
        "retracted": RETRACTED_TYPE in (*keywords, types),
        "url": article_url({"pmid": pmid, "doi": doi}) or known("urls"),
    }
    return citation(
        pmid or doi or known("id") or title,
        position,
        title=title,
        abstract=known("abstract", "notes_abstract"),
        metadata={},
        optional=optional,
    )
