"""Prompt templates: text files in Mustache syntax, and their loader.

A file holds the system message, a line `---`, and the user message; a file without that line is one
user message. Values are inserted once and never read as template syntax, so a document cannot bring
its own.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.utils.mustache import ChevronError, tokenize

from briefcontext.errors import InputError

__all__ = ["BUNDLED", "Prompts"]

_SUFFIX = ".txt"
_AS_IT_IS = "no escape"


class Prompts:
    """The prompt templates of a reader: the bundled ones, or those in a folder.

    Two of the same texts are equal. Files have the names of the templates that they replace, such
    as `extract.txt`. Raises InputError if the folder or a template in it cannot be used.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.texts: Mapping[str, str] = {
            **_bundled(),
            **({} if folder is None else _own(Path(folder))),
        }
        """Template by name."""

    @property
    def digest(self) -> str:
        """SHA-256 of all templates: another prompt makes another experiment."""
        return sha256(
            "\0".join(text for _, text in sorted(self.texts.items())).encode()
        ).hexdigest()

    def render(
        self,
        name: str,
        question: str,
        options: Mapping[str, str],
        *,
        may_abstain: bool = True,
        **values: str,
    ) -> list[BaseMessage]:
        """Fill a template for one question.

        `values` are what else the template names, such as `documents`. `may_abstain` is whether the
        reader may report that it cannot answer.
        """
        choices = [{"letter": letter, "text": text} for letter, text in options.items()]
        return _template(self.texts[name]).format_messages(
            question=question,
            options=choices,
            multiple_choice=bool(choices),
            may_abstain=may_abstain,
            **values,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prompts) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.digest)


@cache
def _template(text: str) -> ChatPromptTemplate:
    parts = [part.strip() for part in text.strip().split("\n---\n", maxsplit=1)]
    roles = ("system", "human") if len(parts) == 2 else ("human",)
    return ChatPromptTemplate.from_messages(
        list(zip(roles, parts, strict=True)), template_format="mustache"
    )


@cache
def _bundled() -> Mapping[str, str]:
    found = (
        file for file in files("briefcontext.prompts").iterdir() if file.name.endswith(_SUFFIX)
    )
    return {file.name.removesuffix(_SUFFIX): file.read_text(encoding="utf-8") for file in found}


def _own(folder: Path) -> dict[str, str]:
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    if not found:
        raise InputError(
            f"There are no prompts (*{_SUFFIX}) in {folder}. Write some: "
            f"briefcontext prompts {folder}"
        )
    return {file.stem: _checked(file) for file in found}


def _checked(file: Path) -> str:
    """Return a template of the user's own, which inserts what a reader must see."""
    if file.stem not in _bundled():
        names = _listed(f"{name}{_SUFFIX}" for name in _bundled())
        raise InputError(f"{file} replaces no prompt. There are {names}.")
    try:
        text = file.read_text(encoding="utf-8")
        tags = _tags(text)
        _template(text)
    except (OSError, UnicodeDecodeError, ChevronError) as error:
        raise InputError(f"The prompt {file} cannot be read: {error}") from error
    bundled = _tags(_bundled()[file.stem])
    known = {name for _, name in bundled}
    if unknown := {name for _, name in tags} - known:
        raise InputError(
            f"The prompt {file} names {_listed(unknown)}. It can name {_listed(known)}."
        )
    # Two braces would write the < and & of a document as HTML.
    inserted = {name for kind, name in bundled if kind == _AS_IT_IS}
    if lost := {
        name for name in inserted if (_AS_IT_IS, name) not in tags or ("variable", name) in tags
    }:
        written = _listed(f"{{{{{{{name}}}}}}}" for name in lost)
        raise InputError(
            f"The prompt {file} must insert {written}, in three braces, as the bundled one does."
        )
    return text


def _tags(template: str) -> set[tuple[str, str]]:
    """Return the kinds and names of a template's tags."""
    return {(kind, name) for kind, name in tokenize(template) if kind not in ("literal", "end")}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


BUNDLED = Prompts()
