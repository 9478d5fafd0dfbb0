"""The command line as a person meets it."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.command_line import Run, command_line
from tests.openai_server import Call, OpenAIServer, Reply, faithful

MIDDLE = "At what CD4+ count is prophylaxis against Pneumocystis pneumonia advised?"
FIRST_CHOICE = "Which drug is first choice for type 2 diabetes?"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process; return its exit code, output and error output."""
    return command_line(monkeypatch, capsys)


@pytest.fixture
def model(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the model of `server`; unique, because a process opens each model once."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return f"openai:scripted-{server.url}"


def test_ask_prints_the_answer_with_numbered_citations_route_and_use(run: Run) -> None:
    code, out, err = run("ask", FIRST_CHOICE)
    assert (code, err) == (0, "")
    assert "Metformin" in out
    assert "[1]" in out
    for part in ("Sources:", "demo-type-2-diabetes-01", "vanilla, no model calls"):
        assert part in out
    assert "Route:" not in out
    assert len(out.splitlines()) < 24


def test_without_a_command_there_is_help_and_no_error(run: Run) -> None:
    for arguments in ([], ["kb"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert "Usage:" in out
        assert "Commands" in out
    assert run("--version") == (0, f"BriefContext {version('briefcontext')}\n", "")


def test_many_questions_give_one_json_line_each(
    run: Run, model: str, server: OpenAIServer, tmp_path: Path
) -> None:
    rows = [
        {"id": "first", "question": FIRST_CHOICE},
        {"id": "second", "question": MIDDLE, "options": {"A": "blood count", "B": "nothing"}},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = run("ask", "--questions", str(path))
    assert (code, err) == (0, "")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["id"] for answer in answers] == ["first", "second"]
    assert [answer["question"] for answer in answers] == [FIRST_CHOICE, MIDDLE]
    assert all(answer["citations"] for answer in answers)

    def refuse_the_second(call: Call) -> Reply:
        return Reply("so long", status=400) if MIDDLE in call.prompt else faithful(call)

    server.script = refuse_the_second
    code, out, _ = run("ask", "--questions", str(path), "--model", model, "--route", "vanilla")
    first, second = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert first["text"]
    assert "so long" in second["error"]


def test_an_abstention_names_missing_words_and_titles(run: Run) -> None:
    code, out, _ = run("ask", "How is the carburettor of a motorcycle cleaned?")
    assert code == 0
    printed = " ".join(out.split())
    assert "NO ANSWER: " in printed
    assert "No passage mentions: carburettor, motorcycle" in printed
    assert printed.count("The nearest titles: ") == 1
    assert "none of them contains evidence" not in printed


def test_notes_are_above_the_answer_and_their_signs_after_the_sentences(
    run: Run, model: str, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(
        f"Take 5000 mg six times a day [{call.documents[0][0]}]. Surely."
    )
    code, out, _ = run("ask", FIRST_CHOICE, "--model", model)
    assert code == 0
    printed = " ".join(out.split())
    check = (
        "Check: - “Take 5000 mg six times a day [1].” Not found in [1]: 5000 mg, six times a day."
    )
    assert printed.index(check) < printed.index("(! figure not found)")
    assert "a day [1]. (! figure not found) Surely. (! uncited)" in printed


def test_json_is_one_object_with_the_answers_keys(run: Run) -> None:
    code, out, err = run("ask", "--json", FIRST_CHOICE, "--route", "map_reduce")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert set(answer) == {
        *(
            "question",
            "options",
            "text",
            "choice",
            "abstained",
            "written_by",
            "citations",
            "references",
            "documents",
            "evidence",
            "route",
        ),
        *("preflight", "extractions", "conflict", "usage", "notes", "provenance"),
    }
    assert answer["route"] == "map_reduce"
    assert 0 <= answer["preflight"]["iou"] <= 1
    assert len(answer["extractions"]) == 4
    assert all(citation["quote"] for citation in answer["citations"])


def test_an_answer_has_its_documents_and_provenance(
    run: Run, model: str, server: OpenAIServer
) -> None:
    asked = ["--model", model, "--top-k", "4", "--temperature", "0.5", "--max-output-tokens", "99"]
    code, out, _ = run(
        "ask",
        FIRST_CHOICE,
        "--json",
        *asked,
        "--model-arg",
        "top_p=0.25",
        "--model-arg",
        "service_tier=flex",
    )
    answer = json.loads(out)
    assert (code, answer["question"], answer["options"]) == (0, FIRST_CHOICE, {})
    assert [document["rank"] for document in answer["documents"]] == [1, 2, 3, 4]
    assert answer["documents"][0]["source_id"] == "demo-type-2-diabetes-01"
    scores = [document["score"] for document in answer["documents"]]
    assert scores == sorted(scores, reverse=True)
    provenance = answer["provenance"]
    assert (provenance["version"], answer["written_by"]) == (version("briefcontext"), model)
    assert provenance["searched"]["name"] == "demo"
    assert int(provenance["searched"]["version"]) > 0
    assert provenance["searched"]["updated"][:4].isdigit()
    sent = server.calls[0].body
    assert (sent["temperature"], sent["max_completion_tokens"]) == (0.5, 99)
    assert (sent["top_p"], sent["service_tier"]) == (0.25, "flex")


@pytest.mark.parametrize(
    "options", [["--options", "A=yes", "B=no"], ["--options", "A=yes", "--options", "B=no"]]
)
@pytest.mark.parametrize("question_first", [True, False])
def test_options_may_follow_one_another_or_be_repeated(
    options: list[str], question_first: bool, run: Run, model: str, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply("So it is.\nChoice: B")
    words = [FIRST_CHOICE, *options] if question_first else [*options, FIRST_CHOICE]
    code, out, err = run("ask", "--json", "--route", "vanilla", "--model", model, *words)
    assert (code, err) == (0, "")
    assert json.loads(out)["choice"] == "B"
    assert "A. yes\nB. no" in server.calls[0].user


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ask"], "no question"),
        (["ask", "--questions", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["ask", ""], "empty"),
        (["ask", "Is", "it?"], "in quotes"),
        (["ask", "Is it?", "--nonsense"], "--nonsense"),
        (["ask", "Is it?", "--top-k", "0"], "--top-k 0"),
        (["ask", "Is it?", "--route", "sideways"], "--route sideways"),
        (["ask", "Is it?", "--kb", "/nowhere"], "/nowhere"),
        (["ask", "Is it?", "--model", "gpt-4o"], "provider:model"),
        (["ask", "Is it?", "--model", "openai:gpt-4o"], "OPENAI_API_KEY"),
        (["ask", "Is it?", "--extract-model", "openai:gpt-4o"], "--model"),
        (["ask", "Is it?", "--model", "openai:gpt-4o", "--model-arg", "top_p"], "NAME=VALUE"),
        (["ask", "Is it?", "--options", "yes"], "LETTER=TEXT"),
        (["serv"], "Did you mean 'serve'? See"),
        (["ask", "Is it?", "--document", "/nowhere.txt"], "/nowhere.txt"),
        (["ask", "Is it?", "--document", "a.txt", "--kb", "b"], "name one"),
        (["index", "/nowhere.jsonl", "--kb", "kb", "--encoder", "minilm"], "/nowhere.jsonl"),
        (["index", __file__, "--kb", "kb", "--encoder", "minilm"], "--format"),
        (["index", __file__], "--kb"),
        (["kb", "info", "/nowhere"], "/nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, run: Run
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1


PASSAGES = [
    {
        "id": "p1",
        "title": "Zinc and colds",
        "text": "Zinc lozenges may shorten a common cold by about a day.",
    },
    {
        "id": "p2",
        "title": "Honey and cough",
        "text": "Honey soothes the cough of children older than one year.",
    },
    {"id": "p3", "title": "Empty", "text": ""},
]


@pytest.mark.slow
def test_a_knowledge_base_is_built_asked_and_inspected(run: Run, tmp_path: Path) -> None:
    source, folder = tmp_path / "passages.jsonl", str(tmp_path / "kb")
    source.write_text("".join(json.dumps(row) + "\n" for row in [*PASSAGES, {"id": "p4"}]))
    code, out, err = run("index", str(source), "--kb", folder, "--encoder", "minilm")
    assert (code, err) == (0, f"100% {source}: 4 records, {err.split()[-2]} passages/s\n")
    assert "4 records read = 3 indexed" in " ".join(out.split())
    assert "rejects.jsonl" in out

    code, out, _ = run("index", str(source), "--kb", folder, "--encoder", "minilm")
    assert code == 0
    assert "nothing new" in " ".join(out.split())

    code, out, _ = run("ask", "--json", "--kb", folder, "Does zinc shorten the common cold?")
    assert code == 0
    assert json.loads(out)["citations"][0]["source_id"] == "p1"

    for method in ("dense", "bm25", "hybrid"):
        code, out, _ = run("kb", "search", folder, "honey for cough", "--method", method, "--json")
        assert code == 0
        assert json.loads(out)[0]["id"] == "p2"

    code, out, _ = run("kb", "info", folder, "--json")
    assert json.loads(out)["passages"] == 3
    code, out, _ = run("kb", "verify", folder)
    assert code == 0
    assert "sound" in out


def test_a_model_that_cannot_be_reached_is_exit_code_1(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("briefcontext.chains.model.call.MAX_WAIT", 0)
    code, out, err = run("ask", FIRST_CHOICE, "--model", "openai:unreachable")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


ROOT = [sys.executable, "-m", "briefcontext"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["kb", "list", "demo", "--json"]])
def test_a_closed_pipe_is_not_an_error(arguments: list[str]) -> None:
    with subprocess.Popen(
        [*ROOT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full on this system")
@pytest.mark.parametrize("arguments", [["--help"], ["kb", "list", "demo", "--json"]])
def test_a_full_disk_is_one_line_and_exit_code_3(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ROOT, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (3, "Error: No space left on device.\n")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "/etc/kb"), "Error: Permission denied: /etc/kb."),
        (
            ValueError("it is odd.\nvery"),
            "Error: ValueError: it is odd. very. Add --verbose to see where.",
        ),
    ],
)
def test_an_unexpected_error_is_one_line_or_a_traceback_with_verbose(
    error: Exception, line: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("briefcontext.knowledge.knowledge_base.knowledge_base_info", fail)
    monkeypatch.setattr("briefcontext.cli._close_output", lambda: None)
    assert run("kb", "info", "folder") == (3, "", f"{line}\n")
    code, _, err = run("--verbose", "kb", "info", "folder")
    assert code == 3
    assert err.startswith("Traceback")
    assert err.splitlines()[-1] == line.removesuffix(" Add --verbose to see where.")
