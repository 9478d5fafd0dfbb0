"""Files, folders and globs that people name, as files."""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from briefcontext.errors import KnowledgeBaseError


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of those that a path stands for."""

    path: Path
    name: str
    """The path as it was given, and for what lies in a folder, the way from there."""
    document_id: str
    """`guidelines/asthma.md`: its place from the folder that was given, that folder's name included.

    For a file named by itself it is the place from the folder that holds it.
    """
    found_by: Literal["name", "glob", "folder"]


def find_files(given: str | Path) -> list[FoundFile]:
    """All files that `given` stands for: a file, those in a folder, or those that match a glob, sorted.

    Folders are read to their depths, and so is `**` in a glob. What is hidden, by a name that begins with a
    dot, counts only where it is named.

    Raises KnowledgeBaseError when there is none, or a folder cannot be read.
    """
    path = Path(given).expanduser()
    if path.is_file():
        return [_found(path, path.absolute().parent, "name")]
    if path.is_dir():
        files = [_found(file, path.absolute(), "folder") for file in _walk(path, {path.resolve()})]
        problem = f"The folder {given} holds no file"
    elif glob.has_magic(str(path)):
        root = _glob_root(path)
        matches = map(Path, glob.glob(str(path), recursive=True))
        files = [_found(match, root, "glob") for match in sorted(matches) if match.is_file()]
        problem = f"No file matches {given}"
    else:
        raise KnowledgeBaseError(f"There is no file or folder {given}: check the path.")
    if not files:
        raise KnowledgeBaseError(f"{problem}: check the path.")
    return files


def _walk(folder: Path, above: set[Path]) -> Iterator[Path]:
    try:
        children = sorted(child for child in folder.iterdir() if not child.name.startswith("."))
    except OSError as error:
        raise KnowledgeBaseError(
            f"The folder {folder} cannot be read ({error.strerror}): check its permissions."
        ) from error
    for child in children:
        if child.is_file():
            yield child
        # A link to a folder above would be followed for ever.
        elif child.is_dir() and (real := child.resolve()) not in above:
            yield from _walk(child, above | {real})


def _glob_root(pattern: Path) -> Path:
    """The folder that a glob looks in."""
    parts = []
    for part in pattern.parts[:-1]:
        if glob.has_magic(part):
            break
        parts.append(part)
    return Path(*parts).absolute()


def _found(path: Path, root: Path, found_by: Literal["name", "glob", "folder"]) -> FoundFile:
    root = Path(os.path.normpath(root))
    place = PurePath(root.name, Path(os.path.normpath(path.absolute())).relative_to(root))
    return FoundFile(path, _printable(str(path)), _printable(place.as_posix()), found_by)


def _printable(name: str) -> str:
    """The name with what is no UTF-8 in it replaced, so that it can be stored."""
    return os.fsencode(name).decode("utf-8", "replace")
