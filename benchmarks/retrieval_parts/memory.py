"""How much memory building, opening and searching take, and how long it is to the first result."""

from retrieval_parts import isolated
from retrieval_parts.bench import Bench, Report, Row, SyntheticBase
from retrieval_parts.corpora import titled_texts


def memory(bench: Bench) -> Report:
    """Run each case in a process of its own."""
    idle = isolated.run(isolated.imports)
    rows: list[Row] = [{"case": "imports only", **idle}, *_encoding_rows(bench, idle)]
    for made in bench.synthetic:
        rows += _searching_rows(made, bench, idle)
    return Report(
        "Memory; first ms: from opening to a result; ratio: the reference's MB above imports only / ours",
        {
            "passages": ",",
            "case": "",
            "peak MB": ",.0f",
            "first ms": ",.1f",
            "passages/s": ",.0f",
            "per CPU s": ",.0f",
            "reference": "",
            "ratio": ".2f",
        },
        rows,
    )


def _encoding_rows(bench: Bench, idle: Row) -> list[Row]:
    texts = titled_texts(bench.distractors[: bench.sizes.build_snippets // 4])
    bare = isolated.run(isolated.encode, texts)
    built = isolated.run(isolated.build_encoding, texts, bench.folder / "encoded")
    return [
        {"passages": len(texts), "case": "build, encoding", **built, **_ratio(built, "bare encoder", bare, idle)},
        {"passages": len(texts), "case": "bare encoder", **bare},
    ]


def _searching_rows(made: SyntheticBase, bench: Bench, idle: Row) -> list[Row]:
    corpus, folder = made.corpus, made.folder
    vectors = bench.encoder.encode_queries(bench.queries)
    dense = isolated.run(isolated.search_vectors, folder, vectors)
    numpy = isolated.run(isolated.search_numpy, corpus, vectors)
    bm25 = isolated.run(isolated.search_terms, folder, bench.queries)
    rank_bm25 = isolated.run(isolated.search_rank_bm25, corpus, bench.queries)
    rows = [
        {"case": "build, vectors given", **made.built},
        {"case": "open", **isolated.run(isolated.open_base, folder)},
        {"case": "open, dense", **dense, **_ratio(dense, "numpy", numpy, idle)},
        {"case": "numpy", **numpy},
        {"case": "open, BM25", **bm25, **_ratio(bm25, "rank_bm25", rank_bm25, idle)},
        {"case": "rank_bm25", **rank_bm25},
    ]
    return [{"passages": corpus.size, **row} for row in rows]


def _ratio(ours: Row, name: str, reference: Row, idle: Row) -> Row:
    above, reference_above = (case["peak MB"] - idle["peak MB"] for case in (ours, reference))
    return {"reference": name, "ratio": reference_above / above}
