import gzip
import io
import json
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from langchain_core.documents import Document

from briefcontext.errors import InputError
from briefcontext.knowledge.sources.source import Entry, Reject
from briefcontext.knowledge.sources.tables import (
    COLUMNS,
    MAX_LINE_BYTES,
    columns_of,
    csv_rows,
    jsonl_rows,
    read_table,
    without_text,
)

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
        (
            {"id": "pubmed_1", "title": "T", "content": "X", "contents": "T. X", "PMID": 21},
            "pubmed_1",
            "21",
            "https://pubmed.ncbi.nlm.nih.gov/21/",
        ),
        (
            {"id": "book_1", "title": "T", "content": "X", "contents": "T. X"},
            "book_1",
            "book_1",
            None,
        ),
        ({"id": "7", "title": "T", "contents": "X"}, "7", "7", None),
        (
            {"id": "21", "pmid": "21", "title": "T", "text": "X"},
            "21",
            "21",
            "https://pubmed.ncbi.nlm.nih.gov/21/",
        ),
        (
            {"pmid": 21.0, "title": "T", "text": "X"},
            "21",
            "21",
            "https://pubmed.ncbi.nlm.nih.gov/21/",
        ),
        (
            {"id": 7, "title": "T", "text": "X", "source_id": 70, "url": "https://x/"},
            "7",
            "70",
            "https://x/",
        ),
        ({"id": "7", "title": "T", "text": "X", "pmid": "PMC21"}, "7", "7", None),
    ],
    ids=[
        "BEIR",
        "MedRAG PubMed",
        "MedRAG textbook",
        "contents",
        "pmid",
        "pmid only",
        "own",
        "no PMID",
    ],
)
def test_the_usual_columns_are_found(
    row: dict[str, Any], id: str, source_id: str, url: str | None
) -> None:
    document = read_row(row)
    assert (document.id, document.page_content, document.metadata["title"]) == (id, "X", "T")
    assert document.metadata["source_id"] == source_id
    assert document.metadata.get("url") == url


def test_metadata_are_flat_and_typed() -> None:
    document = read_row(
        PLAIN
        | {
            "year": "2004 Jan",
            "publication_types": ["Journal Article", "Retracted Publication"],
            "journal": "J",
        }
        | {
            "n": 3,
            "flag": False,
            "share": 0.5,
            "note": "x",
            "list": [1],
            "object": {},
            "none": None,
        }
        | {"rank": 1, "score": 2.5}
    )
    assert document.metadata == {
        "source_id": "a",
        "title": "A title",
        "kind": "passage",
        "year": 2004,
        "publication_types": "Journal Article; Retracted Publication",
        "retracted": True,
        "journal": "J",
        "chunk_index": 0,
        "start": 0,
        "end": 7,
        "n": 3,
        "flag": False,
        "share": 0.5,
        "note": "x",
    }


def test_a_passage_keeps_its_place_in_its_source() -> None:
    metadata = read_row(
        PLAIN | {"source_id": "s", "chunk_index": 4, "start": 900, "end": 950}
    ).metadata
    assert [metadata[name] for name in ("chunk_index", "start", "end")] == [4, 900, 950]
    assert read_row(PLAIN | {"start": 900}).metadata["end"] == 907


@pytest.mark.parametrize(
    ("value", "retracted"),
    [
        *((value, True) for value in (True, 1, 1.0, "true", "maybe", [], {"on": "2020-05-01"})),
        *((value, None) for value in (False, 0, "No", None)),
    ],
)
def test_retracted_is_what_is_not_known_to_be_no(value: object, retracted: bool | None) -> None:
    assert read_row(PLAIN | {"retracted": value}).metadata.get("retracted") is retracted


@pytest.mark.parametrize(
    ("types", "held"),
    [("A;B", "A; B"), (["A", "B"], "A; B"), ([], None), (None, None), ({"A": 1}, None)],
)
def test_publication_types_are_a_list_or_a_string(types: object, held: str | None) -> None:
    assert read_row(PLAIN | {"publication_types": types}).metadata.get("publication_types") == held
    assert read_row(PLAIN | {"publication_types": [{"name": "Retracted Publication"}]}).metadata[
        "retracted"
    ]


@pytest.mark.parametrize(
    ("row", "metadata"),
    [
        ({"mesh": ["Asthma", " Gout"]}, {"mesh": "Asthma; Gout"}),
        (
            {"mesh": "Asthma;Gout", "languages": ["eng"]},
            {"mesh": "Asthma; Gout", "languages": "eng"},
        ),
        ({"language": "en"}, {"languages": "en"}),
        ({"mesh": {"a": 1}, "languages": [1]}, {}),
    ],
)
def test_headings_and_languages_are_lists_or_strings(
    row: dict[str, Any], metadata: dict[str, str]
) -> None:
    found = read_row(PLAIN | row).metadata
    assert {
        name: found[name] for name in ("mesh", "languages", "language") if name in found
    } == metadata


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_title_is_the_text_of_a_row_without_one(text: str | None) -> None:
    document = read_row(PLAIN | {"text": text})
    assert (document.page_content, document.metadata["kind"]) == ("A title", "title")


def test_a_row_needs_no_title() -> None:
    assert read_row(PLAIN | {"title": None}).metadata["title"] == ""
    assert read_row({"id": "a", "text": "A text."}).metadata["title"] == ""


