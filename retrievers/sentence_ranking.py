"""Sentences of retrieved documents, ranked by how likely they answer a question."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from briefcontext.knowledge.encoders.encoder import Encoder, title_of
from briefcontext.knowledge.store.terms import TermStatistics, tokenize
from briefcontext.retrievers.rankings import BM25Pool
from briefcontext.sentences import BULLET, RankedSentence, split_sentences

MIN_CHARACTERS = 25
"""Shorter pieces that do not end as a sentence does are headings and fragments; longer ones with an address are entries
of a list of references, or what a browser prints around a page."""
_END = re.compile(r"[.!?。！？؟।][\W\d]{0,9}\Z")
KEPT = 4096
"""Sentences whose vectors are kept: whoever asks again is mostly given documents that were given before."""

SIMILARITY = 3.0
COVERAGE = 2.0
DOCUMENT_COVERAGE = 5.0
INTERCEPT = -5.0
CORPUS_SIZE = -0.4
"""Log-odds that a document answers: by the similarity of its sentence and its best one, each at most 1; by the share of
the question's terms that the sentence and the document hold; and by the logarithm of the number of documents searched,
as among more of them more come near a question by chance. Chosen on one half of the questions of
`benchmarks/extractive.py`; weights a third larger or smaller rank about as well."""
FINDING = 1.0
"""What a sentence gains on the others of its source if it reports a finding, and loses if it says only what was asked
or done. Chosen on the same half."""

_STUDIED = (
    "(?:aim|analy[sz]|assess|compar|describ|determin|evaluat|examin|explor|investigat|measur|perform|record|review|studi"
    "|test)e?[ds]"
)
_TAKEN = (
    "(?:administered|allocated|asked|assigned|calculated|collected|conducted|defined|divided|enrolled|given|included"
    "|obtained|random\\w*|recruited|selected|treated|used)"
)
_ASKED = re.compile(
    r"^(?:background|context|introduction|objectives?|aims?|purpose)\b[^:.]*:"
    r"|^(?:\w+: )?to [a-z]+|\?\s*$"
    r"|\b(?:aim|objective|purpose|goal|hypothesis|hypothesi[sz]ed|sought|whether|unclear|unknown|controversial|assumed?"
    r"|assum(?:ing|ptions?)|(?:previous|earlier|prior) (?:\w+ )?(?:stud(?:y|ies)|trials?|reports?|work))\b",
    re.IGNORECASE,
)
"""The background or the aim of a study: its question, and no answer."""
_QUIZ = re.compile(
    rf"[?？؟][\s\"'”’»)\]*_]{{0,4}}\Z|\A(?:{BULLET.pattern})?\W{{0,4}}true\s{{0,9}}(?:or|/)\s{{0,9}}false\b",
    re.IGNORECASE,
)
"""A question, or what may be false."""
_DONE = re.compile(
    r"^(?:methods?|design|setting|participants)\b[^:.]*:"
    rf"|\b(?:this|present|current|our) (?:study|trial|review|paper|article|analysis) (?:is|was|were|{_STUDIED})\b"
    rf"|\bwe (?:\w+ly )?{_STUDIED}\b|\b(?:was|were) (?:\w+ly )?(?:{_STUDIED}|{_TAKEN})\b"
    r"|\b(?:received|underwent|participated)\b",
    re.IGNORECASE,
)
"""The methods of a study."""
_FOUND = re.compile(
    r"^(?:results?|findings?|conclusions?|interpretation)\b[^:.]*:"
    r"|\b(?:is|are|was|were) (?:\w+ly )?(?:higher|lower|greater|fewer|better|worse|superior|inferior|similar)\b"
    r"|\bwe (?:found|observed)\b"
    r"|\b(?:significan\w*|differ(?:ed|s|ences?)?|associated|compared (?:with|to)|than)\b|\bp ?[<=>≤]|\bCI\b|\d ?%",
    re.IGNORECASE,
)
"""The findings of a study. What may be better, or can lower something, stands in guidelines, and is none."""
_DOSE_ASKED = re.compile(
    r"^\W*(?:what|which|how|at)\b.*(?<!-)\bdos(?:e|es|ages?|ing)\b(?!-)|\bdos(?:e|ages?|ing) of\b", re.IGNORECASE
)
_DOSE = re.compile(
    r"(?:(?<![\d.,])\d[\d.,]*+|\bone|\btwo|\bhalf)[\s-]?(?:million )?"
    r"(?:[mµμnk]?g|mcg|(?:milli|micro)?grams?|[mµμ]?l|[mµμn]?mol|IU|U|units?|mEq|Gy|ppm|tablets?|capsules?|puffs?|drops?)\b(?:/\w+)*",
    re.IGNORECASE,
)
"""An amount. What a question is about is none: other sentences have the same unit."""

PAIRS = (
    ("Does aspirin prevent a second heart attack?", "Low-dose aspirin reduced recurrent myocardial infarction."),
    ("What causes Lyme disease?", "Lyme disease is caused by Borrelia burgdorferi, which is transmitted by ticks."),
    ("Which gene is mutated in cystic fibrosis?", "Mutations of the CFTR gene were found in cystic fibrosis."),
    ("Is vitamin D useful against falls?", "Vitamin D supplements did not lower the number of falls in older adults."),
    ("How is acute appendicitis treated?", "Laparoscopic appendectomy is the usual treatment of acute appendicitis."),
    ("What is the mechanism of action of imatinib?", "Imatinib inhibits the tyrosine kinase BCR-ABL."),
    ("Do statins cause muscle pain?", "Myalgia was reported as often with placebo as with a statin."),
    ("How common is postpartum depression?", "About one in seven mothers develops depression after giving birth."),
    ("Which bacteria colonise burn wounds?", "Pseudomonas aeruginosa was the commonest isolate from infected burns."),
    ("Can exercise slow cognitive decline?", "Aerobic training was associated with better memory in elderly people."),
    ("Are hip protectors effective?", "Hip protectors reduced fractures only among residents of nursing homes."),
    ("What are the symptoms of Addison's disease?", "Adrenal insufficiency presents with fatigue and weight loss."),
)
"""Questions with sentences that answer them, which show what an encoder's similarities mean."""

