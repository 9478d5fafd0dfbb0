"""Records of publications, and bibliographic facts: identifiers, addresses, years and retraction marks."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard
from urllib.parse import quote

from langchain_core.documents import Document

from briefcontext.knowledge.sources.source import Reject

NO_TITLE = "[Not Available]."
"""What PubMed writes where an article has no English title."""
RETRACTED_TYPE = "Retracted Publication"
"""The publication type that MEDLINE gives a retracted article."""
CORRECTED_TYPE = "Corrected and Republished Article"
RETRACTION_NOTICE_TYPES = {"Retraction Notice", "Retraction of Publication"}
"""As MEDLINE writes it now, and as it did before."""
MARKS = {
    "corrected": ("ErratumIn", "CorrectedandRepublishedIn"),
    "expression_of_concern": ("ExpressionOfConcernIn", "PartialRetractionIn"),
}
RETRACTIONS = ("RetractionIn", "RetractedandRepublishedIn")
RELATIONS = {
    "updated_by": "UpdateIn",
    "update_of": "UpdateOf",
    "retraction_of": "RetractionOf",
    "concern_for": "ExpressionOfConcernFor",
}
"""References to other records, by their name in metadata."""
LANGUAGES = {
    **{
        "en": "eng",
        "zh": "chi",
        "es": "spa",
        "fr": "fre",
        "de": "ger",
        "ja": "jpn",
        "ru": "rus",
        "pt": "por",
    },
    **{
        "it": "ita",
        "pl": "pol",
        "ko": "kor",
        "nl": "dut",
        "tr": "tur",
        "sv": "swe",
        "da": "dan",
        "no": "nor",
    },
    **{
        "fi": "fin",
        "cs": "cze",
        "hu": "hun",
        "uk": "ukr",
        "ar": "ara",
        "fa": "per",
        "he": "heb",
        "el": "gre",
    },
}
"""PubMed's codes of languages, which are MARC's, by those of ISO 639-1 that articles in JATS have."""
MOST_AUTHORS = 50
"""Of an article; those after them are "et al."."""
MOST_OUTER = 500
"""Characters of a section's outer headings."""

_RETRACTED_TITLE = re.compile(
    r"\W*(?:retracted|retraction|withdrawn)(?:\s+article)?(?:\W*:|\s*\]|\s+[-–—]\s)"
    r"|.*[(\[]\s*retracted(?:\s+article)?\s*[)\]]\W*\Z",
    re.IGNORECASE | re.DOTALL,
)
_LISTS = frozenset({"authors", "languages", "mesh", "publication_types"})
_OFFSETS = frozenset({"start", "end", "chunk_index"})
_BECAME = ("retracted", "corrected", "expression_of_concern")
_NOT_SO = frozenset({"", "0", "0.0", "false", "f", "no", "n", "nan", "<na>", "none", "null"})
_DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(?P<name>10\.\d{4,9}/\S+)", re.IGNORECASE)
_PMID = re.compile(r"[1-9][0-9]*")
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")


def under(outer: str, heading: str) -> str:
    """A section's heading below its outer ones, as in `Contraindications › Adults`; these are cut where they are long.

    Not ">", which stands before numbers.
    """
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
    known = {**place, **metadata, **{name: value for name, value in optional.items() if value}}
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

    Args:
        types: the publication types.
        notes: the PMIDs, or else the sources, of related records, by `RefType`.
    """
    marks = {name: any(map(notes.get, kinds)) for name, kinds in MARKS.items()}
    marks["corrected"] = marks["corrected"] or CORRECTED_TYPE in types
    related = {name: "; ".join(filter(None, notes.get(kind, ()))) for name, kind in RELATIONS.items()}
    return {
        "publication_types": "; ".join(types),
        "retracted": RETRACTED_TYPE in types or any(map(notes.get, RETRACTIONS)),
        "retraction_notice": not RETRACTION_NOTICE_TYPES.isdisjoint(types),
        **{name: value for name, value in (marks | related).items() if value},
    }


def is_pmid(text: str) -> bool:
    """Return whether it has the form of a PubMed id: a number without leading zeros."""
    return _PMID.fullmatch(text) is not None


def is_offset(value: object) -> TypeGuard[int]:
    """Return whether a value of metadata is a whole number from 0, and no truth value."""
    return type(value) is int and value >= 0


def has_retracted_title(title: str) -> bool:
    """Return whether a title marks a retraction, as in `RETRACTED: Bees`, `[Retracted] Bees` and `Bees (Retracted)`."""
    return _RETRACTED_TITLE.match(title) is not None


def normalised(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a document, wherever it comes from, as all passages have them.

    Lists of names, also those in a string, are joined by semicolons, and what is None is left out, as is a `start`,
    `end` or `chunk_index` that is no offset: loaders of recordings mean seconds by them. `retracted`, `corrected` and
    `expression_of_concern` are truth values: "False", "no" or NaN, as tables have it, is false, and what is not
    understood is true. An article is retracted also where its types say so, or its title, unless it is the notice of a
    retraction.
    """
    known = {
        name: _joined(value) if name in _LISTS and isinstance(value, str | list | tuple) else value
        for name, value in metadata.items()
        if value is not None and (name not in _OFFSETS or is_offset(value))
    }
    known |= {name: str(known[name]).strip().lower() not in _NOT_SO for name in _BECAME if name in known}
    titled = has_retracted_title(str(known.get("title"))) and not known.get("retraction_notice")
    typed = RETRACTED_TYPE in str(metadata.get("publication_types"))
    return {**known, "retracted": True} if titled or typed else known


def _joined(names: str | Iterable[object]) -> str:
    parts = names.split(";") if isinstance(names, str) else names
    return "; ".join(filter(None, (part.strip() for part in parts if isinstance(part, str))))


def pubmed_url(pmid: str) -> str:
    """The article's page in PubMed."""
    return f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/"


def article_url(metadata: Mapping[str, Any]) -> str:
    """The address of a document's article: its `url`, its PMID's or DOI's page, or a `source` that is an address."""
    pmid, doi = (str(metadata.get(name) or "").strip() for name in ("pmid", "doi"))
    if url := str(metadata.get("url") or ""):
        return url
    if is_pmid(pmid):
        return pubmed_url(pmid)
    if found := _DOI.fullmatch(doi):
        return f"https://doi.org/{quote(found['name'])}"
    source = str(metadata.get("source") or "")
    return source if source.startswith(("https://", "http://")) else ""


def language(code: str) -> str:
    """A language as PubMed writes it: `eng` for `en` and `en-US`; a code that is not known stays as it is."""
    return LANGUAGES.get(re.split("[-_]", code.strip().casefold())[0], code.strip())


def publication_type(name: str) -> str:
    """A publication type in American spelling, as PubMed writes it: `randomized trial` for `randomised trial`."""
    return re.sub("(?i)(randomi)s", r"\1z", name.strip())


def author_list(names: Iterable[str]) -> str:
    """Authors as metadata has them: `Smith, JA; Doe, B`; a group by its name alone."""
    written = [" ".join(name.replace(";", " ").split()).strip(" ,") for name in names]
    listed = list(filter(None, written))
    return "; ".join([*listed[:MOST_AUTHORS], *(["et al."] if len(listed) > MOST_AUTHORS else [])])


def year_in(text: str) -> int | None:
    """The first number of four digits: 1998 in `1998 Dec-1999 Jan`."""
    match = _YEAR.search(text)
    return int(match.group()) if match else None


def article_number(item: str) -> str:
    """Return the publisher's item identifier if it is an article number, as in `64(3):2400815`."""
    return "" if "(" in item else item
