"""Data sets, each from a sample of its published layout, and from the shared data where they are."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets import KINDS, DataSet, load_data_set
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
    assert not data.left_out


def test_one_subset_of_mirage() -> None:
    data = load_data_set(f"mirage:{SAMPLES / 'mirage.json'}#mmlu")
    assert [(item.id, item.group) for item in data.items] == [("toy-1", "mmlu")]
    assert data.name == "mmlu"


def test_a_subset_that_is_not_there_is_named() -> None:
    with pytest.raises(
        InputError, match="no subset 'medmcqa': it has medqa, mmlu, pubmedqa, bioasq"
    ):
        load_data_set(f"mirage:{SAMPLES / 'mirage.json'}#medmcqa")


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


def test_bioasq_reads_a_folder_of_batches(tmp_path: Path) -> None:
    rows = json.loads((SAMPLES / "bioasq.json").read_text())["questions"]
    for number, row in enumerate(rows):
        (tmp_path / f"batch{number}.json").write_text(json.dumps({"questions": [row]}))
    data = load_data_set(f"bioasq:{tmp_path}")
    assert data.items == load_data_set(f"bioasq:{SAMPLES / 'bioasq.json'}").items
    (tmp_path / "batch9.json").write_text(json.dumps({"questions": rows[:1]}))
    with pytest.raises(InputError, match="same id 'toy-301'"):
        load_data_set(f"bioasq:{tmp_path}")


@pytest.mark.parametrize("exact", ["yes", "Yes", ["yes"]])
def test_yes_is_yes_however_it_is_written(tmp_path: Path, exact: object) -> None:
    row = {"id": "1", "type": "yesno", "body": "Is it?", "exact_answer": exact}
    (tmp_path / "b.json").write_text(json.dumps({"questions": [row]}))
    assert load_data_set(f"bioasq:{tmp_path / 'b.json'}").items[0].answers == ("A",)


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


def test_a_right_option_may_be_given_in_three_ways() -> None:
    data = load_data_set(f"infinitebench-mc:{SAMPLES / 'longbook_choice_eng.jsonl'}")
    assert [item.answers for item in data.items] == [("B",), ("A",), ("D",)]
    assert data.items[0].options == {
        "A": "The bear",
        "B": "The crow",
        "C": "The train",
        "D": "Nobody",
    }


def test_evidence_inference_as_published_takes_the_valid_majority() -> None:
    data = load_data_set(f"evidence-inference:{SAMPLES / 'evidence_inference'}")
    items = _by_id(data)
    assert {id_: item.answers for id_, item in items.items()} == {
        "9001": ("B",),
        "9002": ("C",),
        "9003": ("A",),
    }
    assert items["9002"].question == (
        "With respect to sleep, in hours, characterize the reported difference between patients "
        "receiving greenol and those receiving placebo."
    )
    assert items["9001"].document == "PMCTOY1"
    assert data.documents["PMCTOY1"].metadata["title"] == "Greenol for green toys: a made-up trial"
    assert data.documents["PMCTOY2"].metadata["title"] == "Redol or bluol for toes"
    assert data.left_out == {
        "the annotators' labels are tied": 1,
        "no valid label": 1,
        "repeats another prompt": 1,
        "no outcome or no intervention": 1,
    }


def test_evidence_inference_as_json_lines() -> None:
    data = load_data_set(f"evidence-inference:{SAMPLES / 'evidence_inference_json'}")
    assert [(item.answers, item.document) for item in data.items] == [
        (("B",), "TOY1"),
        (("C",), "TOY1"),
        (("A",), "TOY2"),
    ]
    assert data.documents["TOY2"].metadata["title"] == "Redol for toes"


@pytest.mark.parametrize(
    ("question", "documents", "error"),
    [
        ({"doc_id": "d"}, ["d"], r"question q has no 'answer'"),
        ({"answer": "B"}, ["d"], r"question q has no 'doc_id'"),
        (
            {"doc_id": "e", "answer": "B"},
            ["d"],
            r"asks on 'e', which is in none of documents\.jsonl",
        ),
        (
            {"doc_id": "d", "answer": "green"},
            ["d"],
            r'line 1: the answer "green" is none of the options',
        ),
        (
            {"doc_id": "d", "answer": "B"},
            ["d", "d"],
            r"documents\.jsonl, line 2: the id 'd' occurs twice",
        ),
    ],
)
def test_evidence_inference_as_json_lines_has_a_document_and_an_answer_to_each_question(
    tmp_path: Path, question: dict[str, str], documents: list[str], error: str
) -> None:
    (tmp_path / "documents.jsonl").write_text(
        "".join(f'{{"id": "{id}", "text": "Toys."}}\n' for id in documents)
    )
    (tmp_path / "questions.jsonl").write_text(
        json.dumps({"id": "q", "question": "Are they?", **question})
    )
    with pytest.raises(InputError, match=error):
        load_data_set(f"evidence-inference:{tmp_path}")


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
        ([HEADS, [1, None, "Because."]], "row 2: there is no question"),
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


def test_what_is_no_spreadsheet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.xlsx").write_text("Question\nWhy?")
    with pytest.raises(InputError, match=r"is no \.xlsx spreadsheet"):
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


@pytest.mark.parametrize(
    ("row", "summary"),
    [
        ({"type": "summary", "ideal_answer": ["It is green, and it fades."]}, True),
        (
            {"type": "summary", "exact_answer": "", "ideal_answer": ["It is green, and it fades."]},
            True,
        ),
        (
            {"type": "summary", "exact_answer": [], "ideal_answer": ["It is green, and it fades."]},
            True,
        ),
        ({"type": "summary", "answer": "It is green, and it fades."}, True),
        ({"ideal_answer": ["It is green, and it fades."]}, True),
        (
            {
                "type": "factoid",
                "answer": ["green"],
                "ideal_answer": ["It is green, and it fades."],
            },
            False,
        ),
        ({"type": "yesno", "answer": "yes", "ideal_answer": ["It is green, and it fades."]}, False),
        ({}, False),
    ],
)
def test_an_answer_of_some_sentences_is_known_for_a_summary(
    tmp_path: Path, row: dict[str, object], summary: bool
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"id": "q", "question": "What of toys?", **row}) + "\n")
    (item,) = load_data_set(str(file)).items
    assert item.summary is summary
    assert bool(item.answers) is bool(row)


def test_an_empty_value_is_none_and_0_is_one(tmp_path: Path) -> None:
    row = {
        "id": 0,
        "question": "",
        "body": "Is it?",
        "options": ["yes", "no"],
        "answer": "",
        "gold_ids": 0,
    }
    (item,) = load_data_set(_lines(tmp_path / "q.jsonl", row)).items
    assert (item.id, item.question, item.answers, item.gold_ids) == ("0", "Is it?", (), ("0",))


def test_gzipped_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl.gz"
    path.write_bytes(gzip.compress((SAMPLES / "questions.jsonl").read_bytes()))
    assert [item.id for item in load_data_set(str(path)).items] == [
        "toy-1",
        "toy-2",
        "3",
        "toy-4",
        "toy-5",
    ]


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


def test_long_texts_stand_in_the_row_or_beside(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "question": "Who?", "context": "A toy."},
        {"id": 2, "question": "Where?", "document": "d"},
    ]
    (tmp_path / "documents.jsonl").write_text(
        '{"id": "d", "title": "Box", "text": "In a box."}\n{"id": "e"}\n'
    )
    data = load_data_set(_lines(tmp_path / "q.jsonl", *rows))
    assert [data.documents[item.document or ""].page_content for item in data.items] == [
        "A toy.",
        "In a box.",
    ]
    assert len(data.documents) == 2
    (tmp_path / "documents.jsonl").write_text(
        '{"id": "d", "title": "Box", "text": "In a chest."}\n'
    )
    assert load_data_set(_lines(tmp_path / "q.jsonl", *rows)).sha256 != data.sha256
    with pytest.raises(InputError, match=r"asks on 'f', which is in none of documents\.jsonl"):
        load_data_set(_lines(tmp_path / "q.jsonl", {"id": 1, "question": "Who?", "document": "f"}))


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("{", r"line 2: this is not JSON"),
        ("{\n", r"line 2: this is not JSON"),
        ("[1]", r"line 2: an object is needed"),
        ('{"id": "b", "id": "c", "question": "Who?"}', r"line 2: the key 'id' occurs twice"),
        ({"id": "b"}, r"line 2: there is no question"),
        ({"id": "b", "question": "  "}, r"line 2: there is no question"),
        ({"id": "b", "question": 7}, r"line 2: there is no question"),
        ({"id": ["b"], "question": "Who?"}, r"line 2: an id must be a text"),
        (
            {"id": "b", "question": "Who?", "options": ["x"]},
            r"line 2: Multiple choice needs at least two options",
        ),
        ({"id": "b", "question": "Who?", "options": "xy"}, r"line 2: Options must be a mapping"),
        (
            {"id": "b", "question": "Who?", "options": {"AA": "x", "B": "y"}},
            r"line 2: Option 'AA' needs a",
        ),
        (
            {"id": "b", "question": "Who?", "options": {"A": "x", "a": "y"}},
            r"line 2: Option A is given twice",
        ),
        (
            {"id": "b", "question": "Who?", "options": ["x", ""]},
            r"line 2: Option 'B' needs a single letter and a text",
        ),
        (
            {"id": "b", "question": "Who?", "options": [*range(27)]},
            r"line 2: Option '\[' needs a single letter",
        ),
        (
            {"id": "b", "question": "Who?", "options": ["x", "y"], "answer": "E"},
            r'line 2: the answer "E" is none',
        ),
        (
            {"id": "b", "question": "Who?", "options": ["x", "x"], "answer": "x"},
            r"line 2: .* more than one option",
        ),
        (
            {"id": "b", "question": "Who?", "type": "yesno", "answer": "green"},
            r'line 2: the answer "green" is none',
        ),
        ({"id": "b", "question": "Who?", "answer": {"x": 1}}, r"line 2: an answer must be a text"),
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
        (
            "mirage",
            '{"medqa": {"1": {"question": "Who?"}}}',
            "medqa, question 1: there are no options",
        ),
        ("mirage", '{"medqa": {"1": {}, "1": {}}}', "the key '1' occurs twice"),
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
        (
            "bioasq",
            '{"questions": [{"id": "1", "type": "list"}]}',
            "question 1: there is no question",
        ),
        (
            "bioasq",
            '{"questions": [{"id": "1", "type": "yesno", "body": "Is it?", "documents": 7}]}',
            "question 1: the documents must be a list of addresses, not 7",
        ),
        ("bioasq", '{"id": 1}\n{"id": 2}', "write jsonl:"),
        ("bioasq", '{"articles": []}', "no question in .*golden files"),
        (
            "infinitebench-qa",
            '{"id": 1, "input": "Who?", "answer": ["x"]}',
            "line 1: there is no text in 'context'",
        ),
        (
            "infinitebench-qa",
            '{"id": 1, "input": "Who?", "context": "x", "answer": []}',
            "line 1: there is no answer",
        ),
        (
            "infinitebench-mc",
            '{"id": 1, "input": "Who?", "context": "x", "answer": "x"}',
            "line 1: there are no options",
        ),
        (
            "infinitebench-mc",
            '{"id": 1, "input": "Who?", "context": "x", "options": ["a", "b"], "answer": ["a", ["b"]]}',
            "line 1: the answer .* is none of the options",
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


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_missing_data_are_said_to_be_published_somewhere(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        load_data_set(f"{kind}:{tmp_path / 'missing'}")
    assert f"There is no {tmp_path / 'missing'}" in str(caught.value)
    assert ("http" if kind != "jsonl" else "your own") in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("unknown:file", "names no data set: write KIND:PATH, with one of mirage, pubmedqa"),
        ("file.txt", "names no data set"),
        ("", "names no data set"),
        ("mirage:", "has no path"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(spec: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        load_data_set(spec)


def test_a_folder_where_a_file_is_needed_and_the_other_way_round(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, and a file is needed"):
        load_data_set(f"mirage:{tmp_path}")
    with pytest.raises(InputError, match=r"holds neither prompts_merged\.csv nor"):
        load_data_set(f"evidence-inference:{tmp_path}")
    with pytest.raises(InputError, match="is a file: give the folder"):
        load_data_set(f"evidence-inference:{SAMPLES / 'mirage.json'}")


def _without_annotations(folder: Path) -> None:
    (folder / "annotations_merged.csv").unlink()


def _without_text(folder: Path) -> None:
    (folder / "txt_files" / "PMCTOY2.txt").unlink()


def _without_column(folder: Path) -> None:
    path = folder / "prompts_merged.csv"
    path.write_text(path.read_text().replace("Outcome", "Result"))


def _with_unknown_code(folder: Path) -> None:
    path = folder / "annotations_merged.csv"
    path.write_text(path.read_text().replace(",-1,UNK,60,94", ",7,UNK,60,94"))


def _with_another_question(folder: Path) -> None:
    path = folder / "prompts_merged.csv"
    path.write_text(path.read_text().replace("9003,TOY2", "9002,TOY2"))


def _with_half_a_letter(folder: Path) -> None:
    (folder / "txt_files" / "PMCTOY2.txt").write_bytes(b"TITLE: na\xefve")


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (_with_half_a_letter, "cannot be read: 'utf-8' codec can't decode byte 0xef"),
        (_without_annotations, r"There is no .*annotations_merged\.csv.*github\.com/jayded"),
        (_without_text, r"line 4 asks on PMCTOY2, and there is no .*ebm-nlp\.com"),
        (_without_column, "has no column 'Outcome': its columns are PromptID"),
        (_with_unknown_code, "line 2: the Label Code '7'"),
        (_with_another_question, "same id '9002'"),
    ],
)
def test_evidence_inference_that_is_not_whole_is_refused(
    tmp_path: Path, harm: Callable[[Path], None], error: str
) -> None:
    folder = tmp_path / "ei"
    shutil.copytree(SAMPLES / "evidence_inference", folder)
    harm(folder)
    with pytest.raises(InputError, match=error):
        load_data_set(f"evidence-inference:{folder}")


def test_evidence_inference_as_published_may_be_gzipped(tmp_path: Path) -> None:
    folder, plain = (
        tmp_path / "ei",
        load_data_set(f"evidence-inference:{SAMPLES / 'evidence_inference'}"),
    )
    shutil.copytree(SAMPLES / "evidence_inference", folder)
    for file in folder.glob("*.csv"):
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert load_data_set(f"evidence-inference:{folder}").items == plain.items
    prompts = folder / "prompts_merged.csv.gz"
    prompts.write_bytes(prompts.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read: Compressed file ended"):
        load_data_set(f"evidence-inference:{folder}")


def test_the_digest_of_a_folder_changes_with_any_file_that_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "ei"
    shutil.copytree(SAMPLES / "evidence_inference", folder)
    spec = f"evidence-inference:{folder}"
    before = load_data_set(spec).sha256
    assert before == load_data_set(f"evidence-inference:{SAMPLES / 'evidence_inference'}").sha256
    (folder / "unrelated.txt").write_text("x")
    assert load_data_set(spec).sha256 == before
    with (folder / "txt_files" / "PMCTOY1.txt").open("a") as file:
        file.write("More.")
    assert load_data_set(spec).sha256 != before


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data are not on this machine")
@pytest.mark.parametrize(
    ("spec", "questions", "documents", "with_gold", "classes"),
    [
        ("mirage:{}/mirage/benchmark_sample.json", 899, 0, 449, None),
        ("mirage:{}/mirage/benchmark_sample.json#bioasq", 409, 0, 409, {"yes": 265, "no": 144}),
        ("{}/bioasq/queries.jsonl", 1497, 0, 1497, None),
        ("jsonl:{}/pubmedqa/queries.jsonl", 500, 0, 500, {"yes": 276, "no": 169, "maybe": 55}),
        ("evidence-inference:{}/evidence_inference", 336, 120, 336, None),
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


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared data are not on this machine")
def test_yesno_questions_of_the_shared_bioasq_have_options() -> None:
    items = load_data_set(f"{SHARED_DATA}/bioasq/queries.jsonl").items
    assert sum(bool(item.options) for item in items) == 409
    assert all(item.answers for item in items)
    assert {tuple(item.options.values()) for item in items if item.options} == {("yes", "no")}
