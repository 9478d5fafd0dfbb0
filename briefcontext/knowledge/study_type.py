"""Study types: what kind of evidence an article is, from its publication types, MeSH headings and text."""

import re
from collections.abc import Mapping, Sequence
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
"""By publication types of MEDLINE and article types of JATS, in small letters."""
PUBMED_QUERIES: Mapping[str, str] = {
    "systematic review or meta-analysis": '"systematic review"[pt] OR "meta-analysis"[pt]',
    # The narrow filter for therapy of PubMed's Clinical Queries, which finds what is not indexed
    # yet.
    "randomized trial": '"randomized controlled trial"[pt] OR (randomized[tiab] AND controlled[tiab] AND trial[tiab])',
    "cohort study": '"cohort studies"[mh]',
    "case-control study": '"case-control studies"[mh]',
    "case report": '"case reports"[pt]',
    "animal or laboratory study": '("animals"[mh:noexp] NOT "humans"[mh])',
}
"""What finds in PubMed those that are not publication types there."""
_NO_STUDY = {"letter", "editorial", "comment", "news", "published erratum", "biography"}
_NO_STUDY |= {"retraction of publication", "retraction notice"}
_PROTOCOL = re.compile(
    r"\b(?:study|trial|review|analysis) protocol\b|\bprotocol (?:for|of) (?:an?|the)\b"
    r"|\brationale(?:, design| and (?:study )?design)\b|\bdesign and rationale\b"
    r"|\bdesign of (?:the|an?) (?:[^:.]*\b)?(?:trial|study)\b"
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
_TITLED_REVIEW = re.compile(
    r"\b(?:a|an|literature|narrative|scoping) review\b|\breview of the literature\b"
)
_BY_TITLE: Mapping[StudyType, str] = {
    "systematic review or meta-analysis": _SYSTEMATIC.pattern,
    "guideline": r"\b(?:clinical practice |practice |treatment )?guidelines?(?: for\b| on\b|$)|\bconsensus statement\b",
    "case report": r"\bcase (?:report|series)\b|\ba case of\b",
}
_BY_TEXT: Mapping[StudyType, tuple[str, str]] = {
    "systematic review or meta-analysis": (
        "search",
        r"\bsystematically searched\b|\bsystematic (?:literature )?search\b"
        r"|\bdatabases (?:\([^)]*\) )?were (?:systematically )?searched\b",
    ),
    "randomized trial": (
        "random",
        r"(?<!non[- ])(?<!non)(?<!not )(?<!future )(?<!further )\brandomi[sz]ed,? (?:[\w-]+,? "
        r"){0,4}"
        # One that is called for is another than this.
        r"(?:trial|study)\b(?!(?: [\w/-]+){0,6},? (?:is|are|be) (?:\w+ )?"
        r"(?:needed|warranted|required|necessary|justified))"
        r"|\b(?:were|was) (?:then )?(?:randomly (?:assigned|allocated)|randomi[sz]ed to)\b"
        r"|\bwe (?:\w+ ){0,2}randomi[sz]ed\b|\bwere randomi[sz]ed prospectively\b",
    ),
    "case-control study": ("case-control", r"\bcase-control(?:led)? (?:study|analysis|design)\b"),
    "cohort study": (
        "cohort",
        r"\bcohort (?:study|analysis)\b|\b(?:prospective|retrospective|longitudinal) (?:[\w-]+ "
        r")?cohort\b",
    ),
    "case report": (
        "we ",
        r"\bwe (?:report|describe|present) (?:a|the) (?:rare )?(?:case|patient)\b",
    ),
}
"""What is in every such wording, which is quickly looked for, and the wordings."""
_CROSS_SECTIONAL = re.compile(r"\bcross-sectional (?:analysis|design|stud(?:y|ies)|survey)\b")
_NOT_ASSIGNED = re.compile(
    r"\bretrospective(?:ly)? (?:analy[sz]|chart|cohort|reviews?\b|reviewed|stud(?:y|ied))"
    r"|\b(?:this|our|present) (?:[\w-]+ )?(?:observational|qualitative)\b"
)
_NO_TRIAL = re.compile(
    r"\b(?:observational|cohort|case-control|qualitative|interviews?|focus groups?)\b"
)
"""In a title: its patients were assigned to nothing, whatever was at random in a trial around it."""
_QUALITATIVE = re.compile(r"(?<!and )(?<!and a )\bqualitative\b")
_ANIMALS = r"mice|mouse|rats?|rabbits?|zebrafish|murine|dogs?|beagles?|pigs?|piglets?|swine|sheep|monkeys?|macaques?"
_OF_PEOPLE = r"[- ](?:allerg|bite|flu\b|influenza|liver fluke|owner|valve)"
"""What people have of an animal: dog bites, swine flu."""
_LABORATORY = re.compile(
    rf"\b(?:(?:{_ANIMALS})\b(?!{_OF_PEOPLE})|(?:in vitro(?! fertili[sz]ation)|cell lines?)\b)"
)
_RANDOMIZED_ANIMALS = re.compile(rf"\b(?:{_ANIMALS})\b[^.]{{0,40}} were (?:then )?random")
_OF_ARTICLES = ("article", "passage")
"""Kinds of documents, as their metadata name them, of which one source is one article."""
_PEOPLE = re.compile(
    r"\b(?:patients?|women|men|children|adults|participants|volunteers|people|persons|subjects|humans?)\b"
)
_SAYS_NOTHING = re.compile(
    r"journal article|research[- ](?:article|support\b.*)|english abstract", re.IGNORECASE
)
"""Publication types that are of no kind of evidence."""
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
    """Return what kind of evidence a document is of; None where nothing tells.

    Publication types come first, then the title, MeSH headings and the text, of which a passage may
    be a part, unless its metadata name the type: see `with_study_types`. A protocol, which has no
    results, and the texts of the demo base are no evidence of any kind.
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
    headings, whole = _labels(metadata.get("mesh")), f"{title}\n{text}"
    found = [kind for kind, words in _BY_TITLE.items() if re.search(words, title)]
    # Of trials without randomization, too, PubMed says that patients were followed up.
    if not any("clinical trial" in name for name in types):
        found += [kind for heading, kind in _BY_HEADING.items() if heading in headings]
    found += [
        kind
        for kind, (part, words) in _BY_TEXT.items()
        if part in whole and re.search(words, whole)
    ]
    if (
        "cross-sectional studies" in headings or _CROSS_SECTIONAL.search(whole)
    ) and "cohort" not in title:
        found = [kind for kind in found if kind != "cohort study"]
    of_no_trial = _NO_TRIAL.search(title) or _NOT_ASSIGNED.search(whole)
    if _QUALITATIVE.search(title) or (of_no_trial and "random" not in title):
        found = [kind for kind in found if kind != "randomized trial"]
    animals = "animals" in headings and "humans" not in headings
    titled = _LABORATORY.search(title) and not _PEOPLE.search(title)
    randomized = "random" in text and _RANDOMIZED_ANIMALS.search(text) and not _PEOPLE.search(whole)
    if animals or (not headings and (titled or randomized)):
        return "animal or laboratory study"
    if _TITLED_REVIEW.search(title) and not found:
        return "review"
    strongest: tuple[StudyType, ...] = ("systematic review or meta-analysis", "randomized trial")
    return next((kind for kind in (*strongest, *found) if kind in found), None)


def with_study_types(documents: Sequence[Document]) -> list[Document]:
    """Return documents, all passages of an article with the study type that the first of them to tell one tells.

    A file may be a book, in which one passage tells of mice and another of patients.
    """
    told: dict[object, StudyType] = {}
    for document in sorted(documents, key=_start):
        if document.metadata.get("kind") in _OF_ARTICLES and (kind := study_type(document)):
            told.setdefault(document.metadata.get("source_id"), kind)
    return [
        Document(**{**dict(each), "metadata": {**each.metadata, "study_type": told[source]}})
        if (source := each.metadata.get("source_id")) and source in told
        else each
        for each in documents
    ]


def _start(document: Document) -> int:
    # A loader may mean something else by it.
    return start if type(start := document.metadata.get("start")) is int else 0


def species(document: Document) -> list[str]:
    """Return whom a study was of, as far as its MeSH headings say."""
    headings = _labels(document.metadata.get("mesh"))
    named = [name for name in _SPECIES if name in headings]
    return named or (["animals"] if "animals" in headings else [])


def kind_of_evidence(document: Document) -> str:
    """Return the study type, or else the publication types that say something; empty where none does."""
    types = _written(document.metadata.get("publication_types"))
    return study_type(document) or "; ".join(
        name for name in types if not _SAYS_NOTHING.fullmatch(name)
    )


def source_notes(document: Document) -> list[str]:
    """Return what to know of a source beside its reference: what became of it, the kind of evidence, of whom."""
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
