"""A SIMULATED reader: an OpenAI-compatible server on loopback that answers with a known bias.

It is given the right answer of every question and the words that make a document its key document.
It reads nothing, so its figures say nothing about a method; they show whether an experiment finds
its bias. With a prompt of n documents:

- It overlooks the key document at place i (from 0) with the probability of a table at i / (n - 1),
  linear between the table's points, plus `per_document` for each other document, at most 0.95.
- When it finds it, the answer is right; else every option has the same probability.
- An extraction quotes the key document when it finds it. A partition without it is misread with
  probability `misread`, as evidence for a wrong option.
- The reduce step takes the option with the highest confidence, and guesses without evidence.
- It answers only as a model whose name begins with `simulated-reader`.

Every draw is a hash of seed, stage, question and documents: equal prompts get equal answers.

    python -m tests.simulated_reader --questions SPEC [--kb DIR] [--table 0:0.05,0.5:0.5,1:0.1]
"""

import argparse
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tests.openai_server import Call, Reply, serve

MODEL = "simulated-reader"
LOST_IN_THE_MIDDLE = {0.0: 0.05, 0.25: 0.35, 0.5: 0.55, 0.75: 0.35, 1.0: 0.10}
NO_BIAS = {0.0: 0.3, 1.0: 0.3}

_EVIDENCE = re.compile(r"<evidence reader=(\d+)>\n(.*?)\n</evidence>", re.DOTALL)
_CHOICE = re.compile(r"^Choice: (\w)$", re.MULTILINE)
_CONFIDENCE = re.compile(r"^Confidence: ([\d.]+)$", re.MULTILINE)
_HIGHEST = 0.95


@dataclass(frozen=True)
class Known:
    """What the simulated reader is told of a question."""

    question: str
    options: Mapping[str, str]
    answer: str
    """The letter, or the words of a free answer."""
    key_words: Sequence[str]
    """A document that holds one of these is a key document."""


@dataclass
class SimulatedReader:
    """The script of a server (see `tests.openai_server`)."""

    known: Sequence[Known]
    table: Mapping[float, float] = field(default_factory=lambda: dict(LOST_IN_THE_MIDDLE))
    seed: int = 0
    misread: float = 0.0
    per_document: float = 0.0
    knows: float = 0.0
    """The probability that it knows an answer without a document."""

    def __post_init__(self) -> None:
        self._by_question = {_plain(known.question): known for known in self.known}

    def overlooks(self, place: float, others: int) -> float:
        """Return the probability that a key document at a relative place is overlooked."""
        points = sorted(self.table.items())
        below = max((p for p in points if p[0] <= place), default=points[0])
        above = min((p for p in points if p[0] >= place), default=points[-1])
        share = 0.0 if above[0] == below[0] else (place - below[0]) / (above[0] - below[0])
        return min(_HIGHEST, below[1] + share * (above[1] - below[1]) + self.per_document * others)

    def __call__(self, call: Call) -> Reply:
        """Answer one call; as another model than the simulated reader, none."""
        if not str(call.body["model"]).startswith(MODEL):
            return Reply(
                f"There is no model {call.body['model']!r} here, only {MODEL}.", status=404
            )
        known = self._known(call)
        if call.stage == "reduce":
            return Reply(self._reduce(call, known))
        documents = [text for _, text in call.documents]
        found = self._finds(call, known, documents)
        if call.stage == "extract":
            return Reply(self._extract(call, known, found))
        if "UNANSWERABLE" in call.system and not found:
            return Reply("UNANSWERABLE")
        if not documents:
            found = self._draw(call, known, "knows") < self.knows
        words = self._words(known, known.answer if found else self._guess(call, known))
        key = next((key for key, text in call.documents if found and _holds(text, known)), None)
        return Reply(
            words.replace(".", f" [{key}].", 1)
            if key and "square brackets" in call.system
            else words
        )

    def _known(self, call: Call) -> Known:
        question = call.user.partition("Question: ")[2].split("\n")[0]
        try:
            return self._by_question[_plain(question)]
        except KeyError:
            raise ValueError(
                f"The simulated reader was not told of this question: {question!r}"
            ) from None

    def _finds(self, call: Call, known: Known, documents: Sequence[str]) -> bool:
        """Draw for every key document whether it is seen."""
        last = max(1, len(documents) - 1)
        return any(
            self._draw(call, known, f"sees {place}")
            >= self.overlooks(_place(text, known, place / last), len(documents) - 1)
            for place, text in enumerate(documents)
            if _holds(text, known)
        )

    def _extract(self, call: Call, known: Known, found: bool) -> str:
        keyed = [(key, text) for key, text in call.documents if _holds(text, known)]
        choice: str | None = known.answer
        confidence = 0.9
        if not found:
            if self._draw(call, known, "misreads") >= self.misread:
                return json.dumps({"relevant": False})
            keyed = call.documents
            wrong = [letter for letter in known.options if letter != known.answer]
            choice = self._pick(wrong, call, known, "wrong") if wrong else None
            confidence = round(0.5 + 0.45 * self._draw(call, known, "confidence"), 2)
        key, text = keyed[0]
        quotes = [{"key": key, "quote": text.split("\n")[-1].split(". ")[0][:200]}]
        finding = self._words(known, known.answer) if found else "It is said otherwise."
        choice = choice if known.options else None
        return json.dumps(
            {
                "relevant": True,
                "quotes": quotes,
                "finding": finding,
                "choice": choice,
                "confidence": confidence,
            }
        )

    def _reduce(self, call: Call, known: Known) -> str:
        evidence = [body for _, body in _EVIDENCE.findall(call.user)]
        if not known.options:
            return self._words(
                known, known.answer if any(known.answer in body for body in evidence) else "unknown"
            )
        ranked = sorted(
            (-float(confidence[1]), choice[1])
            for body in evidence
            if (choice := _CHOICE.search(body)) and (confidence := _CONFIDENCE.search(body))
        )
        return self._words(known, ranked[0][1] if ranked else self._guess(call, known))

    def _guess(self, call: Call, known: Known) -> str:
        return (
            self._pick(sorted(known.options), call, known, "guess") if known.options else "unknown"
        )

    @staticmethod
    def _words(known: Known, answer: str) -> str:
        return f"It is so.\nChoice: {answer}" if known.options else answer

    def _pick(self, letters: Sequence[str], call: Call, known: Known, what: str) -> str:
        return letters[int(self._draw(call, known, what) * len(letters))]

    def _draw(self, call: Call, known: Known, what: str) -> float:
        """Return a number from 0 to 1 that belongs to this prompt; citation keys do not count."""
        documents = [text for _, text in call.documents]
        evidence = re.sub(r"\[\w+\]", "", call.user) if call.stage == "reduce" else ""
        # A reader that reads the whole document for a second time does so with other eyes.
        seed = json.dumps([self.seed, what, call.stage, known.question, documents, evidence])
        return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big") / 2**56


