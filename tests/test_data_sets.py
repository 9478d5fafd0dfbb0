"""Data sets from samples of their published layouts, and from the shared data."""

import hashlib
import json
from pathlib import Path

import pytest

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets import DataSet, load_data_set
from briefcontext.evaluation.data_sets.data_set import Item
from tests.conftest import SHARED_DATA

SAMPLES = Path(__file__).parent / "samples"


def _by_id(data: DataSet) -> dict[str, Item]:
    return {item.id: item for item in data.items}


def test_mirage_tells_equal_ids_of_its_subsets_apart() -> None:
    data = load_data_set(f"mirage:{SAMPLES / 'mirage.json'}")
    assert [item.id for item in data.items] == [
        "medqa:toy-1",
        "toy-2",
        "mmlu:toy-1",
        "toy-3",
        "toy-4",
    ]
    assert [item.group for item in data.items] == ["medqa", "medqa", "mmlu", "pubmedqa", "bioasq"]
    assert _by_id(data)["mmlu:toy-1"].answers == ("C",)
    assert _by_id(data)["toy-4"].gold_ids == ("toy-102", "toy-103")
    assert _by_id(data)["toy-2"].gold_ids == ()
    assert data.name == "mirage"
    assert not data.documents


def test_pubmedqa_offers_yes_no_and_maybe() -> None:
    data = load_data_set(f"pubmedqa:{SAMPLES / 'pubmedqa.json'}")
    assert [item.answers for item in data.items] == [("A",), ("B",), ("C",)]
    assert data.items[0].options == {"A": "yes", "B": "no", "C": "maybe"}
    assert data.items[0].gold_ids == ("toy-201",)
    assert data.items[0].question == "Does redol make toys red?"
    assert data.items[0].group == "pubmedqa"


def test_bioasq_has_four_types_of_questions() -> None:
    yesno, factoid, list_, summary = load_data_set(f"bioasq:{SAMPLES / 'bioasq.json'}").items
    assert (yesno.options, yesno.answers) == ({"A": "yes", "B": "no"}, ("A",))
    assert yesno.gold_ids == ("toy301a", "toy301b")
    assert (factoid.options, factoid.answers) == ({}, ("sparkle gland", "glandula scintillans"))
    assert list_.answers == ("redol, bluol", "drug R, bluol")
    assert summary.answers == ("A toy with three feet.", "A three-footed toy.")


def test_a_novel_is_kept_once_for_all_its_questions() -> None:
    data = load_data_set(f"infinitebench-qa:{SAMPLES / 'longbook_qa_eng.jsonl'}")
    assert [item.answers for item in data.items] == [
        ("in a blue box", "a box"),
        ("the toy crow",),
        ("A wooden train",),
    ]
    assert data.items[0].document == data.items[1].document != data.items[2].document
    assert len(data.documents) == 2
    assert "lived in a blue box" in data.documents[data.items[0].document or ""].page_content


def test_a_spreadsheet_is_read_by_its_heads() -> None:
    data = load_data_set(f"medq:{SAMPLES / 'medq.xlsx'}")
    assert [(item.id, item.answers, item.summary) for item in data.items] == [
        ("toy-1", ("Because of greenol.",), True),
        ("toy-2", (), False),
        ("toy-3", ("A toy with three feet.",), True),
    ]
    assert all(not item.options for item in data.items)


HEADS = ["ID", "Question", "Answer", "Domain"]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([], "not MedQ's layout: the first row must have the heads ID, Question, Answer"),
        ([["Open questions"], HEADS], "not MedQ's layout"),
        ([["ID", "Query", "Answer"]], "not MedQ's layout"),
        ([HEADS, [None, None, None]], "no question in"),
        ([HEADS, [1, None, "Because."]], "row 2: it has no"),
        ([HEADS, [None, "Why?", "Because."]], "row 2: an id"),
        ([HEADS, [1, "Why?", None], [1, "How?", None]], "same id '1'"),
    ],
)
def test_a_spreadsheet_without_clear_questions_is_refused(
    tmp_path: Path, rows: list[list[object]], error: str
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "q.xlsx")
    with pytest.raises(InputError, match=error):
        load_data_set(f"medq:{tmp_path / 'q.xlsx'}")


