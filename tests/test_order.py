"""Putting documents back in the order of their source."""

from hypothesis import given, strategies as st
from langchain_core.documents import Document

from briefcontext.retrievers.rankings import order_preserving


def _chunk(source: str, index: int) -> Document:
    metadata = {"source_id": source, "chunk_index": index, "start": index * 100}
    return Document(id=f"{source}#{index}", page_content="text", metadata=metadata)


CHUNKS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), unique=True).map(
    lambda places: [_chunk(*place) for place in places]
)


def _ids(documents: list[Document]) -> list[str]:
    return [str(document.id) for document in documents]


def test_groups_stand_by_best_rank_and_chunks_by_position() -> None:
    ranked = [_chunk("b", 7), _chunk("a", 3), _chunk("b", 2), _chunk("a", 1)]
    assert _ids(order_preserving(ranked)) == ["b#2", "b#7", "a#1", "a#3"]


def test_chunks_of_the_parts_of_a_source_are_not_mixed_by_their_places_in_the_parts() -> None:
    chunks = [_chunk("a", index) for index in range(4)]
    for chunk, start in zip(chunks, [0, 900, 0, 800], strict=True):
        chunk.metadata["start"] = start
    assert order_preserving(chunks[::-1]) == chunks


@given(ranked=CHUNKS)
def test_the_arrangement_is_a_permutation(ranked: list[Document]) -> None:
    assert sorted(_ids(order_preserving(ranked))) == sorted(_ids(ranked))


@given(ranked=CHUNKS)
def test_arranging_again_changes_nothing(ranked: list[Document]) -> None:
    once = order_preserving(ranked)
    assert order_preserving(once) == once


@given(ranked=CHUNKS)
def test_one_source_is_sorted_by_position(ranked: list[Document]) -> None:
    one = [document for document in ranked if document.metadata["source_id"] == "a"]
    assert order_preserving(one) == sorted(
        one, key=lambda document: document.metadata["chunk_index"]
    )
