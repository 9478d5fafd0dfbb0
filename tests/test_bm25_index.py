"""The BM25 index of a corpus: the same scores as a pool's, from files that may be broken or replaced."""

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.bm25_build import build_index
from briefcontext.knowledge.bm25_index import BM25Index
from briefcontext.knowledge.tokenizer import lexical_text, tokenize
from briefcontext.retrievers.bm25 import rank_by_bm25
from tests.conftest import SHARED_DATA

PASSAGES = [
    ("1", "Aspirin lowers the risk of stroke."),
    ("2", "IL-6 is raised in sepsis."),
    ("é#3", "Fever in children; aspirin is to be avoided."),
    ("4", ""),
    ("5", "IL-6 is raised in sepsis."),
]


@pytest.fixture
def index(tmp_path: Path) -> BM25Index:
    return BM25Index.build(PASSAGES, tmp_path / "bm25")


def pool_search(query: str, passages: list[tuple[str, str]], k: int) -> list[tuple[str, float]]:
    ranking = rank_by_bm25(query, [Document(page_content=text) for _, text in passages])
    return [(passages[i][0], ranking.scores[i]) for i in ranking.order if ranking.scores[i] > 0][:k]


def assert_same_hits(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> None:
    assert [id for id, _ in found] == [id for id, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-4)


@pytest.mark.parametrize("query", ["aspirin", "Does aspirin prevent stroke?", "IL6", "raised IL-6 IL-6", "é"])
@pytest.mark.parametrize("k", [1, 2, 16])
def test_scores_and_ranks_as_the_pool_ranking_does(index: BM25Index, query: str, k: int) -> None:
    assert_same_hits(index.search(query, k), pool_search(query, PASSAGES, k))


def test_equal_scores_are_in_the_order_of_indexing(tmp_path: Path) -> None:
    index = BM25Index.build([(str(i), "stroke" if i % 3 else "fever") for i in range(50, 0, -1)], tmp_path / "i")
    assert [id for id, _ in index.search("stroke", 5)] == ["50", "49", "47", "46", "44"]


@pytest.mark.parametrize("query", ["", "the", "?", "hypertension"])
def test_what_no_passage_holds_finds_nothing(index: BM25Index, query: str) -> None:
    assert index.search(query, 16) == []


def test_statistics_count_passages_and_terms(index: BM25Index) -> None:
    statistics = index.statistics
    assert (len(index), statistics.n_documents) == (5, 5)
    assert statistics.average_length == pytest.approx(sum(len(tokenize(text)) for _, text in PASSAGES) / 5)
    frequencies = {term: statistics.document_frequency(term) for term in ["il", "aspirin", "fever", "a", "zzz", ""]}
    assert frequencies == {"il": 2, "aspirin": 2, "fever": 1, "a": 0, "zzz": 0, "": 0}


@pytest.mark.parametrize("passages", [[], [("1", "")], [("1", "the"), ("2", "?")]], ids=["none", "empty", "no terms"])
def test_a_corpus_without_terms_is_an_index_that_finds_nothing(tmp_path: Path, passages: list[tuple[str, str]]) -> None:
    BM25Index.build(passages, tmp_path / "bm25")
    index = BM25Index.open(tmp_path / "bm25")
    assert (len(index), index.search("stroke", 3)) == (len(passages), [])
    assert index.statistics.document_frequency("stroke") == 0
    assert index.statistics.average_length == 0


def test_an_opened_index_is_the_one_that_was_built(index: BM25Index, tmp_path: Path) -> None:
    assert BM25Index.open(tmp_path / "bm25").search("aspirin sepsis", 9) == index.search("aspirin sepsis", 9)


def test_an_index_is_built_from_a_stream_read_once(tmp_path: Path) -> None:
    assert len(BM25Index.build(iter(PASSAGES), tmp_path / "deep" / "bm25")) == len(PASSAGES)


def test_a_new_index_replaces_the_old(index: BM25Index, tmp_path: Path) -> None:
    rebuilt = BM25Index.build([("9", "gout")], tmp_path / "bm25")
    assert (rebuilt.search("gout", 1)[0][0], rebuilt.search("aspirin", 1)) == ("9", [])
    assert [path.name for path in tmp_path.iterdir()] == ["bm25"]


def test_a_failed_build_leaves_the_old_index_and_nothing_else(index: BM25Index, tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield "9", "gout"
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        BM25Index.build(broken(), tmp_path / "bm25")
    assert BM25Index.open(tmp_path / "bm25").search("aspirin", 9) == index.search("aspirin", 9)
    assert [path.name for path in tmp_path.iterdir()] == ["bm25"]


def test_what_a_killed_build_left_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("bm25.unfinished", "bm25.replaced"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scores.npy").write_bytes(b"half")
    BM25Index.build(PASSAGES, tmp_path / "bm25")
    assert [path.name for path in tmp_path.iterdir()] == ["bm25"]


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def halve(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return damage


def store(name: str, values: object) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, np.asarray(values))


def change_header(**changes: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        header = json.loads((folder / "index.json").read_text())
        (folder / "index.json").write_text(json.dumps(header | changes))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("index.json"), "missing or damaged"),
        (remove("scores.npy"), "missing or damaged"),
        (remove("ids_offsets.npy"), "missing or damaged"),
        (write("index.json", b"{"), "missing or damaged"),
        (write("index.json", b"[]"), "missing or damaged"),
        (write("index.json", b"{}"), "missing or damaged"),
        (write("terms.npy", b""), "missing or damaged"),
        (write("terms.npy", b"junk that is no array"), "missing or damaged"),
        (halve("documents.npy"), "missing or damaged"),
        (store("scores.npy", np.zeros(3, np.float64)), "float64"),
        (store("ids_offsets.npy", np.zeros(0, np.int64)), "belong together"),
        (store("scores.npy", np.zeros(1, np.float32)), "belong together"),
        (store("postings.npy", np.zeros(0, np.int64)), "belong together"),
        (change_header(n_documents=4), "belong together"),
        (change_header(tokenizer="another"), "'another'"),
        (change_header(k1=9.9), "9.9"),
        (change_header(n_documents="many"), "missing or damaged"),
    ],
)
def test_a_damaged_index_is_refused(
    index: BM25Index, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(tmp_path / "bm25")
    with pytest.raises(KnowledgeBaseError, match=message) as raised:
        BM25Index.open(tmp_path / "bm25")
    assert "build the knowledge base again" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="nowhere"):
        BM25Index.open(tmp_path / "nowhere")


def test_chunks_of_the_build_do_not_show(tmp_path: Path) -> None:
    passages = [(str(i), f"stroke {'aspirin ' * (i % 3)} trial {i % 7}") for i in range(40)]
    whole = BM25Index.build(passages, tmp_path / "whole")
    build_index(passages, tmp_path / "chunked", chunk_occurrences=5)
    chunked = BM25Index.open(tmp_path / "chunked")
    for query in ("stroke", "aspirin 3", "trial 6 aspirin"):
        assert chunked.search(query, 40) == whole.search(query, 40)


words = st.sampled_from(["stroke", "aspirin", "fever", "α", "the", "IL-6", "IL6", "漢字", "0.05"])
sentences = st.lists(words, max_size=6).map(" ".join)


@given(st.lists(sentences, max_size=12), sentences, st.integers(1, 14))
def test_index_and_pool_agree_on_any_corpus(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str, k: int
) -> None:
    passages = [(f"p{i}", text) for i, text in enumerate(texts)]
    index = BM25Index.build(passages, tmp_path_factory.mktemp("corpus") / "bm25")
    expected = dict(pool_search(query, passages, len(passages)))
    found = index.search(query, k)
    assert len(found) == min(k, len(expected))
    assert dict(found) == pytest.approx({id: expected[id] for id, _ in found}, abs=1e-4)
    assert [score for _, score in found] == pytest.approx(sorted(expected.values(), reverse=True)[:k], abs=1e-4)


def test_threads_may_share_an_index(index: BM25Index) -> None:
    queries = ["aspirin stroke", "IL-6", "fever children", "sepsis"] * 50
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: index.search(query, 3), queries))
    assert found == [index.search(query, 3) for query in queries]


