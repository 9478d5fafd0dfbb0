"""The command line as a person meets it."""

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from briefcontext.cli import app
from briefcontext.graphs.settings import Settings
from tests.command_line import Run, command_line
from tests.notes import messages
from tests.openai_server import Call, OpenAIServer, Reply, faithful

MIDDLE = "At what CD4+ count is prophylaxis against Pneumocystis pneumonia advised?"
FIRST_CHOICE = "Which drug is first choice for type 2 diabetes?"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process; return its exit code, output and error output."""
    return command_line(monkeypatch, capsys)


@pytest.fixture
def model(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a model that `server` plays; a name of its own, since a process opens each model once."""
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


@pytest.mark.parametrize(
    ("reported", "told"),
    [(True, r"1 call, [\d,]+ tokens, "), (False, "1 call, tokens not reported, ")],
)
def test_tokens_that_a_provider_does_not_report_are_no_0(
    run: Run, model: str, server: OpenAIServer, reported: bool, told: str
) -> None:
    server.script = lambda call: replace(faithful(call), reported=reported)
    code, out, _ = run("ask", FIRST_CHOICE, "--model", model, "--route", "vanilla", "--no-verify")
    assert code == 0
    assert re.search(told, out)


def test_without_a_command_there_is_help_and_no_error(run: Run) -> None:
    for arguments in ([], ["kb"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert "Usage:" in out
        assert "Commands" in out
    assert run("--version") == (0, f"BriefContext {version('briefcontext')}\n", "")


def test_in_a_pipe_no_line_is_wrapped_or_padded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = run("ask", MIDDLE, "--verbose")
    _, told, _ = run("ask", "--json", MIDDLE)
    lines = out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert set(json.loads(told)["text"].splitlines()) <= set(lines)
    assert max(map(len, lines)) > 120


def test_a_question_may_come_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{FIRST_CHOICE}\n".encode())))
    code, out, _ = run("ask", "-", "--json")
    assert code == 0
    assert json.loads(out)["citations"][0]["source_id"] == "demo-type-2-diabetes-01"


def test_many_questions_give_a_line_of_json_each_also_where_a_call_failed(
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


def test_questions_of_a_file_are_asked_side_by_side_and_keep_their_order(
    run: Run, model: str, server: OpenAIServer, tmp_path: Path
) -> None:
    path = tmp_path / "questions.jsonl"
    rows = [
        {"id": f"{n}", "question": f"Which drug is first choice for disease {n}?"} for n in range(4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # The server answers once four extractions, one of each question, are in flight: the last first.
    server.together = 4
    one_partition = ("--route", "map_reduce", "--partition-size", "16")
    code, out, _ = run(
        "ask", "--questions", str(path), "--model", model, "--at-once", "4", *one_partition
    )
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["0", "1", "2", "3"]


def test_rankings_that_disagree_show_what_each_partition_gave(run: Run) -> None:
    code, out, _ = run("ask", MIDDLE, "--verbose")
    assert code == 0
    assert "the rankings disagree" in " ".join(out.split())
    assert "Partitions:" in out


def test_an_abstention_looks_like_one_and_names_the_passages(run: Run) -> None:
    code, out, _ = run("ask", "How is the carburettor of a motorcycle cleaned?")
    assert code == 0
    told = " ".join(out.split())
    assert "NO ANSWER: " in told
    assert "No passage mentions: carburettor, motorcycle" in told
    assert told.count("The nearest titles: ") == 1
    assert "none of them contains evidence" not in told


def test_a_question_on_a_drug_that_the_base_lacks_is_refused_and_the_drug_named(run: Run) -> None:
    code, out, _ = run("ask", "Is isotretinoin contraindicated in pregnancy?")
    assert code == 0
    assert "No passage mentions: isotretinoin." in " ".join(out.split())


def test_notes_are_above_the_answer_and_their_signs_after_the_sentences(
    run: Run, model: str, server: OpenAIServer
) -> None:
    server.script = lambda call: Reply(
        f"Take 5000 mg six times a day [{call.documents[0][0]}]. Surely."
    )
    code, out, _ = run("ask", FIRST_CHOICE, "--model", model)
    assert code == 0
    told = " ".join(out.split())
    check = (
        "Check: - “Take 5000 mg six times a day [1].” Not found in [1]: 5000 mg, six times a day."
    )
    assert told.index(check) < told.index("(! figure not found)")
    assert "a day [1]. (! figure not found) Surely. (! uncited)" in told


def test_quotes_are_printed_only_on_request(run: Run) -> None:
    question = "When does dexamethasone help people with COVID-19?"
    assert "Quotes:" not in run("ask", question)[1]
    out = run("ask", question, "--quotes")[1]
    assert "Quotes:\n[1] “Dexamethasone reduces deaths" in out
    assert "Documents:" not in out


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


def test_the_answer_says_what_was_asked_what_was_read_and_what_made_it(
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


def test_ask_with_a_model_reports_its_calls(run: Run, model: str) -> None:
    code, out, _ = run("ask", MIDDLE, "--model", model)
    assert code == 0
    assert "Point holds [1]." in out
    assert "6 calls" in out


def test_invented_quotes_are_reported_and_cited_nowhere(
    run: Run, model: str, server: OpenAIServer
) -> None:
    invented = "Aspirin cures every disease within a day, number"

    def half_invented(call: Call) -> Reply:
        honest = faithful(call)
        if call.stage != "extract":
            return honest
        record = json.loads(honest.content)
        made_up = [
            {**quote, "quote": f"{invented} {place}"}
            for place, quote in enumerate(record["quotes"])
        ]
        return Reply(json.dumps({**record, "quotes": record["quotes"] + made_up}))

    server.script = half_invented
    code, out, _ = run("ask", "--json", MIDDLE, "--route", "map_reduce", "--model", model)
    assert code == 0
    answer = json.loads(out)
    reports = messages(answer, "partition_error")
    assert [report.split(": ")[1].split(" quotes")[0] for report in reports] == ["4 of 8"] * 4
    assert len(answer["citations"]) == 16
    assert invented not in out
    assert not any(invented in call.prompt for call in server.calls)


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
        (["ask", "--questions", "q.jsonl", "Is it?"], "leave out"),
        (["ask", "--questions", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["ask", "--at-once", "4", "Is it?"], "--questions"),
        (["ask", ""], "empty"),
        (["ask", "  "], "empty"),
        (["ask", "x" * 100_000], "100,000"),
        (["ask", "Is", "it?"], "in quotes"),
        (["ask", "Is it?", "--nonsense"], "--nonsense"),
        (["ask", "Is it?", "--top-k", "0"], "--top-k 0"),
        (["ask", "Is it?", "--top-k", "many"], "--top-k"),
        (["ask", "Is it?", "--iou-threshold", "2"], "--iou-threshold 2"),
        (["ask", "Is it?", "--route", "sideways"], "--route sideways"),
        (["ask", "Is it?", "--kb", "/nowhere"], "/nowhere"),
        (["ask", "Is it?", "--model", "gpt-4o"], "provider:model"),
        (["ask", "Is it?", "--model", "nobody:gpt-4o"], "nobody"),
        (["ask", "Is it?", "--model", "openai:gpt-4o"], "OPENAI_API_KEY"),
        (["ask", "Is it?", "--extract-model", "openai:gpt-4o"], "--model"),
        (["ask", "Is it?", "--temperature", "0.5"], "--model"),
        (["ask", "Is it?", "--model", "openai:gpt-4o", "--model-arg", "top_p"], "NAME=VALUE"),
        (["ask", "Is it?", "--timeout", "0"], "--timeout 0"),
        (["ask", "Is it?", "--options", "A=yes"], "two options"),
        (["ask", "Is it?", "--options", "yes"], "LETTER=TEXT"),
        (["ask", "Is it?", "--options", "yes", "no"], "LETTER=TEXT"),
        (["ask", "Is it?", "--options", "A=yes", "A=no"], "twice"),
        (["answer", "Is it?"], "answer"),
        (["serv"], "Did you mean 'serve'? See"),
        (["ask", "Is it?", "--document", "/nowhere.txt"], "/nowhere.txt"),
        (["ask", "Is it?", "--document", "a.txt", "--kb", "b"], "name one"),
        (["index", "/nowhere.jsonl", "--kb", "kb", "--encoder", "minilm"], "/nowhere.jsonl"),
        (["index", __file__, "--kb", "kb", "--encoder", "minilm"], "--format"),
        (["index", __file__, "--kb", "kb", "--format", "nonsense"], "nonsense"),
        (["index", __file__, "--kb", "kb", "--field", "id"], "FIELD=COLUMN"),
        (["index", __file__], "--kb"),
        (["index", __file__, "--kb", "demo"], "./demo"),
        (["kb", "info", "/nowhere"], "/nowhere"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do_and_exit_code_2(
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


def test_a_knowledge_base_is_built_asked_and_looked_into(run: Run, tmp_path: Path) -> None:
    source, folder = tmp_path / "passages.jsonl", str(tmp_path / "kb")
    source.write_text("".join(json.dumps(row) + "\n" for row in [*PASSAGES, {"id": "p4"}]))
    code, out, err = run("index", str(source), "--kb", folder, "--encoder", "minilm")
    assert (code, err) == (0, f"100% {source}: 4 records, {err.split()[-2]} passages/s\n")
    assert (
        "4 records read = 3 indexed + 0 updated + 0 unchanged + 0 deleted + 1 rejected"
        in " ".join(out.split())
    )
    assert f"rejected {source}, " in out
    assert "rejects.jsonl" in out

    code, out, _ = run("index", str(source), "--kb", folder, "--encoder", "minilm")
    assert code == 0
    assert "nothing new" in " ".join(out.split())

    code, out, _ = run("ask", "--json", "--kb", folder, "Does zinc shorten the common cold?")
    assert code == 0
    assert json.loads(out)["citations"][0]["source_id"] == "p1"

    for method in ("dense", "bm25", "hybrid"):
        code, out, _ = run(
            "kb", "search", folder, "honey for cough", "--method", method, "--json", "--top-k", "1"
        )
        assert code == 0
        assert [passage["id"] for passage in json.loads(out)] == ["p2"]

    for retrieval in ("bm25", "hybrid"):
        code, out, _ = run(
            "ask", "--json", "--kb", folder, "--retrieval", retrieval, "Is honey good for a cough?"
        )
        assert code == 0
        assert json.loads(out)["citations"][0]["source_id"] == "p2"

    code, out, _ = run("kb", "info", folder, "--json")
    assert json.loads(out)["passages"] == 3
    code, out, _ = run("kb", "verify", folder)
    assert code == 0
    assert "sound" in out


def test_one_long_file_is_answered_in_the_order_of_its_text(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.write_text("# Report\n\nZinc lozenges may shorten a common cold by about a day.\n")
    code, out, _ = run(
        "ask", "--json", "--document", str(path), "Does zinc shorten the common cold?"
    )
    assert code == 0
    answer = json.loads(out)
    assert answer["route"] == "order_preserving"
    assert "Zinc lozenges" in answer["citations"][0]["quote"]


def test_an_unknown_model_is_exit_code_2(run: Run, model: str, server: OpenAIServer) -> None:
    server.script = lambda call: Reply("The model does not exist", status=404)
    code, _, err = run("ask", FIRST_CHOICE, "--model", model)
    assert code == 2
    assert "does not exist" in err
    assert err.count("\n") == 1


def test_a_model_that_cannot_be_reached_is_exit_code_1(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("briefcontext.chains.model.call.MAX_WAIT", 0)
    code, out, err = run("ask", FIRST_CHOICE, "--model", "openai:unreachable")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


def test_the_help_names_the_defaults_that_apply(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run("ask", "--help")
    assert code == 0
    text = " ".join(out.replace("│", " ").split())
    for name in (
        "route",
        "fallback",
        "top_k",
        "partition_size",
        "preflight_top_n",
        "iou_threshold",
    ):
        option = re.split(rf"--{name.replace('_', '-')}[ ,]", text)[1]
        assert f"Default: {Settings.model_fields[name].default}." in option.split(" --")[0]


OF_MODELS = {"temperature", "max_output_tokens", "model_cache"}
"""Options that become arguments of the model."""


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (
            "ask",
            {
                "words",
                "questions",
                "at_once",
                "earlier",
                "options",
                "as_json",
                "references",
                "quotes",
                "verbose",
            }
            | OF_MODELS,
        ),
        ("serve", {"uploads", "host", "port", "token", "model_cache"}),
        ("mcp", {"http", "host", "port", "token"}),
        ("kb search", {"folder", "query", "k", "method", "as_json"}),
    ],
)
def test_an_option_is_a_commands_own_or_named_like_the_setting_that_it_sets(
    command: str, own: set[str]
) -> None:
    found: Any = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    assert own == {option.name for option in found.params} - Settings.model_fields.keys()


def test_no_options_name_is_cut_in_the_help_of_a_narrow_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = {(): typer.main.get_command(app)}
    for words, group in groups.copy().items():
        groups |= {(*words, name): command for name, command in group.commands.items()}  # type: ignore[attr-defined]
    kb = groups[("kb",)]
    groups |= {("kb", name): command for name, command in kb.commands.items()}  # type: ignore[attr-defined]
    for words, command in groups.items():
        _, out, _ = run(*words, "--help")
        shown = set(re.findall(r"--[\w-]+", out))
        assert {
            option for parameter in command.params for option in parameter.opts if "--" in option
        } <= shown
        assert not re.search(
            r"\w…", out.replace("SOURCE…", "").replace("RUN…", "").replace("ID…", "")
        )


def test_the_module_runs_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "briefcontext", "--help"], capture_output=True, text=True, check=True
    )
    assert "Exit codes" in done.stdout


def test_whole_texts_join_a_base_of_passages_and_are_cut_into_chunks(
    run: Run, tmp_path: Path
) -> None:
    passages, text, folder = (
        tmp_path / "passages.jsonl",
        tmp_path / "guide.txt",
        str(tmp_path / "kb"),
    )
    passages.write_text(json.dumps(PASSAGES[0]) + "\n")
    text.write_text("Honey soothes the cough of children older than one year. " * 40)
    assert run("index", str(passages), "--kb", folder, "--encoder", "minilm")[0] == 0
    code, out, _ = run("index", str(text), "--kb", folder, "--encoder", "minilm")
    assert (code, "1 indexed" in " ".join(out.split())) == (0, True)
    _, out, _ = run("kb", "search", folder, "honey for cough", "--json", "--top-k", "2")
    assert all(
        passage["source_id"].endswith("guide.txt") and "#" in passage["id"]
        for passage in json.loads(out)
    )


ROOT = [sys.executable, "-m", "briefcontext"]


@pytest.mark.parametrize("arguments", [["--help"], ["kb", "list", "demo", "--json"]])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str]) -> None:
    with subprocess.Popen(
        [*ROOT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


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
        (OSError(28, "No space left on device"), "Error: No space left on device."),
        (
            ValueError("it is odd.\nvery"),
            "Error: ValueError: it is odd. very. Add --verbose to see where.",
        ),
        (RuntimeError(), "Error: RuntimeError: no more is known. Add --verbose to see where."),
    ],
)
def test_an_unexpected_error_is_one_line_and_with_verbose_a_traceback(
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
