"""Study types: what kind of evidence an article is, from its publication types, MeSH headings and text."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from langchain_core.documents import Document
from typing_extensions import TypedDict

StudyType = Literal[
    "systematic review or meta-analysis",
    "guideline",
    "randomized trial",
    "cohort study",
    "case-control study",
    "case report",
    "review",
    "animal or laboratory study",
]

_BY_TYPE: Mapping[str, StudyType] = {
    "meta-analysis": "systematic review or meta-analysis",
    "systematic review": "systematic review or meta-analysis",
    "guideline": "guideline",
    "practice guideline": "guideline",
    "consensus development conference": "guideline",
    "consensus development conference, nih": "guideline",
    "randomized controlled trial": "randomized trial",
    "case reports": "case report",
    "case-report": "case report",
}
"""By publication types of MEDLINE and article types of JATS, in small letters."""
_NO_STUDY = {"letter", "editorial", "comment", "news", "published erratum", "biography"}
_NO_STUDY |= {"retraction of publication", "retraction notice"}
_PROTOCOL = re.compile(
    r"\b(?:study|trial|review|analysis) protocol\b|\bprotocol (?:for|of) (?:an?|the)\b"
    r"|\brationale(?:, design| and (?:study )?design)\b|\bdesign and rationale\b"
)
"""Titles of what has no results yet."""
_REVIEW = {"review", "review-article"}
_BY_HEADING: Mapping[str, StudyType] = {
    "case-control studies": "case-control study",
    "cohort studies": "cohort study",
    "prospective studies": "cohort study",
    "retrospective studies": "cohort study",
    "longitudinal studies": "cohort study",
    "follow-up studies": "cohort study",
}
_SYSTEMATIC = re.compile(r"\bsystematic(?:ally)? (?:literature )?review(?!s)|\bmeta-?analys[ie]s\b")
_TITLED_REVIEW = re.compile(r"\b(?:a|an|literature|narrative|scoping) review\b|\breview of the literature\b")
_BY_TITLE: Mapping[StudyType, str] = {
    "systematic review or meta-analysis": _SYSTEMATIC.pattern,
    "guideline": r"\b(?:clinical practice |practice |treatment )?guidelines?(?: for\b| on\b|$)|\bconsensus statement\b",
    "case report": r"\bcase (?:report|series)\b|\ba case of\b",
}
_BY_TEXT: Mapping[StudyType, str] = {
    "randomized trial": r"(?<!non[- ])(?<!non)(?<!not )(?<!future )(?<!further )\brandomi[sz]ed,? (?:[\w-]+,? ){0,4}"
    # One that is called for is another than this.
    r"(?:trial|study)\b(?!(?: [\w/-]+){0,6},? (?:is|are|be) (?:\w+ )?(?:needed|warranted|required|necessary|justified))"
    r"|\b(?:were|was) (?:then )?(?:randomly (?:assigned|allocated)|randomi[sz]ed to)\b",
    "case-control study": r"\bcase-control(?:led)? (?:study|analysis|design)\b",
    "cohort study": r"\bcohort (?:study|analysis)\b|\b(?:prospective|retrospective|longitudinal) (?:[\w-]+ )?cohort\b",
    "case report": r"\bwe (?:report|describe|present) (?:a|the) (?:rare )?(?:case|patient)\b",
}
_ANIMALS = r"mice|mouse|rats?|rabbits?|zebrafish|murine|dogs?|beagles?|pigs?|piglets?|swine|sheep|monkeys?|macaques?"
_OF_PEOPLE = r"[- ](?:allerg|bite|flu\b|influenza|liver fluke|owner|valve)"
"""What people have of an animal: dog bites, swine flu."""
_LABORATORY = re.compile(rf"\b(?:(?:{_ANIMALS})\b(?!{_OF_PEOPLE})|(?:in vitro(?! fertili[sz]ation)|cell lines?)\b)")
_RANDOMIZED_ANIMALS = re.compile(rf"\b(?:{_ANIMALS})\b[^.]{{0,40}} were (?:then )?random")
_OF_ARTICLES = ("article", "passage")
"""Kinds of documents, as their metadata name them, of which one source is one article."""
_PEOPLE = re.compile(
    r"\b(?:patients?|women|men|children|adults|participants|volunteers|people|persons|subjects|humans?)\b"
)
_SAYS_NOTHING = re.compile(r"journal article|research[- ](?:article|support\b.*)|english abstract", re.IGNORECASE)
"""Publication types that are of no kind of evidence."""
_BECAME = {"retracted": "RETRACTED", "expression_of_concern": "EXPRESSION OF CONCERN", "corrected": "corrected"}
_SPECIES = ("humans", "mice", "rats", "rabbits", "dogs", "cats", "swine", "sheep", "cattle", "guinea pigs", "zebrafish")


def study_type(document: Document) -> StudyType | None:
    """Return what kind of evidence a document is of; None where nothing tells.

    Publication types come first, then the title, MeSH headings and the text, of which a passage may be a part, unless
    its metadata name the type: see `with_study_types`. A protocol, which has no results, and the texts of the demo base
    are no evidence of any kind.
    """
    metadata = document.metadata
    if metadata.get("study_type") in get_args(StudyType):
        return metadata["study_type"]  # type: ignore[no-any-return]
    if metadata.get("kind") == "demo":
        return None
    types = _labels(metadata.get("publication_types"))
    title, text = str(metadata.get("title") or "").lower(), document.page_content.lower()
    if _PROTOCOL.search(title) or "clinical trial protocol" in types:
        return None
    named = {_BY_TYPE[name] for name in types if name in _BY_TYPE}
    for kind in get_args(StudyType):
        if kind in named:
            return kind  # type: ignore[no-any-return]
    if _SYSTEMATIC.search(title):
        return "systematic review or meta-analysis"
    if _REVIEW & types:
        return "review"
    if _NO_STUDY & types:
        return None
    headings = _labels(metadata.get("mesh"))
    found = [kind for kind, words in _BY_TITLE.items() if re.search(words, title)]
    # Of trials without randomization, too, PubMed says that patients were followed up.
    if not any("clinical trial" in name for name in types):
        found += [kind for heading, kind in _BY_HEADING.items() if heading in headings]
    found += [kind for kind, words in _BY_TEXT.items() if re.search(words, f"{title}\n{text}")]
    animals = "animals" in headings and "humans" not in headings
    laboratory = _LABORATORY.search(title) or _RANDOMIZED_ANIMALS.search(text)
    if animals or (not headings and laboratory and not _PEOPLE.search(f"{title}\n{text}")):
        return "animal or laboratory study"
    if _TITLED_REVIEW.search(title) and not found:
        return "review"
    return "randomized trial" if "randomized trial" in found else next(iter(found), None)


def with_study_types(documents: Sequence[Document]) -> list[Document]:
    """Return documents, all passages of an article with the study type that the first of them to tell one tells.

    A file may be a book, in which one passage tells of mice and another of patients.
    """
    told: dict[object, StudyType] = {}
    for document in sorted(documents, key=lambda each: int(str(each.metadata.get("start") or 0))):
        if document.metadata.get("kind") in _OF_ARTICLES and (kind := study_type(document)):
            told.setdefault(document.metadata.get("source_id"), kind)
    return [
        Document(**{**dict(each), "metadata": {**each.metadata, "study_type": told[source]}})
        if (source := each.metadata.get("source_id")) and source in told
        else each
        for each in documents
    ]


def species(document: Document) -> list[str]:
    """Return whom a study was of, as far as its MeSH headings say."""
    headings = _labels(document.metadata.get("mesh"))
    named = [name for name in _SPECIES if name in headings]
    return named or (["animals"] if "animals" in headings else [])


def source_notes(document: Document) -> list[str]:
    """Return what to know of a source beside its reference: what became of it, the kind of evidence, of whom."""
    metadata = document.metadata
    types = _written(metadata.get("publication_types"))
    kind = study_type(document) or "; ".join(name for name in types if not _SAYS_NOTHING.fullmatch(name))
    became = (words for name, words in _BECAME.items() if metadata.get(name))
    return [*became, *([kind] if kind else []), *species(document)]


def journal(document: Document) -> str:
    """Return the short title of a document's journal, or its whole one."""
    return str(document.metadata.get("journal_abbreviation") or document.metadata.get("journal") or "")