def _place(text: str, known: Known, place: float) -> float:
    """Return the key document's relative place, or that of the words in one long document."""
    if len(text) < 20_000:
        return place
    at = min(at for words in known.key_words if (at := _plain(text).find(_plain(words))) >= 0)
    return at / len(_plain(text))


def _holds(text: str, known: Known) -> bool:
    plain = _plain(text)
    return any(_plain(words) in plain for words in known.key_words)


@lru_cache(10_000)
def _plain(text: str) -> str:
    return "".join(re.findall(r"\w+", text.lower()))


def known_of(spec: str, knowledge_base: str | None, *, words: int = 8) -> list[Known]:
    """Return what the simulated reader has to be told of a data set."""
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.evaluation.experiments.corpus import Corpus
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    data_set = load_data_set(spec)
    corpus = None if knowledge_base is None else Corpus(KnowledgeBase.open(knowledge_base))
    found = []
    for item in data_set.items:
        passages = corpus.key_documents(item) if corpus else []
        keys = [" ".join(passage.page_content.split()[: 3 * words]) for passage in passages]
        keys += [f"THE ANSWER IS {answer}" for answer in item.answers if not passages]
        found.append(
            Known(item.question, item.options, item.answers[0] if item.answers else "unknown", keys)
        )
    return found


def _table(words: str) -> dict[float, float]:
    return {
        float(place): float(share)
        for place, share in (point.split(":") for point in words.split(","))
    }


def main(arguments: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(
        description="A simulated reader on loopback, for tests of the experiments."
    )
    parser.add_argument("--questions", help="a data set, as briefcontext experiment takes it")
    parser.add_argument("--kb", help="the knowledge base that holds the key documents")
    parser.add_argument(
        "--table", type=_table, default=LOST_IN_THE_MIDDLE, help="place:probability, …"
    )
    parser.add_argument("--misread", type=float, default=0.0)
    parser.add_argument("--per-document", type=float, default=0.0)
    parser.add_argument("--knows", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args(list(arguments))
    known = known_of(given.questions, given.kb)
    reader = SimulatedReader(
        known,
        given.table,
        given.seed,
        misread=given.misread,
        per_document=given.per_document,
        knows=given.knows,
    )
    with serve(given.port) as server:
        server.script = reader
        # One line when it is ready, and one with the number of requests for every line on standard
        # input.
        sys.stdout.write(f"OPENAI_BASE_URL={server.url} model openai:{MODEL}\n")
        sys.stdout.flush()
        try:
            for _ in sys.stdin:
                sys.stdout.write(f"{server.arrived} requests\n")
                sys.stdout.flush()
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
