"""PubMed and MEDLINE XML: one document per citation, with its abstract as text.

Element names are those of the NLM's DTDs (pubmed_YYMMDD.dtd, nlmmedlinecitationset_YYMMDD.dtd and, for
chapters of Bookshelf books, bookdoc_YYMMDD.dtd).
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from io import BufferedIOBase

from langchain_core.documents import Document
from lxml import etree

from briefcontext.knowledge.sources.publication import (
    NO_TITLE,
    RETRACTED_TYPE,
    article_number,
    author_list,
    is_pmid,
    pubmed_url,
    record,
    year_in,
)
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, rejecting
from briefcontext.knowledge.sources.xml_stream import (
    first_text,
    flatten,
    stream_elements,
    texts,
    unresolved_entity,
    write_out_formulas,
)

SETS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedBookArticleSet", "BookDocumentSet")
CITATIONS = ("MedlineCitation", "BookDocument")
DELETIONS = ("DeleteCitation", "DeleteDocument")
RECORDS = ("PubmedArticle", "PubmedBookArticle", *CITATIONS, *DELETIONS)

ENGLISH = "eng"
CORRECTED_TYPE = "Corrected and Republished Article"
RETRACTION_NOTICE_TYPES = {"Retraction Notice", "Retraction of Publication"}
"""As MEDLINE writes it now, and as it did before."""
CORRECTIONS = ("ErratumIn", "CorrectedandRepublishedIn")
RETRACTIONS = ("RetractionIn", "RetractedandRepublishedIn")
CONCERNS = ("ExpressionOfConcernIn", "PartialRetractionIn")
RELATIONS = {
    "updated_by": "UpdateIn",
    "update_of": "UpdateOf",
    "retraction_of": "RetractionOf",
    "concern_for": "ExpressionOfConcernFor",
}
"""References to other records, by the name that they have in metadata."""
_ARTICLE_IDS = "PubmedData/ArticleIdList/ArticleId"
DATE_PATHS = (
    "Journal/JournalIssue/PubDate/Year",
    "Journal/JournalIssue/PubDate/MedlineDate",
    "ArticleDate/Year",
    "ContributionDate/Year",
    "Book/PubDate/Year",
    "Book/PubDate/MedlineDate",
)

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@rejecting
def read_pubmed_xml(stream: BufferedIOBase) -> Iterator[Entry]:
    """The citations, deletions and rejects of an uncompressed PubMed XML stream, in its order.

    A citation's document has its PMID as id and its abstract as text: its sections joined by a blank, each after its
    `LABEL: `. Without an Abstract, the first OtherAbstract in English takes its place, and `other_abstract_type` names
    who wrote it; without that too, the title is the text and `kind` says `title`. An ArticleTitle that is empty or
    "[Not Available]." gives way to the VernacularTitle. `retracted`, `corrected` and `expression_of_concern` follow
    the publication types and the references to notices; `revised` is DateRevised as YYYY-MM-DD or "".

    Memory stays bounded by the largest record. Where the XML breaks, one Reject after the records before it tells the
    line.
    """
    revised = ""
    for number, element in enumerate(stream_elements(stream, RECORDS, within=SETS), start=1):
        if element.tag in DELETIONS:
            for pmid in map(flatten, element.iterchildren("PMID")):
                if is_pmid(pmid):
                    yield Deletion(pmid, revised)
                else:
                    yield Reject(f"record {number}", f"The PMID {pmid!r} of a deletion is not a number.")
            continue
        write_out_formulas(element)
        entry = _citation(element, f"record {number}")
        if isinstance(entry, Document):
            revised = max(revised, entry.metadata["revised"])
        yield entry


def _citation(element: etree._Element, position: str) -> Document | Reject:
    citation = element if element.tag in CITATIONS else next(element.iterchildren(*CITATIONS), None)
    if citation is None:
        return Reject(position, f"The {element.tag} holds no {' or '.join(CITATIONS)}.")
    if pmid := first_text(citation, "PMID"):
        position += f" (PMID {pmid})"
    if not is_pmid(pmid):
        return Reject(position, f"The PMID {pmid!r} is not a number.")
    if problem := unresolved_entity(citation):
        return Reject(position, problem)
    article = citation.find("Article")
    article = citation if article is None else article  # a BookDocument has no Article around its content
    vernacular = first_text(article, "VernacularTitle")
    title = first_text(article, "ArticleTitle", "Book/BookTitle")
    title = vernacular if title in ("", NO_TITLE) else title
    abstract, abstract_metadata = _abstract(citation, article)
    if not (text := abstract or title):
        return Reject(position, "It has neither a title nor an abstract.")
    types = texts(article, "PublicationTypeList/PublicationType") + texts(article, "PublicationType")
    notes = _notes(citation)
    version = next(citation.iterchildren("PMID")).get("Version", "")
    optional = {
        "authors": author_list(map(_author, article.iterfind("AuthorList/Author"))),
        "volume": first_text(article, "Journal/JournalIssue/Volume"),
        "issue": first_text(article, "Journal/JournalIssue/Issue"),
        "pages": _pages(article) or article_number(_location(article, "pii")),
        "doi": _doi(element, article),
        "pmcid": first_text(element, f"{_ARTICLE_IDS}[@IdType='pmc']"),
        "year": year_in(first_text(article, *DATE_PATHS)),
        "journal_abbreviation": first_text(citation, "MedlineJournalInfo/MedlineTA", "Article/Journal/ISOAbbreviation"),
        "mesh": "; ".join(texts(citation, "MeshHeadingList/MeshHeading/DescriptorName")),
        "corrected": CORRECTED_TYPE in types or any(map(notes.get, CORRECTIONS)),
        "expression_of_concern": any(map(notes.get, CONCERNS)),
        **{name: "; ".join(filter(None, notes.get(kind, ()))) for name, kind in RELATIONS.items()},
        "vernacular_title": vernacular,
    }
    metadata = {
        "publication_types": "; ".join(types),
        "languages": "; ".join(texts(article, "Language")),
        "retracted": RETRACTED_TYPE in types or any(map(notes.get, RETRACTIONS)),
        "retraction_notice": not RETRACTION_NOTICE_TYPES.isdisjoint(types),
        "url": pubmed_url(pmid),
        "journal": first_text(article, "Journal/Title", "Journal/ISOAbbreviation", "Book/BookTitle"),
        "revised": _revised(citation),
        "version": int(version) if version.isdecimal() else 1,
        **abstract_metadata,
    }
    kind = "abstract" if abstract else "title"
    return record(pmid, text, title=title, kind=kind, metadata=metadata, optional=optional)


def _author(author: etree._Element) -> str:
    if author.get("ValidYN") == "N":
        return ""
    family, given = first_text(author, "LastName"), first_text(author, "Initials", "ForeName")
    name = f"{family}, {given} {first_text(author, 'Suffix')}".rstrip()
    return name if family else first_text(author, "CollectiveName")


def _doi(element: etree._Element, article: etree._Element) -> str:
    invalid = map(flatten, article.iterfind("ELocationID[@EIdType='doi'][@ValidYN='N']"))
    listed = first_text(element, f"{_ARTICLE_IDS}[@IdType='doi']")
    return _location(article, "doi") or ("" if listed in invalid else listed)


def _location(article: etree._Element, kind: str) -> str:
    """Return the first electronic location of a kind that is not marked as invalid."""
    locations = article.iterfind(f"ELocationID[@EIdType='{kind}']")
    return next((flatten(each) for each in locations if each.get("ValidYN") != "N"), "")


def _pages(article: etree._Element) -> str:
    ends = (first_text(article, f"Pagination/{name}") for name in ("StartPage", "EndPage"))
    return first_text(article, "Pagination/MedlinePgn") or "-".join(filter(None, ends))


def _abstract(citation: etree._Element, article: etree._Element) -> tuple[str, dict[str, str]]:
    """The abstract, "" if there is none, and what the metadata says of it."""
    metadata = {}
    # The DTD's default for the language, which is not loaded, is English.
    others = [(other.get("Language", ENGLISH), other) for other in citation.iterfind("OtherAbstract")]
    if others:
        metadata["other_abstract_languages"] = "; ".join(language for language, _ in others)
    sections = _sections(article.find("Abstract"))
    english = (other for language, other in others if language == ENGLISH and _sections(other))
    if not sections and (other := next(english, None)) is not None:
        sections = _sections(other)
        metadata["other_abstract_type"] = other.get("Type", "")
    if labels := [label for label, _ in sections if label]:
        metadata["labels"] = "; ".join(labels)
    return " ".join(f"{label}: {text}" if label else text for label, text in sections), metadata


def _sections(abstract: etree._Element | None) -> list[tuple[str, str]]:
    """Labels and texts. A section without text says nothing, and is left out with its label."""
    parts = [] if abstract is None else abstract.findall("AbstractText")
    return [(part.get("Label", ""), text) for part in parts if (text := flatten(part))]


def _notes(citation: etree._Element) -> dict[str, list[str]]:
    """Return the PMIDs, or else the sources, of records that are related to this one, by kind."""
    notes = defaultdict[str, list[str]](list)
    for note in citation.iterfind("CommentsCorrectionsList/CommentsCorrections"):
        # Semicolons part the names of a list.
        named = first_text(note, "PMID", "RefSource").replace(";", ",")
        notes[note.get("RefType", "")].append(named)
    return notes


def _revised(citation: etree._Element) -> str:
    year, month, day = (first_text(citation, f"DateRevised/{part}") for part in ("Year", "Month", "Day"))
    date = f"{year}-{month:0>2}-{day:0>2}"
    return date if _ISO_DATE.fullmatch(date) else ""
