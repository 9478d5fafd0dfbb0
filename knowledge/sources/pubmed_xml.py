"""PubMed and MEDLINE XML: one document per citation, with its abstract as text.

Element names are those of the NLM's DTDs (pubmed_YYMMDD.dtd, nlmmedlinecitationset_YYMMDD.dtd and, for
chapters of Bookshelf books, bookdoc_YYMMDD.dtd).
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from langchain_core.documents import Document
from lxml import etree

from briefcontext.knowledge.sources.publication import (
    NO_TITLE,
    RETRACTED_TYPE,
    author_list,
    is_pmid,
    pubmed_url,
    year_in,
)
from briefcontext.knowledge.sources.records import Deletion, Entry, Reject
from briefcontext.knowledge.sources.xml_stream import flatten, stream_elements, unresolved_entity

SETS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedBookArticleSet", "BookDocumentSet")
CITATIONS = ("MedlineCitation", "BookDocument")
DELETIONS = ("DeleteCitation", "DeleteDocument")
RECORDS = ("PubmedArticle", "PubmedBookArticle", *CITATIONS, *DELETIONS)

ENGLISH = "eng"
CORRECTED_TYPE = "Corrected and Republished Article"
RETRACTION_NOTICE_TYPE = "Retraction of Publication"
DATE_PATHS = (
    "Journal/JournalIssue/PubDate/Year",
    "Journal/JournalIssue/PubDate/MedlineDate",
    "ArticleDate/Year",
    "ContributionDate/Year",
    "Book/PubDate/Year",
    "Book/PubDate/MedlineDate",
)

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_pubmed_xml(stream: BinaryIO) -> Iterator[Entry]:
    """The citations, deletions and rejects of an uncompressed PubMed XML stream, in its order.

    A citation's document has its PMID as id and its abstract as text: the Abstract's AbstractText sections
    joined by a blank, each after its `LABEL: `. Without an Abstract, the first OtherAbstract in English with
    text takes its place, and `other_abstract_type` names who wrote it; without that too, the title is the
    text and `kind` says `title`. An ArticleTitle that is empty or "[Not Available]." gives way to the
    VernacularTitle. `retracted` follows the publication type or a RetractionIn reference, `corrected` and
    `expression_of_concern` stand there where an ErratumIn or ExpressionOfConcernIn reference does, `revised` is
    DateRevised as YYYY-MM-DD or "". `authors`, `volume`, `issue`, `pages` and `doi` are as far as the record has them.

    Memory stays bounded by the largest record. Where the XML breaks, all records complete before the break
    have been yielded, and one Reject tells the line.
    """
    number, revised = 0, ""
    for item in stream_elements(stream, RECORDS, within=SETS):
        if isinstance(item, Reject):
            yield item
            continue
        number += 1
        if item.tag in DELETIONS:
            yield from _deletions(item, number, revised)
        else:
            entry = _citation(item, number)
            if isinstance(entry, Document):
                revised = max(revised, entry.metadata["revised"])
            yield entry


def _deletions(element: etree._Element, number: int, revised: str) -> Iterator[Entry]:
    for pmid in map(flatten, element.iterchildren("PMID")):
        if is_pmid(pmid):
            yield Deletion(pmid, revised)
        else:
            yield Reject(f"record {number}", f"The PMID {pmid!r} of a deletion is not a number.")


def _citation(record: etree._Element, number: int) -> Entry:
    citation = record if record.tag in CITATIONS else next(record.iterchildren(*CITATIONS), None)
    pmid = flatten(citation.find("PMID")) if citation is not None else ""
    position = f"record {number} (PMID {pmid})" if pmid else f"record {number}"
    if citation is None:
        return Reject(position, f"The {record.tag} holds no {' or '.join(CITATIONS)}.")
    if not is_pmid(pmid):
        return Reject(position, f"The PMID {pmid!r} is not a number.")
    if entity := unresolved_entity(citation):
        return Reject(position, f"It uses the entity {entity}, and entities are not resolved.")
    return _document(citation, pmid) or Reject(position, "It has neither a title nor an abstract.")


def _document(citation: etree._Element, pmid: str) -> Document | None:
    article = citation.find("Article")
    article = citation if article is None else article  # a BookDocument has no Article around its content
    vernacular = flatten(article.find("VernacularTitle"))
    title = _title(article) or vernacular
    abstract, abstract_metadata = _abstract(citation, article)
    text = abstract or title
    if not text:
        return None
    types = _texts(article, "PublicationTypeList/PublicationType", "PublicationType")
    metadata: dict[str, str | int | bool] = {
        "source_id": pmid,
        "title": title,
        "kind": "abstract" if abstract else "title",
        "publication_types": "; ".join(types),
        "languages": "; ".join(_texts(article, "Language")),
        "retracted": RETRACTED_TYPE in types or _is_noted(citation, "RetractionIn"),
        "retraction_notice": RETRACTION_NOTICE_TYPE in types,
        "url": pubmed_url(pmid),
        "journal": _first(article, "Journal/Title", "Journal/ISOAbbreviation", "Book/BookTitle"),
        "revised": _revised(citation),
        "version": _version(citation),
        "chunk_index": 0,
        "start": 0,
        "end": len(text),
        **abstract_metadata,
    }
    metadata |= {name: value for name, value in _imprint(citation, article).items() if value}
    if year := year_in(_first(article, *DATE_PATHS)):
        metadata["year"] = year
    if abbreviation := _first(citation, "MedlineJournalInfo/MedlineTA", "Article/Journal/ISOAbbreviation"):
        metadata["journal_abbreviation"] = abbreviation
    if mesh := _texts(citation, "MeshHeadingList/MeshHeading/DescriptorName"):
        metadata["mesh"] = "; ".join(mesh)
    if CORRECTED_TYPE in types or _is_noted(citation, "ErratumIn"):
        metadata["corrected"] = True
    if _is_noted(citation, "ExpressionOfConcernIn"):
        metadata["expression_of_concern"] = True
    if vernacular:
        metadata["vernacular_title"] = vernacular
    return Document(id=pmid, page_content=text, metadata=metadata)


def _imprint(citation: etree._Element, article: etree._Element) -> dict[str, str]:
    """Who wrote it and where it is printed, as a reference gives it."""
    record = citation.getparent()
    return {
        "authors": author_list(map(_author, article.iterfind("AuthorList/Author"))),
        "volume": _first(article, "Journal/JournalIssue/Volume"),
        "issue": _first(article, "Journal/JournalIssue/Issue"),
        "pages": _first(article, "Pagination/MedlinePgn"),
        "doi": _first(article, "ELocationID[@EIdType='doi']")
        or ("" if record is None else _first(record, "PubmedData/ArticleIdList/ArticleId[@IdType='doi']")),
    }


def _author(author: etree._Element) -> str:
    if author.get("ValidYN") == "N":
        return ""
    family, given = flatten(author.find("LastName")), _first(author, "Initials", "ForeName")
    return f"{family}, {given}" if family else flatten(author.find("CollectiveName"))


def _title(article: etree._Element) -> str:
    title = _first(article, "ArticleTitle", "Book/BookTitle")
    return "" if title == NO_TITLE else title


def _abstract(citation: etree._Element, article: etree._Element) -> tuple[str, dict[str, str]]:
    """The abstract, "" if there is none, and what the metadata says of it."""
    metadata = {}
    others = citation.findall("OtherAbstract")
    if others:
        metadata["other_abstract_languages"] = "; ".join(map(_language, others))
    text, labels = _sections(article.find("Abstract"))
    if not text:
        for other in others:
            if _language(other) == ENGLISH and (found := _sections(other))[0]:
                text, labels = found
                metadata["other_abstract_type"] = other.get("Type", "")
                break
    if labels:
        metadata["labels"] = "; ".join(labels)
    return text, metadata


def _language(other_abstract: etree._Element) -> str:
    return other_abstract.get("Language", ENGLISH)  # the DTD's default, which is not loaded


def _sections(abstract: etree._Element | None) -> tuple[str, list[str]]:
    """Sections and labels. A section without text says nothing, and is left out with its label."""
    if abstract is None:
        return "", []
    found = [(section.get("Label", ""), flatten(section)) for section in abstract.findall("AbstractText")]
    sections = [(label, text) for label, text in found if text]
    joined = " ".join(f"{label}: {text}" if label else text for label, text in sections)
    return joined, [label for label, _ in sections if label]


def _is_noted(citation: etree._Element, kind: str) -> bool:
    """Whether another record corrects, doubts or retracts this one."""
    return citation.find(f"CommentsCorrectionsList/CommentsCorrections[@RefType='{kind}']") is not None


def _revised(citation: etree._Element) -> str:
    year, month, day = (flatten(citation.find(f"DateRevised/{part}")) for part in ("Year", "Month", "Day"))
    date = f"{year}-{month:0>2}-{day:0>2}"
    return date if _ISO_DATE.fullmatch(date) else ""


def _version(citation: etree._Element) -> int:
    pmid = citation.find("PMID[@Version]")
    version = "" if pmid is None else pmid.get("Version", "")
    return int(version) if version.isdecimal() else 1


def _first(element: etree._Element, *paths: str) -> str:
    """The first of the paths' texts that is not empty."""
    return next(filter(None, (flatten(element.find(path)) for path in paths)), "")


def _texts(element: etree._Element, *paths: str) -> list[str]:
    return [text for path in paths for found in element.findall(path) if (text := flatten(found))]
