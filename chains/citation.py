"""Citation keys, which link an answer's sentences to documents."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase

from langchain_core.documents import Document
from typing_extensions import TypedDict

from briefcontext.chains.articles import article_id, source_id
from briefcontext.chains.place import chunk_start, find_place, read_under
from briefcontext.chains.reader import CUT_AT, Match, Quote, distinct
from briefcontext.knowledge.study_type import StudyType, source_notes, species, study_type

MARK = r"\[(\d+[a-z]*)\]"
"""A citation in an answer's text: `[2]`, or `[2a]` and `[2b]` for several passages of a source."""

_DIGITS = "23456789"
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_PAIR = f"[{_DIGITS}][{_LETTERS}]"
_PAIRS = 2
"""Digit-letter pairs in a key; every _ATTEMPTS collisions add a pair."""
_ATTEMPTS = 64
KEY = rf"(?<![^\W_])(?:{_PAIR}){{{_PAIRS},}}(?![^\W_])"
"""A citation key (a pattern)."""
_KEY = re.compile(KEY, re.ASCII | re.IGNORECASE)
_BRACKET = re.compile(
    r"(?<!\s)(?P<gap>\s*)\[(?P<words>[^\[\]]*)\](?:\((?:[a-z]+:|//|www\.|#)[^()\s]*\))?",
    re.IGNORECASE,
)
_BEGUN = re.compile(r"\s*(?:\[[^\[\]\n]*|(?<![^\W_])[2-9][A-Za-z0-9]*)\Z")
"""The beginning of a possible citation in unfinished text."""
_REPEATED = re.compile(rf"({MARK})(?:[^\S\n]*\1)+")
_WORDS_WITH_KEYS = "KEY KEYS DOCUMENT DOCUMENTS DOC DOCS SOURCE SOURCES REF REFS SEE AND"
_PAGE_WORDS = {"P", "PP", "PAGE", "PAGES"}
_BRACKETS = str.maketrans("【】［］", "[][]")
"""Brackets of other scripts, in which some models write citations."""
_WITHIN = "*_~`([{<\\]"
"""Characters that a citation may follow without a space."""
_NUMBERS = re.compile(r"(?=\D*\d)(?:\d++[a-z]{0,2}+|[\s,;–-])+")
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_SCHEMES = ("https://", "http://", "file://")


class CitedQuote(Quote):
    """A quote with its place in the document."""

    section: str
    """The heading above it, with the lines that introduce its list; empty if unknown."""
    paragraph: int | None
    """The number of its paragraph in that section, from 1."""
    page: int | None
    """The page of a PDF on which it begins."""


class Citation(TypedDict):
    """A passage that the answer cites."""

    key: str
    """Its number in the answer, with a letter if several passages of the source are cited."""
    document_id: str
    """The id of the passage."""
    source_id: str
    """The id of the source: a PMID if there is one."""
    title: str
    """The title of the source."""
    quote: str | None
    """The document's own words; null if the model cited the document without quoting it."""
    start: int | None
    """Where the quote begins in the passage, in characters; null for words of the title."""
    end: int | None
    """Where the quote ends in the passage."""
    source_start: int | None
    """Where the quote begins in the whole source, of which the passage may be a chunk."""
    source_end: int | None
    """Where the quote ends in the whole source."""
    match: Match | None
    """How the quote was located; null without a quote."""
    quotes: list[CitedQuote]
    """All quotes from this passage, including the first one."""
    page: int | None
    """The page of a PDF on which the quote begins."""
    year: int | None
    """The year of publication."""
    publication_types: str
    """PubMed's publication types, separated by semicolons."""
    study_type: StudyType | None
    """The kind of evidence; null if unknown."""
    journal: str
    """The journal; empty if unknown."""
    species: list[str]
    """The species that were studied, by MeSH headings."""
    retracted: bool
    """Whether the source was retracted."""
    corrected: bool
    """Whether the source was corrected."""
    expression_of_concern: bool
    """Whether the publisher warns that the source may not be reliable."""
    notes: list[str]
    """Labels for the reference, such as RETRACTED and the study type."""
    url: str | None
    """The source's web page, or the file of a PDF at the page; servers leave files out."""


