"""Public names of a package that are imported when they are first used: langgraph and its kin take most of a second."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__`, which imports what it imports for type checkers alone, and its `__dir__`.

    Those names are its `__all__`, too. An import is written `A as A`, by which type checkers take it for public.

    Args:
        package: its name.
        file: its `__file__`, with the imports under `if TYPE_CHECKING`.
    """
    blocks = [block for block in ast.parse(Path(file).read_bytes()).body if isinstance(block, ast.If)]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    homes = {name.name: str(line.module) for line in imports for name in line.names}

    def load(name: str) -> Any:
        if name == "__all__":
            return list(homes)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load, lambda: list(homes)
