"""Pages that MkDocs generates from the code when it builds the documentation."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

import briefcontext
from briefcontext.chains.answer import Answer
from briefcontext.graphs.settings import Settings

BASES = {"CitedQuote": "Quote", "Usage": "UsageSum"}
"""Parts of an answer and the parts that they extend. Pydantic leaves out inherited docstrings."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference pages to the site."""
    pages = {
        "settings": settings_page(),
        "commands": commands_page(),
        "python": python_page(),
        "answer": answer_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def settings_page() -> str:
    """Return the settings as a table, from the fields of `Settings`."""
    properties = Settings.model_json_schema()["properties"]
    rows = [
        f"| `{name}` | {_type(field)} | `{json.dumps(field.get('default'))}` "
        f"| {_cell(field['description'])} |"
        for name, field in properties.items()
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Pass settings as `context=Settings(…)` or as a dict of the same fields.",
            "Most of them are options of `briefcontext ask`, and fields of a form in Studio.",
            "",
            "| setting | type | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def commands_page() -> str:
    """Return the commands and their options, as Typer documents them."""
    typer = [sys.executable, "-m", "typer", "briefcontext.cli", "utils", "docs"]
    command = [*typer, "--name", "briefcontext", "--title", "Commands"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def python_page() -> str:
    """Return the page of the public names, which mkdocstrings documents."""
    values = [getattr(briefcontext, name) for name in sorted(dir(briefcontext))]
    public = [
        value
        for value in values
        if getattr(value, "__module__", "").startswith("briefcontext.")
        and hasattr(value, "__qualname__")
        and not is_typeddict(value)
    ]
    functions = [value for value in public if not isinstance(value, type)]
    errors = [value for value in public if isinstance(value, type) and issubclass(value, Exception)]
    classes = [value for value in public if value not in (*functions, *errors)]
    sections = {"Functions": functions, "Classes": classes, "Errors": errors}
    lines = ["# Python API", "", "Import these names from `briefcontext`.", ""]
    for heading, values in sections.items():
        lines += [f"## {heading}", ""]
        lines += [f"::: {value.__module__}.{value.__qualname__}\n" for value in values]
    return "\n".join(lines)


def answer_page() -> str:
    """Return the answer's parts as tables, and its JSON schema."""
    adapter = TypeAdapter(list[Answer], config=ConfigDict(use_attribute_docstrings=True))
    definitions = adapter.json_schema()["$defs"]
    for name, base in BASES.items():
        for key, field in definitions[base]["properties"].items():
            definitions[name]["properties"][key] = field
    schema = {**definitions.pop("Answer"), "$defs": definitions}
    parts = [
        line
        for name, part in {"Answer": schema, **definitions}.items()
        for line in _part(name, part)
    ]
    raw = json.dumps(schema, indent=2, ensure_ascii=False).replace("\n", "\n    ")
    return "\n".join(
        [
            "# The answer's JSON schema",
            "",
            "The keys are the same in Python, in `briefcontext ask --json` and over the servers.",
            "",
            *parts,
            "## JSON schema",
            "",
            '??? abstract "Show the schema"',
            "",
            "    ```json",
            f"    {raw}",
            "    ```",
            "",
        ]
    )


def _part(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {name}", "", schema.get("description", ""), "")
    yield from ("| key | type | meaning |", "|---|---|---|")
    for key, field in schema.get("properties", {}).items():
        yield f"| `{key}` | {_type(field)} | {_cell(field.get('description', ''))} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    """Return a JSON schema's type in one word or a few, with links to other parts."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if options := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_type(option) for option in options))
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    return str(schema.get("type", "any"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
