"""Public names of a package, imported on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's `__getattr__`, `__dir__` and `__all__`.

    Importing langgraph takes most of a second, which `briefcontext --help` does not need.

    Args:
        package: Name of the package, for the message about a missing name.
        modules: For each module, relative to `briefcontext`, its public names separated by spaces.
    """
    table = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"briefcontext.{table[name]}"), name)

    return load, lambda: list(table), list(table)
