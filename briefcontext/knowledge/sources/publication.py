"""Records of publications: identifiers, addresses, years and marks of retraction."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard
from urllib.parse import quote

from langchain_core.documents import Document

from briefcontext.knowledge.sources.source import Reject

NO_TITLE = "[Not Available]."
RETRACTED_TYPE = "Retracted Publication"
CORRECTED_TYPE = "Corrected and Republished Article"
RETRACTION_NOTICE_TYPES = {"Retraction Notice", "Retraction of Publication"}
"""As MEDLINE writes it now, and as it did before."""
CORRECTIONS = ("ErratumIn", "CorrectedandRepublishedIn")
CONCERNS = ("ExpressionOfConcernIn", "PartialRetractionIn")
RETRACTIONS = ("RetractionIn", "RetractedandRepublishedIn")
RELATIONS = {
    "updated_by": "UpdateIn",
    "update_of": "UpdateOf",
    "retraction_of": "RetractionOf",
    "concern_for": "ExpressionOfConcernFor",
}
"""References to other records, by their name in metadata."""
LANGUAGES = {
    **{"ar": "ara", "cs": "cze", "da": "dan", "de": "ger", "el": "gre", "en": "eng", "es": "spa"},
    **{"fa": "per", "fi": "fin", "fr": "fre", "he": "heb", "hu": "hun", "it": "ita", "ja": "jpn"},
    **{"ko": "kor", "nl": "dut", "no": "nor", "pl": "pol", "pt": "por", "ru": "rus", "sv": "swe"},
    **{"tr": "tur", "uk": "ukr", "zh": "chi"},
}
"""PubMed's codes of languages by those of ISO 639-1."""
MOST_AUTHORS = 50
MOST_OUTER = 500

_RETRACTED_TITLE = re.compile(
    r"\W*(?:retracted|retraction|withdrawn)(?:\s+article)?(?:\W*:|\s*\]|\s+[-–—]\s)"
    r"|.*[(\[]\s*retracted(?:\s+article)?\s*[)\]]\W*\Z",
    re.IGNORECASE | re.DOTALL,
)
_LISTS = frozenset({"authors", "languages", "mesh", "publication_types"})
OFFSETS = frozenset({"start", "end", "chunk_index"})
_BECAME = ("retracted", "corrected", "expression_of_concern")
_NOT_SO = frozenset({"", "0", "0.0", "false", "f", "no", "n", "nan", "<na>", "none", "null"})
_DOI = re.compile(r"(?i)(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(?P<name>10\.\d{4,9}/\S+)")
_PMID = re.compile(r"[1-9][0-9]*")
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")


def under(outer: str, heading: str) -> str:
    """Return a heading below its outer ones, as in `Contraindications › Adults`."""
    shown = outer if len(outer) <= MOST_OUTER else f"{outer[: MOST_OUTER - 1]}…"
    return " › ".join(filter(None, (shown, heading)))


def record(
    id: str,
    text: str,
    *,
    title: str,
    kind: str,
    metadata: Mapping[str, Any],
    optional: Mapping[str, Any],
) -> Document:
    """Return a document that is all of its source.

    `optional` metadata that is empty or false is left out. A title that marks a retraction counts,
    except that of a notice, which often is the title of the retracted article.
    """
    place = {
        "source_id": id,
        "title": title,
        "kind": kind,
        "chunk_index": 0,
        "start": 0,
        "end": len(text),
    }
    known = place | dict(metadata) | {name: value for name, value in optional.items() if value}
    if has_retracted_title(title) and not known.get("retraction_notice"):
        known["retracted"] = True
    return Document(id=id, page_content=text, metadata=known)


def citation(
    id: str,
    position: str,
    *,
    title: str,
    abstract: str,
    metadata: Mapping[str, Any],
    optional: Mapping[str, Any],
) -> Document | Reject:
    """Return the record of an article; its text is the abstract, else the title."""
    kind, text = ("abstract", abstract) if abstract else ("title", title)
    if not text:
        return Reject(position, "It has neither a title nor an abstract.")
    return record(id, text, title=title, kind=kind, metadata=metadata, optional=optional)


