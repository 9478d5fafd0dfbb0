"""`briefcontext prompts`: the bundled prompts, written out to be changed."""

from pathlib import Path
from typing import Annotated

import typer

from briefcontext.errors import InputError


def prompts(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write them to; made where it is missing.")],
) -> None:
    """Write the bundled prompts to a folder, to be changed there and given with --prompts."""
    from briefcontext.prompts import BUNDLED

    files = {folder / f"{name}.txt": text for name, text in sorted(BUNDLED.texts.items())}
    if there := sum(file.exists() for file in files):
        raise InputError(f"{folder} holds {there} of the {len(files)} prompts already: name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    typer.echo(f"Wrote {len(files)} prompts to {folder}. Delete those that stay as they are: they then follow updates.")
