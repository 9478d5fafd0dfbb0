"""Generated literature in the layout of NCBI's MedCPT chunks.

A vector is the sum of a mean, of the centres of its topics at each level, and of an own part, each
normally distributed with one decaying spectrum. All levels have the same share, so a corpus is
alike at every size, as real ones are. A question is a passage's vector with a part exchanged. The
shares were fitted to minilm's vectors of real passages and questions: the recall of the same index,
and the similarities of the nearest 1 to 1,000 passages (docs/benchmarks.md).

A text is words drawn by Zipf's law, with the length of an abstract in PubMed. A question has words
of its passage. So the lists of passages by term are as long as real ones.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DIMENSION = 768
BLOCK = 5_000
"""Passages that are generated, and held in memory, at a time."""
CHUNK = 50_000
"""Passages in a chunk."""
FIRST_PMID = 10_000_000
YEARS = range(1975, 2025)
HEADINGS = 100
"""Number of MeSH headings; a passage has one of them."""

SPECTRUM_POWER, SPECTRUM_CUT = 0.5, 130
"""The variance along the i-th axis falls as i ** -power * exp(-i / cut)."""
MEAN = 0.33
"""Length of the part that all unit vectors share."""
LEVELS, CHILDREN, TOPICAL = 10, 4, 0.92
"""Levels, topics below each topic of the level above, and the levels' share of the variance."""
CENTRES = 4096
"""Centres of a level; topics of deeper levels share them."""
KEPT = 0.4
"""Share of its passage's variance that a question keeps."""

