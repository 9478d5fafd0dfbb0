"""The package: its exports, the cost of its imports, and the direction of its layers."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "briefcontext"

LAYERS = {
    "prompts": set[str](),
    "knowledge": set[str](),
    "retrievers": {"knowledge"},
    "chains": {"prompts", "retrievers", "knowledge"},
    "graphs": {"chains", "retrievers", "knowledge", "prompts"},
    "evaluation": {"graphs", "chains", "retrievers", "knowledge", "prompts"},
}


def _imports(file: Path) -> set[str]:
    """Return the layers that a file imports from, those in functions included."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return {
        parts[1]
        for module in modules
        if (parts := module.split("."))[0] == "briefcontext" and len(parts) > 1
    }


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_only_from_those_below(layer: str) -> None:
    allowed = LAYERS[layer] | {layer, "errors", "files", "lazy", "retries"}
    for file in (PACKAGE / layer).glob("**/*.py"):
        assert _imports(file) <= allowed, f"{file} reaches outside {sorted(allowed)}"


@pytest.mark.parametrize(
    "module",
    [
        ".".join(["briefcontext", *f.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        for layer in LAYERS
        for f in sorted((PACKAGE / layer).glob("**/*.py"))
    ]
    + ["briefcontext"],
)
def test_every_exported_name_exists(module: str) -> None:
    imported = importlib.import_module(module)
    for name in getattr(imported, "__all__", []):
        assert getattr(imported, name) is not None


@pytest.mark.parametrize(
    "package", ["briefcontext", "briefcontext.knowledge", "briefcontext.retrievers"]
)
def test_a_lazy_package_lists_what_it_offers(package: str) -> None:
    imported = importlib.import_module(package)
    exec(f"from {package} import *", names := dict[str, object]())
    assert dir(imported) == sorted(names.keys() - {"__builtins__"})
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'nothing'"):
        _ = imported.nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import briefcontext", ["langgraph", "langchain_core", "pydantic", "torch"]),
        ("import briefcontext.cli", ["langgraph", "langchain_core", "torch"]),
        (
            "from briefcontext import graph, build_graph, Settings",
            ["torch", "sentence_transformers", "chromadb", "lance", "pyarrow"],
        ),
    ],
)
def test_importing_loads_nothing_heavy(statement: str, forbidden: list[str]) -> None:
    check = f"{statement}; import sys; print([m for m in {forbidden} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "package", ["briefcontext", "briefcontext.knowledge", "briefcontext.retrievers"]
)
def test_type_checkers_see_the_same_public_names(package: str) -> None:
    imported = importlib.import_module(package)
    tree = ast.parse(Path(str(imported.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert list(seen) == imported.__all__
    for name, module in seen.items():
        assert getattr(imported, name) is getattr(importlib.import_module(str(module)), name)
