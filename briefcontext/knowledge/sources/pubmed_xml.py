"""PubMed and MEDLINE XML: one document per citation, with its abstract as text."""

from collections import defaultdict
from collections.abc import Iterator
from io import BufferedIOBase

from langchain_core.documents import Document
from lxml import etree

from briefcontext.knowledge.sources.formulas import formula_text, mathml_tex
from briefcontext.knowledge.sources.publication import (
    NO_TITLE,
    article_number,
    author_list,
    citation,
    is_pmid,
    pubmed_marks,
    pubmed_url,
    year_in,
)
from briefcontext.knowledge.sources.source import Deletion, Entry, Reject, rejecting
from briefcontext.knowledge.sources.xml_stream import (
    first_text,
    flatten,
    local_name,
    stream_elements,
    texts,
    unresolved_entity,
)

SETS = ("PubmedArticleSet", "MedlineCitationSet", "PubmedBookArticleSet", "BookDocumentSet")
CITATIONS = ("MedlineCitation", "BookDocument")
DELETIONS = ("DeleteCitation", "DeleteDocument")
RECORDS = ("PubmedArticle", "PubmedBookArticle", *CITATIONS, *DELETIONS)
TITLES = ("ArticleTitle", "Book/BookTitle", "VernacularTitle")
ENGLISH = "eng"
JOURNALS = ("Journal/Title", "Journal/ISOAbbreviation", "Book/BookTitle")
ABBREVIATIONS = ("MedlineJournalInfo/MedlineTA", "Article/Journal/ISOAbbreviation")
ISSUE = "Journal/JournalIssue"
ARTICLE_IDS = "PubmedData/ArticleIdList/ArticleId"
DATES = (
    f"{ISSUE}/PubDate/Year",
    f"{ISSUE}/PubDate/MedlineDate",
    "ArticleDate/Year",
    "ContributionDate/Year",
    "Book/PubDate/Year",
    "Book/PubDate/MedlineDate",
)


@rejecting
def read_pubmed_xml(stream: BufferedIOBase) -> Iterator[Entry]:
    """Read the citations, deletions and rejects of an uncompressed PubMed XML stream.

    The id is the PMID. The text is the abstract, each section after its `LABEL: `; else the first
    other abstract in English, else the title. A title that is missing is the vernacular one.
    `revised` is DateRevised as YYYY-MM-DD or "". If the XML breaks, the last entry is a reject.
    """
    revised = ""
    for number, element in enumerate(stream_elements(stream, RECORDS, within=SETS), start=1):
        position = f"record {number}"
        if element.tag in DELETIONS:
            for pmid in map(flatten, element.iterchildren("PMID")):
                wrong = Reject(position, f"The PMID {pmid!r} of a deletion is not a number.")
                yield Deletion(pmid, revised) if is_pmid(pmid) else wrong
            continue
        entry = _citation(element, position)
        if isinstance(entry, Document):
            revised = max(revised, entry.metadata["revised"])
        yield entry


def _citation(element: etree._Element, position: str) -> Document | Reject:
    source = next(element.iter(*CITATIONS), element)
    pmid = first_text(source, "PMID")
    position += f" (PMID {pmid})" if pmid else ""
    if not is_pmid(pmid):
        return Reject(position, f"The PMID {pmid!r} is not a number.")
    if problem := unresolved_entity(source):
        return Reject(position, problem)
    article = source.find("Article")
    article = source if article is None else article  # a chapter of a book
    titles = [_line(article.find(name)) for name in TITLES]
    title = next((title for title in titles if title not in ("", NO_TITLE)), "")
    sections = _sections(source, article)
    labels = [label for label, _ in sections if label]
    types = texts(article, "PublicationTypeList/PublicationType")
    types += texts(article, "PublicationType")
    version = next(source.iterchildren("PMID")).get("Version", "")
    optional = {
        "authors": author_list(map(_author, article.iterfind("AuthorList/Author"))),
        "volume": first_text(article, f"{ISSUE}/Volume"),
        "issue": first_text(article, f"{ISSUE}/Issue"),
        "pages": _pages(article) or article_number(_location(article, "pii")),
        "doi": _doi(element, article),
        "pmcid": first_text(element, f"{ARTICLE_IDS}[@IdType='pmc']"),
        "year": year_in(first_text(article, *DATES)),
        "journal_abbreviation": first_text(source, *ABBREVIATIONS),
        "mesh": "; ".join(texts(source, "MeshHeadingList/MeshHeading/DescriptorName")),
        "labels": "; ".join(labels),
    }
    metadata = {
        **pubmed_marks(types, _notes(source)),
        "languages": "; ".join(texts(article, "Language")),
        "url": pubmed_url(pmid),
        "journal": first_text(article, *JOURNALS),
        "revised": _revised(source),
        "version": int(version) if version.isdecimal() else 1,
    }
    abstract = " ".join(f"{label}: {text}" if label else text for label, text in sections)
    return citation(
        pmid, position, title=title, abstract=abstract, metadata=metadata, optional=optional
    )


