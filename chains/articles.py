"""Articles: the documents of one article, and the facts that any of its records states."""

from collections.abc import Iterator, Sequence

from langchain_core.documents import Document

_SPREAD = {"retracted": "retraction_of", "expression_of_concern": "concern_for"}
"""Facts that hold for all records of an article, each with the relation of its notice."""
_PMID_DIGITS = 9


def source_id(document: Document) -> str:
    """Return the id of a document's source, or else the document's own id."""
    return str(document.metadata.get("source_id", document.id))


def article_id(document: Document) -> str:
    """Return the id of a document's article, which several sources may share."""
    return str(document.metadata.get("article") or source_id(document))


def pmid(document: Document) -> str:
    """Return the PMID of a document's article; empty if it is unknown."""
    stated, source = str(document.metadata.get("pmid") or "").strip(), source_id(document)
    is_number = source.isdecimal() and len(source) <= _PMID_DIGITS and source[0] != "0"
    is_of_pubmed = is_number and "pubmed" in str(document.metadata.get("url") or "")
    return stated or (source if is_of_pubmed else "")


def related_sources(documents: Sequence[Document]) -> list[str]:
    """Return the ids of other possible records of the documents' articles."""
    names = (name for document in documents for name in (pmid(document), _pmcid(document)) if name)
    return sorted(set(names).difference(map(source_id, documents)))


def join_articles(
    documents: Sequence[Document], related: Sequence[Document] = ()
) -> list[Document]:
    """Return documents with the facts that any record of their article states.

    Records with the same PMID, PMCID or DOI are one article. A retraction or an expression of
    concern applies to all of them, also if only one of the `related` records states it. `article`
    is the id of an article with several sources.
    """
    groups = _groups([*documents, *related])
    facts: dict[str, set[str]] = {name: set() for name in _SPREAD}
    sources: dict[str, dict[str, None]] = {}
    for document in documents:
        sources.setdefault(groups[_names(document)[0]], {})[source_id(document)] = None
    for document in (*documents, *related):
        for name, relation in _SPREAD.items():
            if document.metadata.get(name):
                facts[name].add(groups[_names(document)[0]])
            named = (f"pmid:{each}" for each in _listed(document, relation))
            facts[name].update(groups[each] for each in named if each in groups)
    joined = []
    for document in documents:
        group = groups[_names(document)[0]]
        known: dict[str, object] = {name: True for name in facts if group in facts[name]}
        if len(sources[group]) > 1:
            known["article"] = next(iter(sources[group]))
        changed = {**document.metadata, **known}
        joined.append(document.model_copy(update={"metadata": changed}) if known else document)
    return joined


def without_superseded(documents: Sequence[Document]) -> list[Document]:
    """Return the documents that no newer, unretracted version among them replaces."""
    newer = [document for document in documents if not document.metadata.get("retracted")]
    there = set(map(pmid, newer))
    updates = {(pmid(each), new) for each in documents for new in _listed(each, "updated_by")}
    updates |= {(old, pmid(each)) for each in newer for old in _listed(each, "update_of")}
    # Two records that update each other both stay.
    replaced = {
        old for old, new in updates if new in there and old != new and (new, old) not in updates
    }
    return [document for document in documents if pmid(document) not in replaced]


def _groups(documents: Sequence[Document]) -> dict[str, str]:
    """Map each name of an article's records to one name."""
    groups: dict[str, str] = {}
    for document in documents:
        names = _names(document)
        same = {groups[name] for name in names if name in groups} | {names[0]}
        group = min(same)
        groups |= {name: group for name, other in groups.items() if other in same}
        groups |= dict.fromkeys(names, group)
    return groups


def _names(document: Document) -> list[str]:
    doi = str(document.metadata.get("doi") or "").casefold().rpartition("doi.org/")[2]
    doi = doi.removeprefix("doi:").strip()
    ids = {
        "pmid": pmid(document),
        "pmc": _pmcid(document),
        "doi": doi if doi.startswith("10.") else "",
    }
    return [f"source:{source_id(document)}", *(f"{kind}:{id}" for kind, id in ids.items() if id)]


def _pmcid(document: Document) -> str:
    source = source_id(document)
    return str(document.metadata.get("pmcid") or (source if source.startswith("PMC") else ""))


def _listed(document: Document, name: str) -> Iterator[str]:
    return filter(None, map(str.strip, str(document.metadata.get(name) or "").split(";")))
