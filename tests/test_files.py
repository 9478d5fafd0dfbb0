"""Files that are never there in part, lock files, hashes, and JSON lines that survive any text."""

from pathlib import Path

import pytest

from briefcontext.errors import InputError, first_line
from briefcontext.files import json_line, json_objects, replacing, write_whole


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    write_whole(target, "old")

    def fail_half_way() -> None:
        with replacing(target) as unfinished:
            unfinished.write_text("half")
            assert target.read_text() == "old"
            raise InputError("stop")

    with pytest.raises(InputError, match="stop"):
        fail_half_way()

    assert [file.name for file in tmp_path.iterdir()] == ["report.md"]
    assert target.read_text() == "old"
    write_whole(target, "new \ud83d")
    assert target.read_bytes() == rb"new \ud83d"


def test_any_text_is_one_line_of_json_and_comes_back(tmp_path: Path) -> None:
    rows = [{"text": "line \u2028 feed \n and half a pair \ud83d"}, {"text": "ä"}]
    lines = "".join(map(json_line, rows))
    (tmp_path / "rows.jsonl").write_text(lines + '{"text": "cut sh', encoding="ascii")
    assert lines.count("\n") == len(lines.splitlines()) == 2
    assert list(json_objects(tmp_path / "rows.jsonl")) == rows
    assert list(json_objects(tmp_path / "none.jsonl")) == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("bad value.\nmore"), "bad value"),
        (ValueError(), "ValueError"),
        (KeyError("x"), "'x'"),
        (OSError("Denied. <?xml version=…>"), "Denied"),
    ],
)
def test_the_first_line_of_an_error_says_what_is_wrong(error: Exception, said: str) -> None:
    assert first_line(error) == said