def _labels(given: object) -> set[str]:
    return {label.lower() for label in _written(given)}


def _written(given: object) -> list[str]:
    labels = given if isinstance(given, list | tuple) else str(given or "").split(";")
    return [" ".join(str(label).split()) for label in labels if str(label).strip()]


class Evidence(TypedDict):
    """The articles that an answer cites, taken together."""

    study_types: dict[str, int]
    """How many articles of each study type, the strongest first; `unknown`, which is any other, last."""
    newest: int | None
    """Year of the newest."""
    conflict: bool | None
    """Whether partitions, or the reader, say that the evidence contradicts itself; None where no model read it."""
    summary: str
    """The same in words; empty where neither a study type nor a year is known."""


_PLURALS = {
    "systematic review or meta-analysis": "systematic reviews or meta-analyses",
    "cohort study": "cohort studies",
    "case-control study": "case-control studies",
    "animal or laboratory study": "animal or laboratory studies",
}


_CONFLICT = {True: "they contradict each other", False: "no conflict reported", None: "not checked for conflicts"}


def summarise_evidence(
    articles: Mapping[str, tuple[StudyType | None, int | None]], *, conflict: bool | None
) -> Evidence:
    """Count the study types of articles, given by source id with their years."""
    counts = Counter(kind or "unknown" for kind, _ in articles.values())
    study_types = {kind: counts[kind] for kind in (*get_args(StudyType), "unknown") if counts[kind]}
    newest = max((year for _, year in articles.values() if year), default=None)
    parts = [_counted(count, kind) for kind, count in study_types.items()]
    parts += [f"newest {newest}"] if newest else []
    parts.append(_CONFLICT[conflict])
    known = newest or study_types.keys() - {"unknown"}
    return Evidence(
        study_types=study_types, newest=newest, conflict=conflict, summary="; ".join(parts) if known else ""
    )


def _counted(count: int, kind: str) -> str:
    if kind == "unknown":
        return f"{count} of other or unknown type"
    return f"{count} {kind if count == 1 else _PLURALS.get(kind, f'{kind}s')}"
