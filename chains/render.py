"""Documents and evidence as they stand in a prompt: delimited, labelled, and unable to break out."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from langchain_core.documents import Document

from briefcontext.chains.citation import document_key, publication_year
from briefcontext.chains.extraction import Extraction
from briefcontext.chains.study_type import study_type

__all__ = ["render_condensed", "render_documents", "render_evidence"]

_TAG_NAMES = re.compile(r"(?:document|evidence|finding|question|system|instruction)s?(?![a-z])")
_BRACKETS = "<＜﹤‹〈〈⟨˂ᐸ≺❬❮❰⦑⧼"
"""The less-than sign and what looks like it."""
_MAY_BE_TAG = re.compile(rf"(?P<opening>[{_BRACKETS}][\W_]*+)(?P<name>[\w\u0300-\u036f]{{0,40}})")
_LETTERS = str.maketrans("оοсςеεіιıѕуүυѵνԁոԛԍ", "oocceeiiisyyuvvdnqg")
"""Cyrillic, Greek and Armenian letters that pass for those of the tags' names."""

# Tokenizers of local models read these as control tokens wherever they stand, and only in this exact form.
_CONTROL_TOKEN = re.compile(
    r"<(?=[|｜]|<?/?SYS>|/?s>|/?(?:bos|eos|pad|unk)>|(?:start|end)_of_|/?(?:think|tool_)|unused\d)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    re.IGNORECASE,
)
# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties): characters that no one sees and models read.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render_documents(documents: Sequence[Document]) -> str:
    """Return the documents one after another, each between tags of which the first has its key, study type and year.

    A text cannot close its own tag: what looks like one of our tags, or is a control token of a chat template, is
    broken up, and characters that cannot be seen are left out.
    """
    return "\n".join(_document(document) for document in documents)


def _document(document: Document) -> str:
    title = str(document.metadata.get("title") or "").strip()
    text = document.page_content.strip()
    body = f"{title}\n{text}" if title and title != text else text
    key, described = document_key(document), _description(document)
    about = f"({_line(described)})\n" if described else ""
    return f'<document key="{key}">\n{about}{_defuse(body)}\n</document>'


def render_evidence(extraction: Extraction, documents: Mapping[str, Document]) -> str:
    """Return a partition's evidence: each quote with its document's key, study type and year, then the finding.

    Each takes one line, so that words of a document cannot pass for another quote, a finding or a choice.
    `documents` maps ids to keyed documents.
    """
    labels = {id: _label(documents[id]) for id in {quote["document_id"] for quote in extraction["quotes"]}}
    lines = [f'{labels[quote["document_id"]]} "{_line(quote["text"])}"' for quote in extraction["quotes"]]
    if extraction["finding"]:
        source = "" if extraction["quotes"] else " (no quote supports it)"
        lines.append(f"Finding{source}: {_line(extraction['finding'])}")
    if extraction["choice"]:
        others = ", ".join(extraction.get("other_choices", []))
        lines.append(f"Choice: {extraction['choice']}" + (f" (in other parts: {others})" if others else ""))
    if extraction["confidence"] is not None:
        lines.append(f"Confidence: {extraction['confidence']:.2f}")
    return f"<evidence reader={extraction['index'] + 1}>\n" + "\n".join(lines) + "\n</evidence>"


def render_condensed(text: str) -> str:
    """Return evidence that a model has condensed, between the same tags."""
    return f"<evidence condensed>\n{_defuse(text.strip())}\n</evidence>"


def _description(document: Document) -> str:
    """Return what weighs a document: its study type, its year, and what became of it."""
    metadata = document.metadata
    kind = study_type(document) or str(metadata.get("publication_types") or "")
    known = [kind, str(publication_year(document) or "")]
    known += ["RETRACTED"] if metadata.get("retracted") else []
    known += ["EXPRESSION OF CONCERN"] if metadata.get("expression_of_concern") else []
    return ", ".join(part for part in known if part)


def _label(document: Document) -> str:
    described = _description(document)
    return f"[{document_key(document)}]" + (f" ({_line(described)})" if described else "")


def _line(text: str) -> str:
    return " ".join(_defuse(text).split())


def _defuse(text: str) -> str:
    """Take from a text what could pass for a part of the prompt, and leave its words."""
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    return _CONTROL_TOKEN.sub(r"\g<0> ", _MAY_BE_TAG.sub(_without_bracket, text))


def _without_bracket(found: re.Match[str]) -> str:
    if not _TAG_NAMES.match(_plain(found["name"])):
        return found[0]
    return re.sub(f"[{_BRACKETS}]", "(", found["opening"]) + found["name"]


def _plain(word: str) -> str:
    """Return a word in the plain lower-case letters that it looks like."""
    letters = (letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    return "".join(letters).lower().translate(_LETTERS)