def assign_keys(question: str, documents: Sequence[Document]) -> list[Document]:
    """Give each document a citation key, in `metadata["key"]`.

    Keys are short, unique and independent of rank. No key occurs in the question or in a document,
    so that no text can name a document. The same question and documents give the same keys.
    """
    texts = [question]
    for document in documents:
        metadata = document.metadata
        shown = ("title", "publication_types", "section", "paragraph_starts", "list_lines")
        texts += [document.page_content, *(str(metadata.get(name)) for name in shown)]
    # A text may write a key in any case or width, with other characters in between.
    signs = " ".join(
        re.sub(r"[^0-9A-Z]", "", unicodedata.normalize("NFKC", text).upper()) for text in texts
    )
    taken: set[str] = set()
    keyed = []
    for document in documents:
        attempt = 0
        while (key := _key(f"{question}\0{document.id}", attempt)) in signs or key in taken:
            attempt += 1
        taken.add(key)
        # Remove metadata of this name that a document brings along.
        own = {name: value for name, value in document.metadata.items() if name != CUT_AT}
        keyed.append(document.model_copy(update={"metadata": {**own, "key": key}}))
    return keyed


def _key(seed: str, attempt: int) -> str:
    digest = hashlib.blake2b(f"{seed}\0{attempt}".encode(), digest_size=8).digest()
    number, key = int.from_bytes(digest, "big"), ""
    for alphabet in (_DIGITS, _LETTERS) * (_PAIRS + attempt // _ATTEMPTS):
        number, place = divmod(number, len(alphabet))
        key += alphabet[place]
    return key


def document_key(document: Document) -> str:
    """Return the key that `assign_keys` gave the document."""
    return str(document.metadata["key"])


def has_key(text: str) -> bool:
    """Return whether a text has a word with the form of a citation key."""
    return _KEY.search(text) is not None


def cite(*documents: Document) -> str:
    """Return the mark that cites documents in a reader's text."""
    return "".join(f"[{document_key(document)}]" for document in documents)


class CitationNumbers:
    """The numbers of the sources that texts cite by key, in order of appearance.

    A key cites its document wherever it occurs, because no document contains it by chance. The
    first text is the answer.
    """

    def __init__(self, texts: Sequence[str], documents: Sequence[Document]) -> None:
        self._documents = {document_key(document): document for document in documents}
        articles = {key: article_id(document) for key, document in self._documents.items()}
        texts = [text.translate(_BRACKETS) for text in texts]
        brackets = (bracket for text in texts for bracket in _BRACKET.finditer(text))
        keys = dict.fromkeys(key for bracket in brackets for key in _keys(bracket["words"]))
        self.unknown = [key for key in keys if key not in self._documents]
        """Keys in brackets that belong to no document. They are removed."""
        self._numbers = {
            key: f"{number}{_letters(place) if len(group) > 1 else ''}"
            for number, group in enumerate(_cited_groups("\n".join(texts), articles), 1)
            for place, key in enumerate(group)
        }

    def replace(self, text: str) -> str:
        """Replace keys with `[1]`, `[2a]`, `[2b]`, and brackets of other numbers with round ones.

        A document's own references in square brackets would look like citations.
        """
        text = text.translate(_BRACKETS)
        return _REPEATED.sub(r"\1", _with_numbers(text, self._numbers)).strip()

    def citations(self, quotes: Iterable[Quote]) -> list[Citation]:
        """Return the cited passages in the order of their numbers, each with its quotes."""
        # The title is quoted from each piece of a document that was read in pieces.
        by_document: dict[str, list[Quote]] = {}
        for quote in distinct(quotes):
            by_document.setdefault(quote["document_id"], []).append(quote)
        citations = []
        for key, number in self._numbers.items():
            document = self._documents[key]
            citations.append(_citation(number, document, by_document.get(str(document.id), [])))
        return citations


def number_citations(
    text: str, documents: Sequence[Document], quotes: Iterable[Quote]
) -> tuple[str, list[Citation], list[str]]:
    """Return a text with numbers for keys, its citations, and its unknown keys."""
    numbers = CitationNumbers([text], documents)
    return numbers.replace(text), numbers.citations(quotes), numbers.unknown


def number_tokens(text: str, articles: Mapping[str, object], *, unfinished: bool) -> str:
    """Return the beginning of an answer with source numbers instead of keys.

    The letters of several passages of a source are known only at the end. An unfinished text loses
    the beginning of a possible citation. `articles` maps each key to its article.
    """
    text = text.translate(_BRACKETS)
    groups = _cited_groups(text, articles)
    numbers = {key: str(number) for number, keys in enumerate(groups, 1) for key in keys}
    if unfinished and (begun := _BEGUN.search(text)):
        text = text[: begun.start()]
    return _REPEATED.sub(r"\1", _with_numbers(text, numbers))


def _cited_groups(text: str, articles: Mapping[str, object]) -> list[list[str]]:
    """Return the keys in a text, grouped by article, in order of appearance."""
    groups: dict[object, list[str]] = {}
    for key in dict.fromkeys(map(str.upper, _KEY.findall(text))):
        if key in articles:
            groups.setdefault(articles[key], []).append(key)
    return list(groups.values())


def _with_numbers(text: str, numbers: Mapping[str, str]) -> str:
    def mark(key: re.Match[str]) -> str:
        number = numbers.get(key[0].upper())
        return f"[{number}]" if number else key[0]

    def replace(bracket: re.Match[str]) -> str:
        gap, words = bracket["gap"], bracket["words"]
        if keys := _keys(words):
            shown = "".join(dict.fromkeys(f"[{numbers[key]}]" for key in keys if key in numbers))
        elif _NUMBERS.fullmatch(words) or _KEY.sub(mark, words) != words:
            shown = f"({words})"
        else:
            return bracket[0]
        kept = "\n" in gap or (shown and text[: bracket.start()][-1:] in _WITHIN)
        return (gap if kept else " " * bool(shown)) + shown

    return _KEY.sub(mark, _BRACKET.sub(replace, text))


def _letters(place: int) -> str:
    """Return a, b, … z, aa, ab and so on."""
    before, letter = divmod(place, len(ascii_lowercase))
    return (_letters(before - 1) if before else "") + ascii_lowercase[letter]


def _keys(words: str) -> list[str]:
    """Return the keys between two brackets, or none if there are words other than pages."""
    # Some models write 【KEY†source】.
    written = re.findall(r"\w+", words.partition("†")[0].upper())
    keys = [word for word in written if _KEY.fullmatch(word)]
    others = set(written).difference(keys, _WORDS_WITH_KEYS.split())
    if others & _PAGE_WORDS:
        others = {word for word in others - _PAGE_WORDS if not word.isdigit()}
    return [] if others else keys


def publication_year(document: Document) -> int | None:
    """Return the year in a document's metadata, which may have any form."""
    found = _YEAR.search(str(document.metadata.get("year") or ""))
    return int(found[0]) if found else None


def web_link(document: Document, *, files: bool = True) -> str | None:
    """Return the link to a document's page or file. Other schemes, such as scripts, are refused."""
    url = str(document.metadata.get("url") or "").strip()
    is_link = url.startswith(_SCHEMES) and not any(map(str.isspace, url))
    return url if is_link and (files or not url.startswith("file:")) else None


def _citation(key: str, document: Document, quotes: list[Quote]) -> Citation:
    # Quotes from the text come before quotes from the title.
    in_order = sorted(quotes, key=lambda quote: quote["match"] == "title")
    placed = [_placed(quote, document) for quote in in_order]
    first = placed[0] if placed else None
    start, end = (first["start"], first["end"]) if first else (None, None)
    page = find_place(document).page if first is None or start is None else first["page"]
    metadata, begun, url = document.metadata, chunk_start(document), web_link(document)
    return Citation(
        key=key,
        document_id=str(document.id),
        source_id=source_id(document),
        title=str(metadata.get("title") or ""),
        quote=first["text"] if first else None,
        start=start,
        end=end,
        source_start=None if start is None else begun + start,
        source_end=None if end is None else begun + end,
        match=first["match"] if first else None,
        quotes=placed,
        page=page,
        year=publication_year(document),
        publication_types=str(metadata.get("publication_types") or ""),
        study_type=study_type(document),
        journal=journal(document),
        species=species(document),
        retracted=bool(metadata.get("retracted")),
        corrected=bool(metadata.get("corrected")),
        expression_of_concern=bool(metadata.get("expression_of_concern")),
        notes=source_notes(document),
        url=f"{url}#page={page}" if url and page and url.startswith("file:") else url,
    )


def _placed(quote: Quote, document: Document) -> CitedQuote:
    if (start := quote["start"]) is None:
        return CitedQuote(**quote, section="", paragraph=None, page=None)
    place = find_place(document, start)
    section = read_under(document, start, every_heading=True).rstrip(":") or place.section
    return CitedQuote(**quote, section=section, paragraph=place.paragraph, page=place.page)


def journal(document: Document) -> str:
    """Return the abbreviation of a document's journal, or its title."""
    metadata = document.metadata
    return str(metadata.get("journal_abbreviation") or metadata.get("journal") or "")
