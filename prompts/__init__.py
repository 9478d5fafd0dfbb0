"""Prompt templates: text files in Mustache syntax, and their loader.

A file holds the system message, a line `---`, and the user message; a file without that line is one user
message. Values are inserted once and never read as template syntax, so a document cannot bring its own.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate

__all__ = ["load_prompt", "render"]


@cache
def load_prompt(name: str) -> ChatPromptTemplate:
    """Return the template `prompts/<name>.txt`.

    Raises:
        FileNotFoundError: there is no such template.
    """
    text = files("briefcontext.prompts").joinpath(f"{name}.txt").read_text(encoding="utf-8").strip()
    parts = [part.strip() for part in text.split("\n---\n", maxsplit=1)]
    roles = ("system", "human") if len(parts) == 2 else ("human",)
    return ChatPromptTemplate.from_messages(list(zip(roles, parts, strict=True)), template_format="mustache")


def render(
    name: str, question: str, options: Mapping[str, str], *, may_abstain: bool = True, **values: str
) -> list[BaseMessage]:
    """Fill a template for one question.

    Args:
        name: the template's.
        question: the question.
        options: letter to text, for multiple choice; empty for a free answer.
        may_abstain: whether the reader may say that it cannot answer.
        values: what else the template names, `documents` or `evidence`.
    """
    choices = [{"letter": letter, "text": text} for letter, text in options.items()]
    return load_prompt(name).format_messages(
        question=question, options=choices, multiple_choice=bool(choices), may_abstain=may_abstain, **values
    )
