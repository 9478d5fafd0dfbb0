"""Opening a knowledge base, searching it, and finding out what is wrong with it."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from langchain_core.documents import Document

from briefcontext.errors import KnowledgeBaseError
from briefcontext.knowledge.build import build_knowledge_base
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from briefcontext.knowledge.store.manifest import PASSAGES
from briefcontext.knowledge.store.place import open_place
from briefcontext.knowledge.store.table import Table, bring_up_to_date
from tests.hashing_encoder import HashingEncoder

WORDS = [
    "aspirin",
    "stroke",
    "fever",
    "gout",
    "sepsis",
    "asthma",
    "migraine",
    "trial",
    "cohort",
    "placebo",
]
SIZE = 700


def passage(number: int) -> Document:
    text = " ".join(WORDS[number // 10**place % 10] for place in range(3)) + f" in case {number}."
    metadata = {"source_id": f"p{number:03d}", "title": "", "retracted": number % 100 == 0}
    return Document(id=f"p{number:03d}", page_content=text, metadata=metadata)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases") / "kb"
    build_knowledge_base(
        [passage(number) for number in range(SIZE)], folder, encoder=HashingEncoder()
    )
    return folder


@pytest.fixture
def base(built: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(built, encoder=HashingEncoder()) as opened:
        yield opened


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return shutil.copytree(built, tmp_path / "kb")


def edit_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def stop_first_build(folder: Path) -> None:
    (folder / "manifest.json").rename(folder / "build.json")


def stop_update(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "build.json").write_text(json.dumps(manifest | {"serial": manifest["serial"] + 1}))


def change_passages(change: Callable[[Table], object]) -> Callable[[Path], None]:
    """Change the table of passages without the manifest."""

    def damage(folder: Path) -> None:
        table = Table(str(open_place(folder).locate(f"{PASSAGES}.lance")))
        change(table)
        versions = json.loads((folder / "manifest.json").read_text())["versions"]
        edit_manifest(folder, versions=versions | {"passages": table.version})

    return damage


def replace_rows(where: str, **values: object) -> Callable[[Path], None]:
    """Give the rows that fulfil a condition other values, and index them."""

    def change(table: Table) -> None:
        rows = table.read(table.data.schema.names, where)
        for name, value in values.items():
            column = pa.array([value] * len(rows), rows.schema.field(name).type)
            rows = rows.set_column(
                rows.schema.get_field_index(name), rows.schema.field(name), column
            )
        table.data.delete(where)
        table.append(rows)
        bring_up_to_date(table, "cosine", 0)

    return change_passages(change)


def garble(folder: Path, pattern: str) -> None:
    for file in folder.glob(pattern):
        file.write_bytes(b"no table" * 100)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (shutil.rmtree, "There is no knowledge base at"),
    "half-built": (stop_first_build, "half-built"),
    "newer": (lambda folder: edit_manifest(folder, format_version=99), "format_version"),
    "no JSON": (
        lambda folder: (folder / "manifest.json").write_text("{"),
        "manifest.json is damaged",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_base_is_one_clear_error(copied: Path, damage: str) -> None:
    inflict, message = DAMAGES[damage]
    inflict(copied)
    with pytest.raises(KnowledgeBaseError, match=message) as raised:
        KnowledgeBase.open(copied)
    assert str(copied) in str(raised.value)
    assert "\n" not in str(raised.value)


PASSAGE_DAMAGES: dict[str, Callable[[Path], object]] = {
    "no passages": lambda folder: shutil.rmtree(folder / "passages.lance"),
    "garbled version": lambda folder: garble(folder, "passages.lance/_versions/*.manifest"),
    "garbled rows": lambda folder: garble(folder, "passages.lance/data/*"),
}


@pytest.mark.parametrize("damage", PASSAGE_DAMAGES)
def test_passages_that_cannot_be_read_are_one_clear_error(copied: Path, damage: str) -> None:
    PASSAGE_DAMAGES[damage](copied)
    with (
        KnowledgeBase.open(copied, encoder=HashingEncoder()) as base,
        pytest.raises(KnowledgeBaseError, match=r"passages\.lance cannot be used") as raised,
    ):
        base.get(["p001"])
    assert "\n" not in str(raised.value)
    with KnowledgeBase.open(copied, encoder=HashingEncoder()) as base:
        (problem,) = base.verify()
    assert "passages.lance cannot be used" in problem


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (HashingEncoder(name="bge"), "encoder 'hashing', not 'bge'"),
        (HashingEncoder(dimension=8), "dimension 16"),
    ],
)
def test_another_encoder_is_refused(built: Path, encoder: HashingEncoder, message: str) -> None:
    with pytest.raises(KnowledgeBaseError) as raised:
        KnowledgeBase.open(built, encoder=encoder)
    assert message in str(raised.value)


@pytest.mark.parametrize("metric", ["cosine"])
def test_search_ranks_by_similarity(tmp_path: Path, metric: Literal["cosine", "ip"]) -> None:
    encoder = HashingEncoder(metric=metric)
    documents = [passage(number) for number in range(0, SIZE, 7)]
    build_knowledge_base(documents, tmp_path, encoder=encoder)
    query = encoder.encode_queries(["aspirin for stroke"])[0]
    vectors = encoder.encode_passages([("", document.page_content) for document in documents])
    scores = {
        str(document.id): score for document, score in zip(documents, vectors @ query, strict=True)
    }
    with KnowledgeBase.open(tmp_path, encoder=encoder) as base:
        found = base.search("aspirin for stroke", 20)
    assert [document.metadata["rank"] for document in found] == list(range(1, 21))
    best = sorted(scores.values(), reverse=True)[:20]
    # Vectors are kept in half precision.
    rounding = pytest.approx(best, abs=1e-3 * float(best[0]))
    assert [scores[str(document.id)] for document in found] == rounding
    assert [document.metadata["score"] for document in found] == rounding
    assert all(type(document.metadata["score"]) is float for document in found)


def test_passages_come_in_the_order_asked_for(base: KnowledgeBase) -> None:
    ids = [f"p{number:03d}" for number in (5, 699, 0, 5)]
    assert base.get(ids) == [passage(number) for number in (5, 699, 0, 5)]
    everything = [f"p{number:03d}" for number in reversed(range(SIZE))]
    assert [document.id for document in base.get(everything * 2)] == everything * 2
    assert base.get([]) == []


def test_retracted_passages_are_found_marked_and_counted(base: KnowledgeBase) -> None:
    assert base.manifest.retracted == 7
    marked = [
        document.id for document in base.search("fever", SIZE) if document.metadata["retracted"]
    ]
    assert sorted(marked) == [f"p{number:03d}" for number in range(0, SIZE, 100)]


def test_many_threads_may_search_at_once(base: KnowledgeBase) -> None:
    questions = [f"{first} {second}" for first in WORDS for second in WORDS]
    expected = [base.search(question, 10) for question in questions]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda question: base.search(question, 10), questions)) == expected


PROBLEMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "record count": (lambda folder: edit_manifest(folder, records=1), "700 records"),
    "passage gone": (change_passages(lambda table: table.delete("id", ["p009"])), "699 passages"),
    "other vectors": (replace_rows("true", vector=[1.0] * 16), "vector of passage 'p000'"),
    "update stopped": (stop_update, "is not complete"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_verify_finds_inconsistencies(copied: Path, problem: str) -> None:
    damage, message = PROBLEMS[problem]
    damage(copied)
    with KnowledgeBase.open(copied, encoder=HashingEncoder()) as base:
        found = "\n".join(base.verify())
    assert re.search(message, found), found
