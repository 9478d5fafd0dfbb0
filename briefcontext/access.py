"""What the clients of a served graph may name: names that the server's owner lists, and no path.

    BRIEFCONTEXT_BASES      knowledge bases, by commas: NAME=PLACE, or a place, named by its last part; by default demo
    BRIEFCONTEXT_MODELS     chat models, by commas; by default none, and sentences are copied
    BRIEFCONTEXT_DOCUMENTS  the folder of the files that may be answered from; by default none may

The first base and the first model are those of who names none. No other file, folder or model can be named. In a
process of one's own, and on the command line, all can be.
"""

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model

from briefcontext.errors import InputError
from briefcontext.graphs.settings import CALIBRATED, IOU, Settings
from briefcontext.knowledge.knowledge_base import DEMO

MOST_DOCUMENTS = 128
"""The most documents that a client's question may be answered from: each partition of them is a model call."""


class _Names:
    """What makes settings name things that a server's owner listed."""

    most_documents: ClassVar[int] = MOST_DOCUMENTS
    listed_in: ClassVar[Mapping[str, str]] = {
        "knowledge_base": "BRIEFCONTEXT_BASES",
        "model": "BRIEFCONTEXT_MODELS",
        "extract_model": "BRIEFCONTEXT_MODELS",
        "verify_model": "BRIEFCONTEXT_MODELS",
        "document": "BRIEFCONTEXT_DOCUMENTS",
    }
    file_links: ClassVar[bool] = False
    bases: ClassVar[Mapping[str, str]]
    documents: ClassVar[Path | None]

    def resolved(self: Any) -> Any:
        """The settings with the places of what they name.

        Raises:
            InputError: there is no such file in the folder of documents, symbolic links resolved.
        """
        places = {"knowledge_base": self.bases[self.knowledge_base]}
        if self.document is not None:
            places["document"] = str(_inside(self.documents, self.document))
        return self.model_copy(update=places)


def served(settings: type[Settings], environment: Mapping[str, str] | None = None) -> type[Settings]:
    """Return a graph's settings for those who may only name what its owner lists.

    Args:
        settings: the schema of the graph's `context=`.
        environment: where the lists stand; by default this process's environment.

    Raises:
        InputError: a list that cannot be used.
    """
    listed = os.environ if environment is None else environment
    bases = _bases(listed.get("BRIEFCONTEXT_BASES") or "") or {DEMO: DEMO}
    models = _entries(listed.get("BRIEFCONTEXT_MODELS") or "")
    folder = listed.get("BRIEFCONTEXT_DOCUMENTS") or None
    if folder is not None and not Path(folder).is_dir():
        raise InputError(f"BRIEFCONTEXT_DOCUMENTS = {folder!r} is no folder. Name one, or leave it out.")
    model = _one_of(*models, None)
    kinds: dict[str, Any] = {
        "knowledge_base": (_one_of(*bases), next(iter(bases))),
        "model": (model, next(iter(models), None)),
        "extract_model": (model, None),
        "verify_model": (model, None),
        "cross_encoder": (_one_of("medcpt", None), None),
        "preflight": (_one_of(IOU, CALIBRATED), IOU),
        **dict.fromkeys(("prompts", "model_arguments"), (None, None)),
        **({"document": (None, None)} if folder is None else {}),
    }
    described = settings.model_fields
    for name in ("top_k", "partition_size", "preflight_top_n"):
        kinds[name] = (Annotated[int, Field(ge=1, le=MOST_DOCUMENTS)], described[name].default)
    fields = {
        name: (kind, Field(default=default, description=described[name].description))
        for name, (kind, default) in kinds.items()
    }
    names = type("Names", (_Names,), {"bases": bases, "documents": folder and Path(folder).resolve()})
    create: Any = create_model
    made: type[Settings] = create(settings.__name__, __base__=(names, settings), **fields)
    return made


def _one_of(*names: str | None) -> Any:
    return Literal[names]


def _entries(listed: str) -> list[str]:
    return [entry for entry in map(str.strip, listed.split(",")) if entry]


def _bases(listed: str) -> dict[str, str]:
    """Return the place of each name."""
    bases: dict[str, str] = {}
    for entry in _entries(listed):
        name, given, place = entry.partition("=")
        name, place = (name.strip(), place.strip()) if given else (PurePath(entry).name, entry)
        if not name or not place or name in bases:
            raise InputError(
                f"BRIEFCONTEXT_BASES cannot be used: {entry!r} has no name of its own, or no place. Write NAME=PLACE."
            )
        bases[name] = place
    return bases


def _inside(folder: Path, name: str) -> Path:
    """Return the file of that name in a folder; a link counts as what it leads to."""
    try:
        file = Path(f"{folder}/{name}").resolve(strict=True)
        if file.is_relative_to(folder) and file.is_file():
            return file
    except (OSError, ValueError, RuntimeError):  # missing, with a null byte in it, or a circle of links
        pass
    raise InputError(f"document = {name[:100]!r}: there is no such file here. Name one of the folder of documents.")
