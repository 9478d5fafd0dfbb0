"""How fast a knowledge base is built, against the encoder alone."""

import time
from collections.abc import Sequence

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray
from retrieval_parts.bench import Bench, Report, Row
from retrieval_parts.corpora import WrappedEncoder, titled_texts

from briefcontext.knowledge.build import build_knowledge_base


class TimedEncoder(WrappedEncoder):
    """Adds up the time that it is in use."""

    seconds = 0.0
    finished = 0.0
    """When its last call ended."""

    def encode_passages(self, passages: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        started = time.perf_counter()
        vectors = super().encode_passages(passages)
        self.finished = time.perf_counter()
        self.seconds += self.finished - started
        return vectors


def build_rate(bench: Bench) -> Report:
    """Encode and build in turn, each round with passages of its own."""
    rows = []
    size = bench.sizes.build_snippets
    for name, passages, count in (
        ("snippets", bench.bioasq.passages, size),
        ("abstracts", bench.distractors, size // 2),
    ):
        # The first build loads Lance.
        _build(bench, passages[:16], f"{name} first")
        rounds = []
        for number in range(bench.sizes.build_rounds):
            some = passages[number * count : (number + 1) * count]
            measured: Row = {"passages": len(some)}
            # Which of the two goes first changes, so that neither has the quieter half of every round.
            for what in ("bare", "build") if number % 2 else ("build", "bare"):
                started, cpu = time.perf_counter(), time.process_time()
                detail = _encode(bench, some) if what == "bare" else _build(bench, some, f"{name} {number}")
                measured |= {f"{what}_s": time.perf_counter() - started, **detail}
                measured[f"{what}_cpu_s"] = time.process_time() - cpu
            rounds.append(measured)
        rows.append({"texts": f"{len(rounds)} x {count:,} {name}", **rates(rounds), "rounds": rounds})
    return Report(
        "Build rate, passages/s; encoding, after: share of the build in the encoder, and after its last call",
        {
            "texts": "",
            "bare/s": ".1f",
            "build/s": ".1f",
            "ratio": ".2f",
            "CPU ratio": ".2f",
            "encoding": ".3f",
            "after": ".3f",
        },
        rows,
    )


def rates(rounds: list[Row]) -> Row:
    """The rates over all rounds, and the ratios of build to bare."""
    total = {name: sum(measured[name] for measured in rounds) for name in rounds[0]}
    return {
        "bare/s": total["passages"] / total["bare_s"],
        "build/s": total["passages"] / total["build_s"],
        "ratio": total["bare_s"] / total["build_s"],
        "CPU ratio": total["bare_cpu_s"] / total["build_cpu_s"],
        "encoding": total["encoding_s"] / total["build_s"],
        "after": total["after_s"] / total["build_s"],
    }


def _encode(bench: Bench, passages: list[Document]) -> Row:
    texts = titled_texts(passages)
    bench.encoder.keep(texts, bench.encoder.encoder.encode_passages(texts))
    return {}


def _build(bench: Bench, passages: list[Document], name: str) -> Row:
    encoder = TimedEncoder(bench.encoder.encoder)
    build_knowledge_base(passages, bench.folder / name, encoder=encoder)
    return {"encoding_s": encoder.seconds, "after_s": time.perf_counter() - encoder.finished}
