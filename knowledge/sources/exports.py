"""MEDLINE text, which PubMed saves as .txt and .nbib, and RIS, which reference managers export."""

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
    has_retracted_title,
    is_pmid,
    language,
    record,
    year_in,
)
from briefcontext.knowledge.sources.pubmed_xml import (
    CORRECTED_TYPE,
    ENGLISH,
    RETRACTION_NOTICE_TYPES,
)
from briefcontext.knowledge.sources.source import Entry, Reject, UnreadableError, rejecting
from briefcontext.knowledge.sources.texts import decoded, read_whole

_VALUE = 6
"""Where the value of a line of MEDLINE text begins, after its tag."""
_RELATIONS = {"updated_by": "UIN", "update_of": "UOF", "retraction_of": "ROF", "concern_for": "ECF"}
_Fields = Mapping[str, list[str]]


def is_medline(start: bytes) -> bool:
    """Return True if a file that begins with these bytes is MEDLINE text."""
    return start.removeprefix(BOM_UTF8).lstrip().startswith(b"PMID- ")


@rejecting
def read_medline(stream: BufferedIOBase) -> Iterator[Entry]:
    """Read the records of MEDLINE text as `read_pubmed_xml` reads those of XML."""
    for number, fields in enumerate(_medline_records(decoded(read_whole(stream))), start=1):
        pmid = _first(fields, "PMID")
        if is_pmid(pmid):
            yield _medline_document(pmid, fields) or Reject(
                f"record {number} (PMID {pmid})", "It has neither a title nor an abstract."
            )
        else:
            yield Reject(f"record {number}", f"The PMID {pmid!r} is not a number.")


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


def _medline_document(pmid: str, fields: _Fields) -> Document | None:
    title = next((each for each in fields.get("TI", []) if each != NO_TITLE), "")
    title = title or _first(fields, "TT") or _first(fields, "BTI")
    is_english = ENGLISH in fields.get("OABL", [ENGLISH])
    abstract = _first(fields, "AB") or (_first(fields, "OAB") if is_english else "")
    types = fields.get("PT", [])
    revised = _first(fields, "LR")
    optional = {
        "authors": author_list(fields.get("authors", [])),
        "volume": _first(fields, "VI"),
        "issue": _first(fields, "IP"),
        "pages": _first(fields, "PG") or article_number(_identifier(fields, "pii")),
        "doi": _identifier(fields, "doi"),
        "pmcid": _first(fields, "PMC"),
        "year": year_in(_first(fields, "DP")),
        "journal_abbreviation": _first(fields, "TA"),
        "mesh": "; ".join(dict.fromkeys(map(_heading, fields.get("MH", [])))),
        "corrected": CORRECTED_TYPE in types or any(fields.get(tag) for tag in ("EIN", "CRI")),
        "expression_of_concern": any(fields.get(tag) for tag in ("ECI", "PRIN")),
        **{name: "; ".join(map(_related, fields.get(tag, []))) for name, tag in _RELATIONS.items()},
    }
    metadata = {
        "publication_types": "; ".join(types),
        "languages": "; ".join(fields.get("LA", [])),
        "retracted": RETRACTED_TYPE in types or any(fields.get(tag) for tag in ("RIN", "RRI")),
        "retraction_notice": not RETRACTION_NOTICE_TYPES.isdisjoint(types),
        "url": article_url({"pmid": pmid}),
        "journal": _first(fields, "JT") or _first(fields, "TA"),
        "revised": f"{revised[:4]}-{revised[4:6]}-{revised[6:]}" if len(revised) == 8 else "",
        "version": 1,
    }
    kind = "abstract" if abstract else "title"
    text = abstract or title
    if not text:
        return None
    return record(pmid, text, title=title, kind=kind, metadata=metadata, optional=optional)


def _first(fields: _Fields, tag: str) -> str:
    return next(iter(fields.get(tag, [])), "")


def _identifier(fields: _Fields, kind: str) -> str:
    """Return the identifier of a kind: `10.1000/1` of `10.1000/1 [doi]`."""
    values = (value.partition(" [") for value in (*fields.get("LID", []), *fields.get("AID", [])))
    return next((value for value, _, of_kind in values if of_kind == f"{kind}]"), "")


def _heading(value: str) -> str:
    """Return a MeSH heading without its qualifiers and the star of a major one."""
    return value.partition("/")[0].lstrip("*")


def _related(value: str) -> str:
    """Return the PMID of a related record, or else its source."""
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
        document = _ris_document(entry)
        yield document or Reject(f"record {number}", "It has neither a title nor an abstract.")


def _ris_document(entry: Mapping[str, Any]) -> Document | None:
    def known(*names: str) -> str:
        values = (entry.get(name, "") for name in names)
        texts = (" ".join(each) if isinstance(each, list) else str(each) for each in values)
        return next(filter(None, (" ".join(text.split()) for text in texts)), "")

    title = known("title", "primary_title", "translated_title")
    abstract = known("abstract", "notes_abstract")
    notes, types = known("notes"), known("type_of_work")
    doi, number, base = known("doi"), known("accession_number"), known("name_of_database")
    of_pubmed = not base or any(name in base.lower() for name in ("pubmed", "medline"))
    stated = next((text for text in (number, notes) if "PMID" in text), "").partition("PMID")[2]
    pmid = "".join(takewhile(str.isdecimal, stated.lstrip(": ")))
    pmid = next(filter(is_pmid, (pmid, number if of_pubmed else "")), "")
    text = abstract or title
    if not text:
        return None
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
        "retracted": has_retracted_title(title) or RETRACTED_TYPE in (*keywords, types),
        "url": article_url({"pmid": pmid, "doi": doi}) or known("urls"),
    }
    id = pmid or doi or known("id") or title
    kind = "abstract" if abstract else "title"
    return record(id, text, title=title, kind=kind, metadata={}, optional=optional)
