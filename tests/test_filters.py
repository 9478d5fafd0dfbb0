"""Filters: which passages a search may find."""

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from briefcontext.knowledge import Filters, KnowledgeBase
from briefcontext.knowledge.store.filters import one_of
from briefcontext.knowledge.store.table import Table
from tests.hashing_encoder import HashingEncoder
from tests.knowledge_bases import build, record, source

TYPES = ("Journal Article", "Randomized Controlled Trial", "Review")
JOURNALS = ("The Lancet", "Children's Health", "BMJ")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("filtered") / "kb"
    records = [
        record(
            f"r{number:02d}",
            f"Aspirin for stroke in group {number}.",
            year=1980 + number,
            publication_types=f"Journal Article; {TYPES[number % 3]}",
            journal=JOURNALS[number % 3],
            mesh="Stroke; Aspirin / therapeutic use" if number % 2 else "Stroke",
            languages="eng; fre" if number % 10 == 0 else "eng",
        )
        for number in range(60)
    ]
    # All chunks of an article have its types.
    text = "Aspirin was compared with placebo for stroke. " * 25
    trial = record("trial", text, kind="article", publication_types=TYPES[1])
    build(
        folder,
        source("a", *records, record("bare", "Aspirin for stroke, of unknown origin."), trial),
    )
    with KnowledgeBase.open(folder, encoder=HashingEncoder()) as opened:
        yield opened


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (Filters(), 63),
        (Filters(first_year=2030), 10),
        (Filters(last_year=1989), 10),
        (Filters(first_year=1990, last_year=1999), 10),
        (Filters(first_year=2100), 0),
        (Filters(publication_types=("randomized controlled trial",)), 22),
        (Filters(publication_types=("Review", "Randomized Controlled Trial")), 42),
        (Filters(publication_types=("Randomized trial",)), 22),
        (Filters(publication_types=("Randomised trial",)), 22),
        (Filters(publication_types=("RANDOMISED CONTROLLED TRIAL ",)), 22),
        (Filters(journals=("CHILDREN'S HEALTH",)), 20),
        (Filters(mesh=("Aspirin / therapeutic use",)), 30),
        (Filters(languages=("fre",)), 6),
        (Filters(languages=("fre",), mesh=("Aspirin / therapeutic use",)), 0),
        (Filters(first_year=2020, journals=("BMJ", "The Lancet"), languages=("eng",)), 13),
        (Filters(journals=("' OR '1'='1",)), 0),
    ],
)
def test_a_search_finds_those_that_a_filter_lets_through(
    base: KnowledgeBase, filters: Filters, found: int
) -> None:
    for documents in (
        base.search("Aspirin for stroke", 100, filters),
        base.search_terms("Aspirin for stroke", 100, filters),
    ):
        assert len(documents) == found


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=4))
def test_any_value_is_compared_as_it_is(base: KnowledgeBase, values: list[str]) -> None:
    table = Table(str(base.path / "passages.lance"))
    held = {"r07", "bare"}
    assert table.count(one_of("id", [*values, *held])) == len(
        held | ({f"r{n:02d}" for n in range(60)} & set(values))
    )