MOST_WORDS = 6
_ASKING_WORDS = """
    about called describe done find get give given go happen help involved keep known list make many matter mean more
    most must name need now often one other out patient patients people person persons please put reported safe show so
    still take taken taking tell true until up use used useful uses using usual usually want while woman work works
"""
_LINKING_WORDS = """
    above after again against although among another around based because before below besides between both cannot
    compared despite doing down due during each either else ever every few further having here him instead itself just
    least less like likely long much my nor off once only onto others otherwise over own per perhaps possible rather
    same several since them those though through thus too toward towards under unless unlike upon versus very via well
    whether whose within without yet
"""
UNNAMED = frozenset(f"{_ASKING_WORDS} {_LINKING_WORDS}".split())
"""That a passage lacks one of these does not tell what it is not about."""
_WORD = re.compile(r"\b[^\W\d_][^\W_]*(?:-[^\W_]+)*")


class SentenceRanker:
    """Ranks sentences by the encoder and by BM25's terms, each of the sentence and of its whole document.

    Sources rank by their best sentence. Within one, what was found comes before what was asked or done, and a dose
    first where one is asked for.

    Similarity is the inner product of the encoder's vectors, on a scale on which a sentence that has nothing to do with
    a question is at 0 and one that answers it at 1, by a few such pairs that the encoder is given first.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._kept: dict[str, NDArray[np.float32]] = {}

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """The mean similarity of unrelated pairs, and how much higher that of related pairs is."""
        questions, sentences = zip(*PAIRS, strict=True)
        vectors = self._encoder.encode_passages([("", sentence) for sentence in sentences])
        similarity = self._encoder.encode_queries(questions) @ vectors.T
        related = float(np.trace(similarity)) / len(PAIRS)
        unrelated = float(similarity.sum() - np.trace(similarity)) / (len(PAIRS) * (len(PAIRS) - 1))
        # An encoder that cannot tell the two apart must not turn the ranking around.
        return unrelated, max(related - unrelated, float(similarity.std()))

    def _encoded(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the sentences' vectors (n, d); those of the last `KEPT` sentences are kept."""
        kept = self._kept
        vectors = {sentence: kept[sentence] for sentence in sentences if sentence in kept}
        if new := [sentence for sentence in dict.fromkeys(sentences) if sentence not in kept]:
            made = self._encoder.encode_passages([("", sentence) for sentence in new])
            # Copies: a row that is kept would keep all of the array.
            vectors.update((sentence, row.copy()) for sentence, row in zip(new, made, strict=True))
        # Replaced as a whole, so that threads need no lock: what one of them may lose is encoded again.
        self._kept = dict(islice({**vectors, **self._kept}.items(), KEPT))
        return np.stack([vectors[sentence] for sentence in sentences])

    def rank(
        self, query: str, documents: Sequence[Document], statistics: TermStatistics | None = None
    ) -> list[RankedSentence]:
        """Return the documents' sentences, best first; equal ones keep the documents' order.

        Headings, fragments, questions, and repetitions of a document's own title are left out: they are no evidence. So
        is what was asked, or believed before, where a sentence of its source that ranks higher reports a finding.

        Args:
            query: the question.
            documents: with a title in their metadata, where they have one.
            statistics: how often terms occur in the corpus that was searched; without them, all terms weigh the same.
        """
        places = [
            (number, start, end) for number, document in enumerate(documents) for start, end in _sentences(document)
        ]
        if not places:
            return []
        of = np.array([number for number, _, _ in places])
        texts = [documents[number].page_content[start:end] for number, start, end in places]
        unrelated, related = self._scale
        vectors = self._encoded(texts)
        similarity = np.minimum((vectors @ self._encoder.encode_queries([query])[0] - unrelated) / related, 1)
        best = np.array([similarity[of == number].max(initial=-np.inf) for number in range(len(documents))])
        about = _DOSE.sub(" ", query)
        holds, rarity = BM25Pool([Document(page_content=text) for text in texts], statistics).coverage(about)
        document_holds, _ = BM25Pool(documents, statistics).coverage(about)
        share = _shares(rarity, statistics)
        searched = len(documents) if statistics is None else statistics.n_documents
        odds = INTERCEPT + CORPUS_SIZE * np.log(searched) + SIMILARITY * (similarity + best[of])
        odds += COVERAGE * (holds @ share) + DOCUMENT_COVERAGE * (document_holds @ share)[of]
        asked, done, found = (
            np.array([bool(pattern.search(text)) for text in texts]) for pattern in (_ASKED, _DONE, _FOUND)
        )
        if _DOSE_ASKED.search(query):
            asked, found = np.zeros_like(asked), np.array([bool(_DOSE.search(text)) for text in texts])
            done = ~found
        findings = FINDING * np.where(asked | done, -1, found)
        sources = np.array([str(document.metadata.get("source_id", document.id)) for document in documents])[of]
        kept = ~asked | found
        for source in set(sources.tolist()):
            here = sources == source
            odds[here] += findings[here] + odds[here].max() - (odds[here] + findings[here]).max()
            kept[here] |= odds[here] >= odds[here & (findings > 0)].max(initial=-np.inf)
        kept &= [not _QUIZ.search(text) for text in texts]
        scores = 1 / (1 + np.exp(-odds))
        ranked = [
            RankedSentence(str(documents[number].id), text, start, end, float(score))
            for (number, start, end), text, score, is_kept in zip(places, texts, scores, kept, strict=True)
            if is_kept
        ]
        return sorted(ranked, key=lambda sentence: -sentence.score)


