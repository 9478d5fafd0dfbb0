"""Study types by publication types and MeSH headings."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

from langchain_core.documents import Document

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
"""Publication types of MEDLINE and article types of JATS."""
PUBMED_QUERIES: Mapping[str, str] = {
    "systematic review or meta-analysis": '"systematic review"[pt] OR "meta-analysis"[pt]',
    # The narrow filter for therapy of PubMed's Clinical Queries, which finds what is not indexed
    # yet.
    "randomized trial": '"randomized controlled trial"[pt] OR '
    "(randomized[tiab] AND controlled[tiab] AND trial[tiab])",
    "cohort study": '"cohort studies"[mh]',
    "case-control study": '"case-control studies"[mh]',
    "case report": '"case reports"[pt]',
    "animal or laboratory study": '("animals"[mh:noexp] NOT "humans"[mh])',
}
"""PubMed's queries for study types that are not publication types there."""
_NO_STUDY = {"letter", "editorial", "comment", "news", "published erratum", "biography"}
_NO_STUDY |= {"retraction of publication", "retraction notice", "clinical trial protocol"}
_REVIEW = {"review", "review-article"}
_BY_HEADING: Mapping[str, StudyType] = {
    "case-control studies": "case-control study",
    "cohort studies": "cohort study",
    "prospective studies": "cohort study",
    "retrospective studies": "cohort study",
    "longitudinal studies": "cohort study",
    "follow-up studies": "cohort study",
}
_SAYS_NOTHING = re.compile(
    r"journal article|research[- ](?:article|support\b.*)|english abstract", re.IGNORECASE
)
"""Publication types that are not a kind of evidence."""
_BECAME = {
    "retracted": "RETRACTED",
    "expression_of_concern": "EXPRESSION OF CONCERN",
    "corrected": "corrected",
}
_SPECIES = (
    "humans",
    "mice",
    "rats",
    "rabbits",
    "dogs",
    "cats",
    "swine",
    "sheep",
    "cattle",
    "guinea pigs",
    "zebrafish",
)


def study_type(document: Document) -> StudyType | None:
    """Return the study type of a document; None if its types and headings do not state it."""
    metadata = document.metadata
    if metadata.get("study_type") in get_args(StudyType):
        return metadata["study_type"]  # type: ignore[no-any-return]
    types = _labels(metadata.get("publication_types"))
    if metadata.get("kind") == "demo" or "clinical trial protocol" in types:
        return None
    result = {_BY_TYPE[name] for name in types if name in _BY_TYPE}
    if not result and _REVIEW & types:
        return "review"
    if not result and not _NO_STUDY & types:
        result = _by_headings(types, _labels(metadata.get("mesh")))
    return next((kind for kind in get_args(StudyType) if kind in result), None)


def _by_headings(types: set[str], headings: set[str]) -> set[StudyType]:
    if "animals" in headings and "humans" not in headings:
        return {"animal or laboratory study"}
    # PubMed uses these headings for clinical trials, too.
    if any("clinical trial" in name for name in types) or "cross-sectional studies" in headings:
        return set()
    return {kind for heading, kind in _BY_HEADING.items() if heading in headings}


def species(document: Document) -> list[str]:
    """Return the species of a study by its MeSH headings."""
    headings = _labels(document.metadata.get("mesh"))
    named = [name for name in _SPECIES if name in headings]
    return named or (["animals"] if "animals" in headings else [])


def kind_of_evidence(document: Document) -> str:
    """Return the study type, or else the informative publication types."""
    types = _written(document.metadata.get("publication_types"))
    return study_type(document) or "; ".join(
        name for name in types if not _SAYS_NOTHING.fullmatch(name)
    )


def source_notes(document: Document) -> list[str]:
    """Return notes on a source: retraction and updates, the kind of evidence, the species."""
    kind, metadata = kind_of_evidence(document), document.metadata
    became = [words for name, words in _BECAME.items() if metadata.get(name)]
    is_preprint = "preprint" in _labels(metadata.get("publication_types"))
    verb = "published as" if is_preprint else "updated by"
    for newer in _written(metadata.get("updated_by")):
        became.append(f"{verb} {'PMID ' * newer.isdecimal()}{newer}")
    return [*became, *([kind] if kind else []), *species(document)]


def _labels(given: object) -> set[str]:
    return {label.lower() for label in _written(given)}


def _written(given: object) -> list[str]:
    labels = given if isinstance(given, list | tuple) else str(given or "").split(";")
    return [" ".join(str(label).split()) for label in labels if str(label).strip()]