def test_a_mapping_names_the_columns() -> None:
    row = {"doc": "d1", "body": "X", "id": "other", "text": "another", "n": 1}
    document = read_row(row, id="doc", text="body")
    assert (document.id, document.page_content, document.metadata["n"]) == ("d1", "X", 1)
    assert not {"doc", "body", "id", "text"} & document.metadata.keys()
    assert reject('{"id": "d1", "body": "X"}', id="doc", text="body").reason == "It has no id: doc."


def test_a_mapping_of_an_unknown_field_is_refused() -> None:
    with pytest.raises(InputError, match=r"no field 'body'.*use one of id, title, text"):
        columns_of({"body": "text"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "a", "text": "x"', "The line is not JSON: "),
        (b"[1]", "The line holds [1] where a JSON object is needed."),
        (b"null", "The line holds null where a JSON object is needed."),
        (b"[" * 100_000, "The line is not JSON: "),
        (
            b'{"id": "a", "text": "\xe9"}',
            "The line is not UTF-8: invalid continuation byte at byte 21.",
        ),
        (b'{"text": "x"}', "It has no id: "),
        (b'{"id": "", "text": "x"}', "It has no id: "),
        (b'{"id": 1.5, "text": "x"}', "Its id is 1.5 where a string or a whole number is needed."),
        (
            b'{"id": true, "text": "x"}',
            "Its id is True where a string or a whole number is needed.",
        ),
        (b'{"id": "a"}', "It has neither a text (text or content or contents) nor a title."),
        (b'{"id": "a", "text": "", "title": " "}', "It has neither a text "),
        (b'{"id": "a", "text": ["x"]}', "Its text is ['x'] where a string is needed."),
        (b'{"id": "a", "text": 0}', "Its text is 0 where a string is needed."),
        (b'{"id": "a", "title": 5}', "Its title is 5 where a string is needed."),
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


def test_blank_lines_and_a_byte_order_mark_are_no_records() -> None:
    lines = "\ufeff" + json.dumps(PLAIN) + "\r\n\n  \n" + '{"id": "b"}\n\n'
    document, bad = read(lines)
    assert isinstance(document, Document)
    assert document.id == "a"
    assert isinstance(bad, Reject)
    assert bad.position == "line 4"


def test_labels_are_read_leniently_and_places_are_whole_numbers() -> None:
    (document,) = read(
        '{"id": "a", "text": "X", "retracted": " yes ", "mesh": ["A", null, "B"], "chunk_index": true, "start": "7", '
        '"end": false}'
    )
    assert isinstance(document, Document)
    found = {
        name: document.metadata[name]
        for name in ("retracted", "mesh", "chunk_index", "start", "end")
    }
    assert found == {"retracted": True, "mesh": "A; B", "chunk_index": 0, "start": 7, "end": 8}


def test_what_a_data_frame_writes_for_gaps_is_no_value() -> None:
    (document,) = read('{"id": 3.0, "title": NaN, "text": "X", "year": 2004.0, "n": NaN}')
    assert isinstance(document, Document)
    assert (document.id, document.metadata["title"], document.metadata["year"]) == ("3", "", 2004)
    assert "n" not in document.metadata


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


def test_rows_before_damage_in_compressed_data_are_kept() -> None:
    lines = [json.dumps(PLAIN | {"id": str(number), "n": number**50}) for number in range(1000)]
    content = "\n".join(lines).encode()
    packed = gzip.compress(content)[:-2000]
    readable = _readable_lines(packed)
    with gzip.open(io.BytesIO(packed)) as stream:
        *documents, last = read_table(stream, jsonl_rows)
    assert [entry.id for entry in documents if isinstance(entry, Document)] == [
        str(n) for n in range(readable)
    ]
    assert 100 < readable < 1000
    assert last == Reject(
        f"after record {readable}",
        "The compressed data is damaged: Compressed file ended before the end-of-stream marker was "
        "reached",
    )


def _readable_lines(packed: bytes) -> int:
    return zlib.decompressobj(wbits=31).decompress(packed).count(b"\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"id": 1, "text": null}', None),
        ('\n{"id": 1, "contents": "x"}', None),
        (
            'not json\n{"id": 1, "file": "x"}',
            "its rows have no column 'text' or 'content' or 'contents', but 'id', 'file'",
        ),
        (
            '{"id": 1, "title": "x"}',
            "its rows have no column 'text' or 'content' or 'contents', but 'id', 'title'",
        ),
        ("{}", "its rows have no column 'text' or 'content' or 'contents', but none at all"),
        ("", None),
        ("not json", None),
    ],
)
def test_a_table_without_a_column_of_text_is_told_by_its_first_row(
    content: str, problem: str | None
) -> None:
    assert without_text(jsonl_rows(io.BytesIO(content.encode())), COLUMNS) == problem


@pytest.mark.parametrize(("head", "is_table"), [("id,title\n", False), ("id;title;text\n", True)])
def test_a_table_without_rows_is_told_by_its_head(head: str, is_table: bool) -> None:
    assert (without_text(csv_rows(io.BytesIO(head.encode())), COLUMNS) is None) == is_table


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


def test_only_a_line_feed_ends_a_line() -> None:
    texts = [f"Before{separator}after." for separator in "\u2028\u2029\x85"]
    rows = [
        json.dumps({"id": str(number), "text": text}, ensure_ascii=False)
        for number, text in enumerate(texts)
    ]
    entries = read("\n".join(rows))
    assert [entry.page_content for entry in entries if isinstance(entry, Document)] == texts
    assert without_text(jsonl_rows(io.BytesIO(rows[0].encode())), COLUMNS) is None
