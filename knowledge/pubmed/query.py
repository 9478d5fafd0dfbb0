"""From a question in plain words to queries that PubMed can answer."""

import re
import unicodedata
from itertools import combinations

from briefcontext.knowledge.sources.publication import language
from briefcontext.knowledge.store.filters import Filters

MOST_WORDS = 40
"""A case report of a question has hundreds of words; the longest of them tend to be the rarest."""

MOST_WORDS_ALL_BUT_ONE = 12
"""The query for all words but one grows with their square: 12 words make 132."""

# PubMed leaves these out of every search, in capitals too ("Stopwords" in the PubMed User Guide).
_PUBMED_STOPWORDS = """
    a about again all almost also although always among an and another any are as at be because been before
    being between both but by can could did do does done due during each either enough especially etc for
    found from further had has have having here how however i if in into is it its itself just kg km made
    mainly make may mg might ml mm most mostly must nearly neither no nor obtained of often on our overall
    perhaps pmid quite rather really regarding seem seen several should show showed shown shows significantly
    since so some such than that the their theirs them then there therefore these they this those through thus
    to upon use used using various very was we were what when which while with within without would
"""

# Words of the asking. `or` and `not` are here as they would be operators.
_QUESTION_WORDS = """
    am define describe explain give he her his list me my name not or please she summarize tell us versus vs
    where whether who whom whose why will you your
"""

_IGNORED = frozenset(_PUBMED_STOPWORDS.split())
_ASKING = frozenset(_QUESTION_WORDS.split())

_WORD = re.compile(r"[^\W_]+(?:['.-][^\W_]+)*")
_PLAIN_CHARACTERS = {ord("’"): "'", ord("‐"): "-"}


def pubmed_queries(question: str) -> list[str]:
    """Return PubMed queries for a question, the strictest first; none when it has no content words.

    PubMed wants every word of a query in a record (untagged words are joined by AND), and a sentence rarely
    meets that. So each query asks for less than the one before:

    1. all content words;
    2. all but any one of them (for 3 to 12 words);
    3. any of them.

    Words stay next to each other, as they stood in the question, for PubMed to find its subject headings and
    phrases among them (automatic term mapping). The last query matches very many records and relies on
    PubMed's sort by relevance, which begins with BM25 ("Best Match: New relevance search for PubMed", PLoS
    Biology 2018;16:e2005343).

    Punctuation and capitals are dropped, so that nothing in a question acts as an operator, a field tag or a
    wildcard.

    >>> pubmed_queries("Does aspirin prevent a stroke?")[:2]
    ['aspirin prevent stroke', '(aspirin prevent) OR (aspirin stroke) OR (prevent stroke)']
    """
    words = _content_words(question)
    queries = [" ".join(words)]
    if 3 <= len(words) <= MOST_WORDS_ALL_BUT_ONE:
        queries.append(" OR ".join(f"({' '.join(kept)})" for kept in combinations(words, len(words) - 1)))
    queries.append(" OR ".join(words))
    return list(dict.fromkeys(filter(None, queries)))


def pubmed_filters(filters: Filters) -> str:
    """Return what a PubMed query must be joined to by AND for its records to fulfil the filters; "" without any.

    PubMed counts a publication to the years of its issue and of its appearance online.

    >>> pubmed_filters(Filters(first_year=2015, publication_types=("Review",)))
    '(2015:3000[dp]) AND ("Review"[pt])'
    """
    tagged = {
        "pt": filters.publication_types,
        "ta": filters.journals,
        "mh:noexp": filters.mesh,
        "la": map(language, filters.languages),
    }
    # A label keeps nothing that would end its quotes.
    plain = {tag: [" ".join(value.replace('"', " ").split()) for value in values] for tag, values in tagged.items()}
    alternatives = [[f'"{value}"[{tag}]' for value in values] for tag, values in plain.items()]
    if (filters.first_year, filters.last_year) != (None, None):
        alternatives.insert(0, [f"{filters.first_year or 1000}:{filters.last_year or 3000}[dp]"])
    return " AND ".join(f"({' OR '.join(one)})" for one in alternatives if one)


def _content_words(question: str) -> list[str]:
    """The words that say what is asked about, once each, in their order."""
    text = unicodedata.normalize("NFKC", question).translate(_PLAIN_CHARACTERS)
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text) if not _is_stop_word(word)))
    kept = set(sorted(words, key=len, reverse=True)[:MOST_WORDS])
    return [word for word in words if word in kept]


def _is_stop_word(word: str) -> bool:
    lower = word.lower()
    is_name = len(word) > 1 and word.isupper() and lower not in ("or", "not")  # WHO, US
    return lower in _IGNORED or (lower in _ASKING and not is_name)
