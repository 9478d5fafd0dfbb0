"""The language of docstrings, comments and messages in the product."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("briefcontext", "graphs", "chains", "retrievers", "prompts")
FILES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)
ODD = re.compile(
    r"\b(whoever|whom|nobody|stands?|stood|told|tells?|telling|besides|behind|heed|unheard"
    r"|mend(?:ed|s)?|so many|as many|all the same|of its own|of their own|gone on|goes on)\b",
    re.IGNORECASE,
)


def _texts(source: str) -> Iterator[str]:
    """Yield comments, and strings of several words without the word lists of patterns."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_of_the_product_use_plain_words(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert [found[0] for text in _texts(source) for found in ODD.finditer(text)] == []
    assert [name for name in ("told", "stood") if re.search(rf"\b{name}\b", source)] == []
