"""Prompts as the model receives them, bundled or from a folder."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from briefcontext import build_graph
from briefcontext.chains.citation import assign_keys, document_key
from briefcontext.chains.context import render_documents
from briefcontext.chains.llm_reader import LLMReader
from briefcontext.cli import main
from briefcontext.errors import InputError
from briefcontext.prompts import BUNDLED, Prompts
from tests.conftest import QUESTION, FixedRetriever
from tests.openai_server import OpenAIServer, faithful

STAGES = ["answer", "extract", "reduce"]


def _user(stage: str, options: dict[str, str], text: str = "TEXT") -> str:
    return BUNDLED.render(stage, "Is it so?", options, documents=text, evidence=text)[-1].text


@pytest.mark.parametrize("stage", STAGES)
def test_the_question_is_before_and_after_the_context(stage: str) -> None:
    prompt = _user(stage, {})
    assert prompt.index("Is it so?") < prompt.index("TEXT") < prompt.rindex("Is it so?")


@pytest.mark.parametrize("stage", STAGES)
def test_options_appear_only_for_multiple_choice(stage: str) -> None:
    free = BUNDLED.render(stage, "Is it so?", {}, documents="", evidence="")
    choice = BUNDLED.render(
        stage, "Is it so?", {"A": "yes", "B": "<no>"}, documents="", evidence=""
    )
    assert "hoice" not in "".join(message.text for message in free)
    assert "A. yes\nB. <no>" in choice[-1].text
    assert choice[0].text.count("hoice") == 1
    assert "any case" not in choice[0].text


def test_a_document_is_rendered_between_tags_with_its_key() -> None:
    (document,) = assign_keys(
        "Q?", [Document(id="1", page_content="Body.", metadata={"title": "Title"})]
    )
    key = document_key(document)
    assert render_documents([document]) == f'<document key="{key}">\nTitle\nBody.\n</document>'


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
    ("name", "marked"), [("extract", [True] * 4 + [False]), ("reduce", [False] * 4 + [True])]
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
            "reduce",
            BUNDLED.texts["reduce"].replace("{{{evidence}}}", "{{{documents}}}"),
            "names documents",
        ),
        ("answer", f"{BUNDLED.texts['answer']} {{{{#options}}}}", "never closed"),
        ("answers", BUNDLED.texts["answer"], "replaces no prompt. There are again.txt"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(
    name: str, template: str, words: str, given: Given
) -> None:
    with pytest.raises(InputError) as refused:
        Prompts(given(**{name: template}))
    assert words in str(refused.value)
    assert f"{name}.txt" in str(refused.value)


def test_a_folder_without_templates_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="There are no prompts"):
            Prompts(folder)


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
