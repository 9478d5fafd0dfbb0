"""Prompts of the user's own: they reach the model, and those that would leave it blind are refused."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI

from briefcontext import Settings, build_graph
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.cli import main
from briefcontext.errors import InputError
from briefcontext.prompts import BUNDLED, Prompts
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import OpenAIServer, faithful

Given = Callable[..., Path]
MARKED = "Write for a nurse."


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Write templates to a folder."""

    def write(**templates: str) -> Path:
        for name, text in templates.items():
            (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def _marked(name: str) -> str:
    return BUNDLED.texts[name].replace("\n---\n", f"\n{MARKED}\n---\n")


def _were_marked(server: OpenAIServer) -> list[bool]:
    """Say of each call whether its system message is marked."""
    return [MARKED in call.system for call in server.calls]


@pytest.mark.parametrize(
    ("name", "marked"),
    [("extract", [True] * 4 + [False]), ("reduce", [False] * 4 + [True]), ("answer", [False] * 5)],
)
def test_a_template_in_the_folder_replaces_the_bundled_one_of_its_name(
    name: str,
    marked: list[bool],
    given: Given,
    chat_model: ChatOpenAI,
    server: OpenAIServer,
    disagreeing: FixedRetriever,
) -> None:
    server.script = faithful
    reader = LLMReader(chat_model, prompts=Prompts(given(**{name: _marked(name)})))
    answer = build_graph(reader=reader, retriever=disagreeing).invoke({"question": QUESTION})[
        "answer"
    ]
    assert answer["route"] == "map_reduce"
    assert _were_marked(server) == marked


def test_a_changed_file_counts_from_the_next_question_on(
    given: Given, server: OpenAIServer, disagreeing: FixedRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    server.script = faithful
    graph = build_graph(retriever=disagreeing)
    for template, marked in ((BUNDLED.texts["answer"], False), (_marked("answer"), True)):
        folder = given(answer=template)
        settings = Settings(
            model=f"openai:scripted-{server.url}", prompts=str(folder), route="vanilla"
        )
        graph.invoke({"question": QUESTION}, context=settings)
        assert _were_marked(server)[-1] is marked


def test_template_syntax_in_a_document_stays_text(given: Given) -> None:
    prompts = Prompts(
        given(extract="{{{question}}}{{#options}}{{{text}}}{{/options}}\n---\n{{{documents}}}")
    )
    hostile = "{{question}} {{#options}}x{{/options}} <b>"
    assert prompts.render("extract", "Q?", {}, documents=hostile)[-1].text == hostile


@pytest.mark.parametrize(
    ("name", "template", "words"),
    [
        ("extract", "Copy what answers {{{question}}}.", "{{{documents}}}"),
        (
            "extract",
            BUNDLED.texts["extract"].replace("{{{documents}}}", "{{documents}}"),
            "{{{documents}}}",
        ),
        ("extract", f"{BUNDLED.texts['extract']} {{{{question}}}}", "{{{question}}}"),
        (
            "reduce",
            BUNDLED.texts["reduce"].replace("{{{evidence}}}", "{{{documents}}}"),
            "names documents",
        ),
        ("answer", f"{BUNDLED.texts['answer']} {{{{> other}}}}", "names other"),
        ("answer", f"{BUNDLED.texts['answer']} {{{{#options}}}}", "never closed"),
        ("answer", f"{BUNDLED.texts['answer']} {{{{#options", "unclosed tag"),
        ("answers", BUNDLED.texts["answer"], "replaces no prompt. There are again.txt"),
        ("answer", "", "{{{documents}}}, {{{question}}}, {{{text}}}"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(
    name: str, template: str, words: str, given: Given
) -> None:
    with pytest.raises(InputError) as refused:
        Prompts(given(**{name: template}))
    assert words in str(refused.value)
    assert f"{name}.txt" in str(refused.value)


def test_a_template_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"answer\.txt cannot be read"):
        Prompts(tmp_path)


def test_a_folder_without_templates_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="There are no prompts"):
            Prompts(folder)


def test_prompts_need_a_model(tmp_path: Path, disagreeing: FixedRetriever) -> None:
    with pytest.raises(InputError, match="model is not"):
        build_graph(retriever=disagreeing).invoke(
            {"question": QUESTION}, context=Settings(prompts=str(tmp_path))
        )


def test_the_bundled_ones_are_written_out_once_and_are_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    monkeypatch.setattr(sys, "argv", ["briefcontext", "prompts", str(folder)])
    for code, said in (
        (None, f"Wrote {len(BUNDLED.texts)} prompts"),
        (2, "prompts already: name another"),
    ):
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        assert ended.value.code == code
        assert said in output.out + output.err
    assert Prompts(folder) == BUNDLED
    assert Prompts(folder).digest == BUNDLED.digest
