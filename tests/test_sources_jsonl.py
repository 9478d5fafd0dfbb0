import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.knowledge.sources.source import Entry, Reject
from briefcontext.knowledge.sources.tables import MAX_LINE_BYTES, columns_of, jsonl_rows, read_table

URL = "https://pubmed.ncbi.nlm.nih.gov/21/"
PLAIN = {"id": "a", "title": "A title", "text": "A text."}


def read(content: bytes | str, **fields: str) -> list[Entry]:
    stream = io.BytesIO(content.encode() if isinstance(content, str) else content)
    return list(read_table(stream, jsonl_rows, columns_of(fields)))


def read_row(row: dict[str, Any], **fields: str) -> Document:
    (entry,) = read(json.dumps(row), **fields)
    assert isinstance(entry, Document), entry
    return entry


def reject(content: bytes | str, **fields: str) -> Reject:
    (entry,) = read(content, **fields)
    assert isinstance(entry, Reject), entry
    return entry


@pytest.mark.parametrize(
    ("row", "id", "source_id", "url"),
    [
        ({"_id": "7", "title": "T", "text": "X", "metadata": {}}, "7", "7", None),
        ({"id": "p", "title": "T", "content": "X", "contents": "T. X", "PMID": 21}, "p", "21", URL),
        ({"pmid": 21.0, "title": "T", "text": "X"}, "21", "21", URL),
        ({"id": 7, "title": "T", "text": "X", "source_id": 70, "url": "u"}, "7", "70", "u"),
        ({"id": "7", "title": "T", "text": "X", "pmid": "PMC21"}, "7", "7", None),
    ],
    ids=["BEIR", "MedRAG", "PMID only", "source and address", "no PMID"],
)
def test_the_usual_columns_are_found(
    row: dict[str, Any], id: str, source_id: str, url: str | None
) -> None:
    document = read_row(row)
    assert (document.id, document.page_content, document.metadata["title"]) == (id, "X", "T")
    assert document.metadata["source_id"] == source_id
    assert document.metadata.get("url") == url


@pytest.mark.parametrize(
    ("value", "retracted"),
    [
        *((value, True) for value in (True, 1, 1.0, "true", "maybe", [], {"on": "2020-05-01"})),
        *((value, None) for value in (False, 0, "No", None)),
    ],
)
def test_retracted_is_what_is_not_known_to_be_no(value: object, retracted: bool | None) -> None:
    assert read_row(PLAIN | {"retracted": value}).metadata.get("retracted") is retracted


def test_a_mapping_names_the_columns() -> None:
    row = {"doc": "d1", "body": "X", "id": "other", "text": "another", "n": 1}
    document = read_row(row, id="doc", text="body")
    assert (document.id, document.page_content, document.metadata["n"]) == ("d1", "X", 1)
    assert not {"doc", "body", "id", "text"} & document.metadata.keys()
    assert reject('{"id": "d1", "body": "X"}', id="doc", text="body").reason == "It has no id: doc."


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "a", "text": "x"', "The line is not JSON: "),
        (b"[1]", "The line holds [1] where a JSON object is needed."),
        (
            b'{"id": "a", "text": "\xe9"}',
            "The line is not UTF-8: invalid continuation byte at byte 21.",
        ),
        (b'{"text": "x"}', "It has no id: "),
        (b'{"id": 1.5, "text": "x"}', "Its id is 1.5 where a string or a whole number is needed."),
        (b'{"id": "a"}', "It has neither a text (text or content or contents) nor a title."),
        (b'{"id": "a", "text": ["x"]}', "Its text is ['x'] where a string is needed."),
        (b'{"id": "a", "text": "x", "title": {}}', "Its title is {} where a string "),
    ],
)
def test_a_bad_row_is_a_reject_between_good_ones(line: bytes, reason: str) -> None:
    good = json.dumps(PLAIN).encode()
    first, bad, last = read(b"\n".join([good, line, good]))
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert isinstance(bad, Reject)
    assert bad.position == "line 2"
    assert bad.reason.startswith(reason)


def test_a_line_without_end_is_a_reject_in_bounded_memory() -> None:
    class EndlessLine(io.RawIOBase):
        left = 8 * MAX_LINE_BYTES

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            size = min(len(buffer), self.left)
            buffer[:size] = b"x" * size
            self.left -= size
            return size

    tracemalloc.start()
    with io.BufferedReader(EndlessLine(), 1 << 20) as stream:
        (only,) = read_table(stream, jsonl_rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert only == Reject("line 1", f"The line has {MAX_LINE_BYTES:,} bytes or more.")
    assert peak < 4 * MAX_LINE_BYTES


@settings(max_examples=40)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "_id",
                    "text",
                    "title",
                    "pmid",
                    "year",
                    "retracted",
                    "publication_types",
                    "x",
                ]
            ),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda value: (
                    st.lists(value, max_size=2)
                    | st.dictionaries(st.text(max_size=2), value, max_size=2)
                ),
                max_leaves=3,
            ),
        )
    )
)
def test_every_row_is_a_document_or_a_reject(rows: list[dict[str, Any]]) -> None:
    entries = read("\n".join(map(json.dumps, rows)))
    assert len(entries) == len(rows)
    for row, entry in zip(rows, entries, strict=True):
        if isinstance(entry, Document):
            texts = (row.get("text"), row.get("title"))
            assert entry.page_content in texts
            assert all(
                isinstance(value, str | int | float | bool) for value in entry.metadata.values()
            )


@given(st.binary())
def test_any_bytes_are_read_to_their_end(content: bytes) -> None:
    entries: Iterator[Entry] = read_table(io.BytesIO(content), jsonl_rows)
    assert len(list(entries)) <= content.count(b"\n") + 1