def lacks_dose(query: str, texts: Iterable[str]) -> bool:
    """Return whether a question asks for a dose, and no text has one."""
    return bool(_DOSE_ASKED.search(query)) and not any(map(_DOSE.search, texts))


def unmentioned(
    query: str, documents: Sequence[Document], statistics: TermStatistics | None = None
) -> tuple[list[str], float]:
    """Return the question's words that no document has, in its title or text and in any inflection, and their share.

    Function words and numbers are left out. Of many words, the rarest few are returned, as they are asked, and none
    that only asks; the share of the question, 0 to 1, is that of all of them, weighed as terms are in ranking, and 1
    where no passage of the corpus has one of them.
    """
    # In capitals, a function word passes for a name.
    words = {tuple(tokenize(word)): word for word in _WORD.findall(_DOSE.sub(" ", query)) if tokenize(word.lower())}
    asked = " ".join(words.values())
    holds, rarity = BM25Pool(documents, statistics).coverage(asked)
    shares = zip(dict.fromkeys(tokenize(asked)), _shares(rarity, statistics), holds.T, strict=True)
    missing = {term: float(share) for term, share, held in shares if not held.any()}
    named = {
        word: max(map(missing.__getitem__, lacking))
        for of_word, word in words.items()
        if word.lower() not in UNNAMED and (lacking := missing.keys() & set(of_word))
    }
    rarest = sorted(named, key=named.__getitem__, reverse=True)[:MOST_WORDS]
    nowhere = statistics is not None and any(
        not statistics.document_frequency(term) for word in named for term in tokenize(word)
    )
    return [word for word in named if word in rarest], 1.0 if nowhere else sum(missing.values())


def _shares(rarity: NDArray[np.float64], statistics: TermStatistics | None) -> NDArray[np.float64]:
    # Partitions are compared with each other, and what is rare in one of them may not be in another.
    weights = rarity if statistics is not None else np.ones_like(rarity)
    return weights / max(float(weights.sum()), 1.0)


def _sentences(document: Document) -> list[tuple[int, int]]:
    text, title = document.page_content, title_of(document).strip()
    whole = len(text.strip())
    headings = str(document.metadata.get("paragraph_starts"))
    # A source begins with its title.
    opening = 0 if document.metadata.get("start") else text.find("\n\n")
    return [
        (start, end)
        for start, end in split_sentences(text)
        if text[start:end] != title
        and not text[start:end].endswith(":")
        and json.dumps(text[start:end].strip("#: \t"), ensure_ascii=False) not in headings
        and (
            end - start == whole
            or (
                end - start >= MIN_CHARACTERS
                and (start >= opening or BULLET.match(text, start))
                and "://" not in text[start:end]
            )
            or (_END.search(text, end - 10, end) and len(text[start : min(end, start + 99)].split()) > 2)
        )
    ]