@pytest.fixture(scope="module")
def bioasq(tmp_path_factory: pytest.TempPathFactory) -> tuple[BM25Index, list[tuple[str, str]]]:
    path = SHARED_DATA / "bioasq" / "corpus.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    passages = [(row["id"], lexical_text(row["title"] or "", row["text"])) for row in rows]
    return BM25Index.build(passages, tmp_path_factory.mktemp("bioasq") / "bm25"), passages


def bioasq_questions() -> list[dict[str, object]]:
    with (SHARED_DATA / "bioasq" / "queries.jsonl").open(encoding="utf-8") as lines:
        return [row for line in lines if (row := json.loads(line))["type"] == "yesno"]


def test_index_and_pool_agree_on_a_real_corpus(bioasq: tuple[BM25Index, list[tuple[str, str]]]) -> None:
    index, passages = bioasq
    some = passages[:2000]
    documents = [Document(page_content=text) for _, text in some]
    places = {id: place for place, (id, _) in enumerate(some)}
    for question in bioasq_questions()[:10]:
        query = str(question["question"])
        scores = rank_by_bm25(query, documents, index.statistics).scores
        for id, score in index.search(query, 500):
            if id in places:
                assert scores[places[id]] == pytest.approx(score, abs=1e-4)


def test_bm25_finds_a_passage_that_answers(bioasq: tuple[BM25Index, list[tuple[str, str]]]) -> None:
    index, _ = bioasq
    questions = bioasq_questions()
    hits = {1: 0, 16: 0}
    for question in questions:
        gold = question["gold_pmids_in_corpus"]
        assert isinstance(gold, list)
        found = [id for id, _ in index.search(str(question["question"]), 16)]
        for k in hits:
            hits[k] += any(id in gold for id in found[:k])
    assert hits[1] / len(questions) > 0.82
    assert hits[16] / len(questions) > 0.955