TERMS, REPEATS, FUNCTION_WORDS = 96, 58, 51
"""Different terms of an abstract, their repeats, and other words."""
VOCABULARY = 400_000
ZIPF_POWER, ZIPF_SHIFT = 1.15, 9.0
QUESTION_TERMS = 7
FUNCTIONS = "the of and in to a with for was were by on that is as at from or an be this are which"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a generated passage."""

    text: str
    vector: NDArray[np.float32]


class Literature:
    """Passages by number, generated in reproducible blocks."""

    def __init__(self, dimension: int = DIMENSION, seed: int = 0) -> None:
        """Another `seed` gives other passages on the same topics."""
        self.dimension = dimension
        self._seed = seed
        random = np.random.default_rng(0)
        axes = np.arange(1, dimension + 1)
        variance = axes**-SPECTRUM_POWER * np.exp(-axes / SPECTRUM_CUT)
        self._deviations = np.sqrt(variance / variance.sum()).astype(np.float32)
        mean = random.standard_normal(dimension, np.float32)
        self._mean = MEAN * mean / np.linalg.norm(mean)
        self._centres = [self._normal(random, CENTRES) for _ in range(LEVELS)]
        zipf = np.cumsum((np.arange(VOCABULARY) + 1 + ZIPF_SHIFT) ** -ZIPF_POWER)
        self._zipf = zipf / zipf[-1]
        self._words = [*map(_word, range(VOCABULARY)), *FUNCTIONS.split()]

    def vectors(self, block: int) -> NDArray[np.float32]:
        """Return the unit vectors (BLOCK, dimension) of a block's passages."""
        return self._unit(self._passages(block))

    def texts(self, block: int) -> Iterator[str]:
        """Yield the texts of a block's passages."""
        random = self._random(block, 1)
        terms = np.searchsorted(self._zipf, random.random((BLOCK, TERMS)))
        # The topic of a text is a few of its terms.
        again = np.take_along_axis(terms, random.integers(TERMS // 3, size=(BLOCK, REPEATS)), 1)
        functions = VOCABULARY + random.integers(
            len(FUNCTIONS.split()), size=(BLOCK, FUNCTION_WORDS)
        )
        for row in random.permuted(np.hstack([terms, again, functions]), axis=1):
            yield " ".join(map(self._words.__getitem__, row.tolist()))

    def questions(self, count: int) -> list[Question]:
        """Return questions about passages of the first block."""
        random = self._random(0, 2)
        own = np.float32((1 - KEPT) ** 0.5) * self._normal(random, BLOCK)
        vectors = self._unit(np.float32(KEPT**0.5) * self._passages(0) + own)
        asked = []
        for text, vector in islice(zip(self.texts(0), vectors, strict=True), count):
            terms = sorted(set(text.split()).difference(FUNCTIONS.split()))
            asked.append(
                Question(" ".join(random.choice(terms, QUESTION_TERMS, replace=False)), vector)
            )
        return asked

    def _random(self, block: int, what: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, block, what])

    def _normal(self, random: np.random.Generator, count: int) -> NDArray[np.float32]:
        return random.standard_normal((count, self.dimension), np.float32) * self._deviations

    def _passages(self, block: int) -> NDArray[np.float32]:
        """Return the parts of a block's passages (BLOCK, dimension) without the mean."""
        random = self._random(block, 0)
        made = np.float32((1 - TOPICAL) ** 0.5) * self._normal(random, BLOCK)
        topic = np.zeros(BLOCK, np.int64)
        for centres in self._centres:
            topic = topic * CHILDREN + random.integers(CHILDREN, size=BLOCK)
            # Knuth's multiplicative hash spreads the topics over the centres.
            made += (
                np.float32((TOPICAL / LEVELS) ** 0.5)
                * centres[topic * 2_654_435_761 % (1 << 32) * CENTRES >> 32]
            )
        return made

    def _unit(self, own: NDArray[np.float32]) -> NDArray[np.float32]:
        vectors = self._mean + np.float32((1 - MEAN**2) ** 0.5) * own
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _word(rank: int) -> str:
    """Return a word of letters for a rank, longer for rarer ranks."""
    consonants, vowels = "bdfgklmnprstvz", "aiou"
    word = ""
    while rank or not word:
        rank, place = divmod(rank, len(consonants) * len(vowels))
        word += consonants[place // len(vowels)] + vowels[place % len(vowels)]
    return f"{word}x"


def year(number: int) -> int:
    """Return the year of a passage."""
    return YEARS[number * 7919 % len(YEARS)]


def heading(number: int) -> str:
    """Return the MeSH heading of a passage."""
    return f"Heading {number * 104_729 % HEADINGS}"


def write_chunks(folder: Path, size: int) -> None:
    """Write the passages 0 to `size` as MedCPT chunks of `CHUNK` passages."""
    folder.mkdir(parents=True)
    literature = Literature()
    for start in range(0, size, CHUNK):
        numbers = range(start, min(start + CHUNK, size))
        blocks = range(start // BLOCK, -(-numbers.stop // BLOCK))
        vectors = (vector for block in blocks for vector in literature.vectors(block))
        texts = (text for block in blocks for text in literature.texts(block))
        write_chunk(folder, str(start // CHUNK), numbers, texts, vectors)


def write_update(folder: Path, size: int, records: int) -> None:
    """Write a chunk of new texts and vectors, half of them for existing passages."""
    folder.mkdir(parents=True)
    other = Literature(seed=1)
    half = records // 2
    numbers = [*range(0, size, size // half)[:half], *range(size, size + records - half)]
    write_chunk(folder, "update", numbers, other.texts(0), other.vectors(0))


def write_chunk(
    folder: Path,
    name: str,
    numbers: Sequence[int],
    texts: Iterable[str],
    vectors: Iterable[NDArray[np.float32]],
) -> None:
    """Write one chunk's three files in half precision, as in a base."""
    shape = (len(numbers), DIMENSION)
    held = np.lib.format.open_memmap(folder / f"embeds_chunk_{name}.npy", "w+", np.float16, shape)
    for row, (_, vector) in enumerate(zip(numbers, vectors, strict=False)):
        held[row] = vector
    held.flush()
    pmids = [str(FIRST_PMID + number) for number in numbers]
    (folder / f"pmids_chunk_{name}.json").write_text(json.dumps(pmids), encoding="utf-8")
    with (folder / f"pubmed_chunk_{name}.json").open("w", encoding="utf-8") as file:
        for row, (number, pmid, text) in enumerate(zip(numbers, pmids, texts, strict=False)):
            article = {"d": f"{year(number)}0101", "t": text[:80], "a": text, "m": heading(number)}
            file.write(f"{',' if row else '{'}{json.dumps(pmid)}: {json.dumps(article)}")
        file.write("}")


def read_vectors(folder: Path, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the vectors in the chunks, with the number of the first of each batch."""
    for start in range(0, size, CHUNK):
        held = np.load(folder / f"embeds_chunk_{start // CHUNK}.npy", mmap_mode="r")
        for at in range(0, len(held), BLOCK):
            yield start + at, np.asarray(held[at : at + BLOCK], np.float32)
