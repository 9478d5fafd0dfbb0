"""Whether generated vectors are as hard to search as real ones: what the same index finds in both."""

import tempfile
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from parts.corpora import CachedEncoder, read_bioasq, read_passages, read_pubmedqa, titled_texts
from parts.generated import BLOCK, Literature
from parts.measured import K, recall
from parts.report import Row, show

from briefcontext.knowledge.encoders import load_encoder
from briefcontext.knowledge.store.table import index_vectors

PROBES, REFINEMENTS = (1, 2, 4, 8, 16), (1, 2, 4)
QUESTIONS = 300
"""Of each kind of vectors, spread evenly over all."""
RANKS = (1, 4, 16, 100, 1000)
Vectors = NDArray[np.float32]


def hardness(data: Path, cache: Path) -> list[Row]:
    """Similarity of the passages at some ranks, and recall of exact search by setting; real and generated."""
    real, asked = real_vectors(data, cache)
    asked = asked[:: max(1, len(asked) // QUESTIONS)]
    found, made = (
        {f"similarity at rank {rank}": _at(rank, *each) for rank in RANKS} | recalls(*each)
        for each in ((real, asked), generated_vectors(*real.shape, len(asked)))
    )
    rows = [
        {"": name, "real": value, "generated": made[name], "difference": made[name] - value}
        for name, value in found.items()
    ]
    show(f"{len(real):,} vectors of {real.shape[1]} dimensions, {len(asked)} questions", rows, form=".3f")
    return rows


def real_vectors(data: Path, cache: Path) -> tuple[Vectors, Vectors]:
    """The vectors of all passages and of the questions of BioASQ and PubMedQA."""
    encoder = CachedEncoder(load_encoder("minilm"), cache)
    passages = encoder.encode_passages(titled_texts(read_passages(data)))
    questions = read_bioasq(data).questions + read_pubmedqa(data).questions
    return passages, encoder.encode_queries([question.text for question in questions])


def generated_vectors(size: int, dimension: int, questions: int) -> tuple[Vectors, Vectors]:
    """As many generated ones of the same dimension."""
    literature = Literature(dimension)
    blocks = [literature.vectors(block) for block in range(-(-size // BLOCK))]
    return np.vstack(blocks)[:size], np.stack([question.vector for question in literature.questions(questions)])


def recalls(vectors: Vectors, questions: Vectors) -> dict[str, float]:
    """Recall of the exact nearest, by the partitions that are looked into and the refinement."""
    size, dimension = vectors.shape
    halves = vectors.astype(np.float16)
    wanted = np.argsort(-(questions @ halves.astype(np.float32).T), axis=1)[:, :K].tolist()
    rows = pa.table({"id": np.arange(size), "vector": pa.FixedSizeListArray.from_arrays(halves.ravel(), dimension)})
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        table: Any = lance.write_dataset(rows, folder, mode="overwrite")
        index_vectors(table, "ip", size)
        for probes in PROBES:
            for refine in REFINEMENTS:
                asked = {"column": "vector", "k": K, "metric": "dot", "refine_factor": refine}
                asked |= {"minimum_nprobes": probes, "maximum_nprobes": probes}
                answers = [
                    table.scanner(columns=["id", "_distance"], nearest={**asked, "q": question}).to_table()
                    for question in questions
                ]
                ids = [answer["id"].to_pylist() for answer in answers]
                found[f"recall@{K}, {probes} probes, refined by {refine}"] = recall(ids, wanted)
    return found


def _at(rank: int, vectors: Vectors, questions: Vectors) -> float:
    """The mean similarity of the passages at a rank, from 1."""
    return float(np.partition(questions @ vectors.T, -rank, axis=1)[:, -rank].mean())