def test_any_json_lines() -> None:
    path = SAMPLES / "questions.jsonl"
    data = load_data_set(str(path))
    items = _by_id(data)
    assert items["toy-1"].answers == ("A",)
    assert items["toy-1"].gold_ids == ("toy-p1", "toy-p2")
    assert items["toy-2"].options == {"A": "greenol", "B": "redol", "C": "bluol"}
    assert items["toy-2"].answers == ("B",)
    assert items["3"].answers == ("blue", "azure")
    assert items["toy-4"].options == {"A": "yes", "B": "no"}
    assert items["toy-4"].gold_ids == ("toy-p3",)
    assert items["toy-5"].answers == ()
    assert data == load_data_set(f"jsonl:{path}")
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def _lines(path: Path, *rows: object) -> str:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return str(path)


def test_answers_that_are_all_yes_no_or_maybe_are_options(tmp_path: Path) -> None:
    rows = [
        {"id": answer, "question": "Is it?", "answer": answer} for answer in ("yes", "no", "maybe")
    ]
    data = load_data_set(_lines(tmp_path / "q.jsonl", *rows))
    assert [item.answers for item in data.items] == [("A",), ("B",), ("C",)]
    data = load_data_set(
        _lines(tmp_path / "q.jsonl", *rows, {"id": "x", "question": "Is it?", "answer": None})
    )
    assert [item.answers for item in data.items] == [("A",), ("B",), ("C",), ()]
    assert data.items[-1].options == data.items[0].options
    data = load_data_set(
        _lines(tmp_path / "q.jsonl", *rows, {"id": "x", "question": "Which?", "answer": "redol"})
    )
    assert [item.answers for item in data.items] == [("yes",), ("no",), ("maybe",), ("redol",)]


