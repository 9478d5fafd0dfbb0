"""The language of a question, told by its small words."""

import pytest
from langchain_core.documents import Document

from briefcontext.chains.question import language_note, language_of
from briefcontext.knowledge import demo_questions
from tests.conftest import make_documents


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Welches Medikament ist bei Typ-2-Diabetes die erste Wahl?", "German"),
        ("Quel est le traitement de première intention du diabète de type 2 ?", "French"),
        ("¿Cuál es el tratamiento de primera línea para la diabetes tipo 2?", "Spanish"),
        ("Qual è il trattamento di prima scelta per il diabete di tipo 2?", "Italian"),
        ("Qual é o tratamento de primeira linha para os doentes com diabetes?", "Portuguese"),
        ("Wat is het middel van eerste keuze bij diabetes?", "Dutch"),
        ("二甲双胍在肾功能衰竭时安全吗？", "another script than Latin letters"),
        ("Безопасен ли метформин (metformin) при почечной недостаточности?", "another script than Latin letters"),
        ("metformin kidney disease dose", None),
    ],
)
def test_a_question_in_another_language_than_the_documents_is_told_of(question: str, language: str | None) -> None:
    assert language_of(question) == language
    note = language_note(question, make_documents(5, about=0))
    assert (note or "").startswith(f"The question seems to be in {language}" if language else "")
    assert (note is None) == (language is None)


@pytest.mark.parametrize("question", [question["question"] for question in demo_questions()])
def test_english_questions_are_taken_for_nothing_else(question: str) -> None:
    assert language_of(question) in ("English", None)


def test_greek_letters_and_figures_are_no_other_script() -> None:
    assert language_of("TNF-α, IL-1β, 2.5 μg") is None
    assert language_note("糖尿病の治療は？", [Document(page_content="糖尿病の治療")]) is None


def test_nothing_is_said_where_documents_do_not_tell() -> None:
    assert language_note("Wat is het middel van eerste keuze bij diabetes?", []) is None