def _author(author: etree._Element) -> str:
    if author.get("ValidYN") == "N":
        return ""
    family, given = first_text(author, "LastName"), first_text(author, "Initials", "ForeName")
    name = f"{family}, {given} {first_text(author, 'Suffix')}".rstrip()
    return name if family else first_text(author, "CollectiveName")


def _doi(element: etree._Element, article: etree._Element) -> str:
    invalid = texts(article, "ELocationID[@EIdType='doi'][@ValidYN='N']")
    listed = first_text(element, f"{ARTICLE_IDS}[@IdType='doi']")
    return _location(article, "doi") or ("" if listed in invalid else listed)


def _location(article: etree._Element, kind: str) -> str:
    locations = article.iterfind(f"ELocationID[@EIdType='{kind}']")
    return next((flatten(each) for each in locations if each.get("ValidYN") != "N"), "")


def _pages(article: etree._Element) -> str:
    ends = (first_text(article, f"Pagination/{name}") for name in ("StartPage", "EndPage"))
    return first_text(article, "Pagination/MedlinePgn") or "-".join(filter(None, ends))


def _sections(source: etree._Element, article: etree._Element) -> list[tuple[str, str]]:
    abstracts = [*article.iterfind("Abstract"), *source.iterfind("OtherAbstract")]
    for abstract in abstracts:
        parts = abstract.iterfind("AbstractText")
        sections = [(part.get("Label", ""), text) for part in parts if (text := _line(part))]
        # The DTD, which is not loaded, has English as default.
        if sections and abstract.get("Language", ENGLISH) == ENGLISH:
            return sections
    return []


def _notes(source: etree._Element) -> dict[str, list[str]]:
    notes = defaultdict[str, list[str]](list)
    for note in source.iterfind("CommentsCorrectionsList/CommentsCorrections"):
        named = first_text(note, "PMID", "RefSource").replace(";", ",")
        notes[note.get("RefType", "")].append(named)
    return notes


def _revised(source: etree._Element) -> str:
    parts = [first_text(source, f"DateRevised/{name}") for name in ("Year", "Month", "Day")]
    return "-".join(part.zfill(2) for part in parts) if all(map(str.isdecimal, parts)) else ""


def _line(element: etree._Element | None) -> str:
    return "" if element is None else " ".join(_written(element).split())


def _written(element: etree._Element, text: str = "") -> str:
    """Return a text followed by that of an element; exponents and formulas keep their value."""
    text += element.text or ""
    for child in element:
        name = local_name(child)
        if name == "math":
            for part in child.iter("{*}*"):
                part.tag = local_name(part)
            text += formula_text(mathml_tex(child))
        else:
            raised = name == "sup" and text[-1:].isdecimal()
            text = _written(child, text + _mark(child) if raised else text)
        text += child.tail or ""
    return text


def _mark(raised: etree._Element) -> str:
    """Return the mark before an exponent, or the blank before the fraction of `1 1/2`."""
    if not flatten(raised).lstrip("+-−–")[:1].isdecimal():
        return ""
    below = raised.getnext()
    is_over = below is not None and below.tag == "sub"
    return " " if is_over and (raised.tail or "").strip() in ("/", "⁄") else "^"