def test_own_long_documents_are_files_next_to_the_questions(tmp_path: Path) -> None:
    (tmp_path / "guideline.md").write_text("# Care\n\nGreenol is given twice a day.")
    (tmp_path / "documents.jsonl").write_text('{"id": "d", "title": "Box", "text": "In a box."}\n')
    rows = [
        {"id": 1, "question": "How often?", "document": "guideline.md", "answer": "twice a day"},
        {"id": 2, "question": "Where?", "document": "d"},
        {"id": 3, "question": "Who?", "context": "A toy."},
    ]
    file = _lines(tmp_path / "questions.jsonl", *rows)
    data = load_data_set(str(tmp_path))
    assert (data.name, len(data.documents)) == ("questions", 3)
    assert "twice a day" in data.documents["guideline.md"].page_content
    assert load_data_set(file) == data
    (tmp_path / "guideline.md").write_text("Greenol is given once a day.")
    assert load_data_set(file).sha256 != data.sha256
    _lines(tmp_path / "questions.jsonl", rows[1], {**rows[0], "document": "none.md"})
    with pytest.raises(InputError, match=r"Question 2 names the document 'none.md'.*Put a file"):
        load_data_set(file)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("{", r"line 2: this is not JSON"),
        ("[1]", r"line 2: .* must be a JSON object"),
        ('{"id": "b", "id": "c", "question": "Who?"}', r"line 2: the key 'id' occurs twice"),
        ({"id": "b", "question": "  "}, r"line 2: .*Add its text"),
        ({"id": ["b"], "question": "Who?"}, r"line 2: an id must be a text"),
        (
            {"id": "b", "question": "Who?", "options": ["x"]},
            r"line 2: Multiple choice needs at least two options",
        ),
        (
            {"id": "b", "question": "Who?", "options": {"A": "x", "a": "y"}},
            r"line 2: Option A is given twice",
        ),
        (
            {"id": "b", "question": "Who?", "options": ["x", "y"], "answer": "E"},
            r'line 2: the answer "E" is not one',
        ),
        (
            {"id": "b", "question": "Who?", "options": ["x", "x"], "answer": "x"},
            r"line 2: .* more than one option",
        ),
        (
            {"id": "b", "question": "Who?", "type": "yesno", "answer": "green"},
            r'line 2: the answer "green" is not one',
        ),
        ({"id": "b", "question": "Who?", "answer": {"x": 1}}, r"line 2: `answer` must be a text"),
        ({"id": "b", "question": "Who?", "gold_ids": [1.5]}, r"line 2: an id must be a text"),
        ({"id": "b", "question": "Who?", "context": " "}, r"line 2: there is no text in 'context'"),
        ({"id": "a", "question": "Who?"}, r"questions 1 and 2 have the same id 'a'"),
    ],
)
def test_a_bad_row_is_named_with_its_line_and_its_fault(
    tmp_path: Path, row: object, error: str
) -> None:
    with pytest.raises(InputError, match=error) as caught:
        load_data_set(_lines(tmp_path / "q.jsonl", {"id": "a", "question": "Who?"}, row))
    assert str(tmp_path / "q.jsonl") in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "content", "error"),
    [
        ("mirage", "[]", "not MIRAGE's layout"),
        ("mirage", '{"medqa": {"1": ', "line 1: this is not JSON"),
        ("pubmedqa", "[]", "not PubMedQA's layout"),
        (
            "pubmedqa",
            '{"1": {"QUESTION": "Is it?", "final_decision": "green"}}',
            "question 1: the answer",
        ),
        (
            "bioasq",
            '{"questions": [{"id": "1", "body": "Who?", "type": "x"}]}',
            "question 1: the type 'x'",
        ),
        ("bioasq", '{"id": 1}\n{"id": 2}', "write jsonl:"),
        ("bioasq", '{"articles": []}', "no question in .*golden files"),
        (
            "infinitebench-qa",
            '{"id": 1, "input": "Who?", "answer": ["x"]}',
            "line 1: there is no text in 'context'",
        ),
        (
            "infinitebench-mc",
            '{"id": 1, "input": "Who?", "context": "x", "options": ["a", "b"], "answer": ["a", '
            '["b"]]}',
            "line 1: the answer .* is not one",
        ),
        ("jsonl", "", "There is no question in"),
        ("jsonl", b"\xff\xfe{}", "cannot be read as UTF-8"),
    ],
)
def test_what_has_another_layout_is_refused(
    tmp_path: Path, kind: str, content: str | bytes, error: str
) -> None:
    path = tmp_path / "data"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=error):
        load_data_set(f"{kind}:{path}")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("unknown:file", "is not a data set. Write KIND:PATH with one of mirage, pubmedqa"),
        ("file.txt", "is not a data set"),
        ("", "is not a data set"),
        ("mirage:", "has no path"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(spec: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        load_data_set(spec)


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data are not on this machine")
@pytest.mark.parametrize(
    ("spec", "questions", "documents", "with_gold", "classes"),
    [
        ("mirage:{}/mirage/benchmark_sample.json", 899, 0, 449, None),
        ("mirage:{}/mirage/benchmark_sample.json#bioasq", 409, 0, 409, {"yes": 265, "no": 144}),
        ("{}/bioasq/queries.jsonl", 1497, 0, 1497, None),
        ("jsonl:{}/pubmedqa/queries.jsonl", 500, 0, 500, {"yes": 276, "no": 169, "maybe": 55}),
        ("{}/evidence_inference/questions.jsonl", 336, 120, 0, None),
        ("{}/long_documents/questions.jsonl", 25, 25, 0, None),
    ],
)
def test_the_shared_data_are_read_whole(
    spec: str, questions: int, documents: int, with_gold: int, classes: dict[str, int] | None
) -> None:
    data = load_data_set(spec.format(SHARED_DATA))
    assert len(data.items) == questions == len(_by_id(data))
    assert len(data.documents) == documents
    assert sum(bool(item.gold_ids) for item in data.items) == with_gold
    assert all(item.document in data.documents for item in data.items if item.document)
    assert all(item.answers[0] in item.options for item in data.items if item.options)
    if classes:
        said = [item.options[item.answers[0]] for item in data.items]
        assert {word: said.count(word) for word in classes} == classes