def pubmed_marks(types: Sequence[str], notes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the metadata that follow from the types of a record in PubMed and its notes.

    `notes` are the PMIDs, or else the sources, of related records, by `RefType`.
    """
    marks = {
        "corrected": CORRECTED_TYPE in types or any(map(notes.get, CORRECTIONS)),
        "expression_of_concern": any(map(notes.get, CONCERNS)),
        **{name: "; ".join(filter(None, notes.get(key, ()))) for name, key in RELATIONS.items()},
    }
    return {
        "publication_types": "; ".join(types),
        "retracted": RETRACTED_TYPE in types or any(map(notes.get, RETRACTIONS)),
        "retraction_notice": not RETRACTION_NOTICE_TYPES.isdisjoint(types),
        **{name: value for name, value in marks.items() if value},
    }


def is_pmid(text: str) -> bool:
    """Return whether a text is a number without leading zeros."""
    return _PMID.fullmatch(text) is not None


def is_offset(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number from 0."""
    return type(value) is int and value >= 0


def has_retracted_title(title: str) -> bool:
    """Return whether a title is like `RETRACTED: Bees` or `Bees (Retracted)`."""
    return _RETRACTED_TITLE.match(title) is not None


def normalised(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a document from any source as all passages have them.

    Lists of names are joined by semicolons. None is left out, and so are offsets that are not
    numbers, as loaders of recordings have seconds. `retracted`, `corrected` and
    `expression_of_concern` are truth values, and an unknown value is true. The types or the title
    of an article can also mark it as retracted.
    """
    known = {
        name: _joined(value) if name in _LISTS and isinstance(value, str | list | tuple) else value
        for name, value in metadata.items()
        if value is not None and (name not in OFFSETS or is_offset(value))
    }
    for name in _BECAME:
        if name in known:
            known[name] = str(known[name]).strip().lower() not in _NOT_SO
    titled = has_retracted_title(str(known.get("title"))) and not known.get("retraction_notice")
    typed = RETRACTED_TYPE in str(metadata.get("publication_types"))
    return {**known, "retracted": True} if titled or typed else known


def _joined(names: str | Iterable[object]) -> str:
    parts = names.split(";") if isinstance(names, str) else names
    return "; ".join(filter(None, (part.strip() for part in parts if isinstance(part, str))))


def pubmed_url(pmid: str) -> str:
    """Return the address of an article in PubMed."""
    return f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/"


def article_url(metadata: Mapping[str, Any]) -> str:
    """Return the `url` of a document, else that of its PMID, DOI or `source`, else ""."""
    names = ("pmid", "doi", "url", "source")
    pmid, doi, url, source = (str(metadata.get(name) or "").strip() for name in names)
    if url or is_pmid(pmid):
        return url or pubmed_url(pmid)
    if match := _DOI.fullmatch(doi):
        return f"https://doi.org/{quote(match['name'])}"
    return source if source.startswith(("https://", "http://")) else ""


def language(code: str) -> str:
    """Return PubMed's code of a language: `eng` for `en` and `en-US`; others stay as they are."""
    return LANGUAGES.get(re.split("[-_]", code.strip().casefold())[0], code.strip())


def publication_type(name: str) -> str:
    """Return a publication type in PubMed's spelling: `randomized` for `randomised`."""
    return re.sub("(?i)(randomi)s", r"\1z", name.strip())


def author_list(names: Iterable[str]) -> str:
    """Return authors as metadata have them: `Smith, JA; Doe, B`."""
    written = (" ".join(name.replace(";", " ").split()).strip(" ,") for name in names)
    listed = list(filter(None, written))
    return "; ".join(listed[:MOST_AUTHORS] + ["et al."] * (len(listed) > MOST_AUTHORS))


def year_in(text: str) -> int | None:
    """Return the first number of four digits: 1998 in `1998 Dec-1999 Jan`."""
    match = _YEAR.search(text)
    return int(match.group()) if match else None


def article_number(item: str) -> str:
    """Return the publisher's item identifier if it is an article number, as 2400815."""
    return "" if "(" in item else item
