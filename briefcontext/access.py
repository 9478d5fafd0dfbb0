"""The allow-list of the servers: the settings that clients may choose, and the names in them.

    BRIEFCONTEXT_BASES      knowledge bases, comma-separated: NAME=PLACE; default: demo
    BRIEFCONTEXT_MODELS     chat models, comma-separated; default: none
    BRIEFCONTEXT_DOCUMENTS  folder of the files that may be asked; default: none

The first base and the first model are the defaults. In Python and on the command line, every
setting takes every value.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, TypeVar

from briefcontext.errors import InputError
from briefcontext.graphs.settings import CALIBRATED, IOU, Settings
from briefcontext.knowledge.knowledge_base import DEMO

_Settings = TypeVar("_Settings", bound=Settings)

MAX_DOCUMENTS = 128
"""Limit of documents for one question of a client; each partition is a model call."""
CHOICES = (
    *("route", "fallback", "top_k", "partition_size", "preflight_top_n", "iou_threshold"),
    *("retrieval", "years", "publication_types", "journals", "mesh", "languages"),
    "include_retracted",
)
"""Settings that clients of every server may choose."""
_OF_RUNS = ("verify",)
_COUNTS = ("top_k", "partition_size", "preflight_top_n")


def check(chosen: object, base: Settings, names: Collection[str] = CHOICES) -> Settings:
    """Return the settings with a client's choices.

    Raises:
        InputError: A setting that clients may not choose, or a value out of range.
    """
    if chosen is None:
        return base
    if not isinstance(chosen, Mapping):
        kind = type(chosen).__name__
        raise InputError(f"Settings must be a mapping of name to value, not {kind}.")
    for name in chosen:
        if name not in names:
            raise InputError(f"{name!r} cannot be set here. These can: {', '.join(names)}.")
    settings = type(base)(**{**base.model_dump(), **chosen})
    for name in _COUNTS:
        if getattr(settings, name) > max(MAX_DOCUMENTS, getattr(base, name)):
            count = getattr(settings, name)
            raise InputError(f"{name} = {count}: a client can set at most {MAX_DOCUMENTS}.")
    return settings


@dataclass(frozen=True)
class Access:
    """The names that a server's owner allows."""

    bases: Mapping[str, str]
    """Places by name."""
    models: tuple[str, ...] = ()
    documents: Path | None = None
    """Folder of the files that may be asked."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Access":
        """Read the lists from environment variables.

        Raises:
            InputError: A list cannot be used.
        """
        folder = environment.get("BRIEFCONTEXT_DOCUMENTS") or None
        if folder is not None and not Path(folder).is_dir():
            raise InputError(
                f"BRIEFCONTEXT_DOCUMENTS = {folder!r} is no folder. Name one, or leave it out."
            )
        return cls(
            _bases(environment.get("BRIEFCONTEXT_BASES", "")) or {DEMO: DEMO},
            tuple(_entries(environment.get("BRIEFCONTEXT_MODELS", ""))),
            folder and Path(folder).resolve(),
        )

    def check(self, chosen: object) -> dict[str, Any]:
        """Return a client's choices with the owner's defaults.

        Raises:
            InputError: A setting, name or value that clients may not choose.
        """
        models = [*self.models, None]
        listed: dict[str, tuple[Collection[str | None], str]] = {
            "knowledge_base": (self.bases, "BRIEFCONTEXT_BASES"),
            **dict.fromkeys(
                ("model", "extract_model", "verify_model"), (models, "BRIEFCONTEXT_MODELS")
            ),
            "preflight": ((IOU, CALIBRATED), ""),
            "cross_encoder": (("medcpt", None), ""),
        }
        first = next(iter(self.bases))
        defaults = {"knowledge_base": first, "model": models[0]}
        check(chosen, Settings(), (*CHOICES, *_OF_RUNS, *listed, "document"))
        context = {**defaults, **(chosen if isinstance(chosen, Mapping) else {})}
        for name in context.keys() & listed.keys():
            allowed, variable = listed[name]
            if context[name] not in allowed:
                names = ", ".join(map(str, allowed))
                owner = f" The server's owner lists in {variable} what may be named."
                raise InputError(
                    f"{name} = {context[name]!r:.100} is not served. There are: {names}."
                    + owner * bool(variable)
                )
        self.document(context.get("document"))
        return context

    def resolved(self, settings: _Settings) -> _Settings:
        """Return the settings with places instead of names.

        Raises:
            InputError: The folder of documents has no such file.
        """
        places = {"knowledge_base": self.bases[settings.knowledge_base]}
        if settings.document is not None:
            places["document"] = str(self.document(settings.document))
        return settings.model_copy(update=places)

    def document(self, name: str | None) -> Path | None:
        """Return the file of a name. A link counts as its target.

        Raises:
            InputError: The folder of documents has no such file.
        """
        if name is None:
            return None
        try:
            file = Path(f"{self.documents}/{name}").resolve(strict=True)
            if self.documents and file.is_relative_to(self.documents) and file.is_file():
                return file
        # The file is missing, its name has a null byte, or its links form a circle.
        except (OSError, ValueError, RuntimeError):
            pass
        raise InputError(
            f"document = {name[:100]!r}: there is no such file here. Name one of the folder that "
            "the server's owner gives in BRIEFCONTEXT_DOCUMENTS."
        )


def _entries(text: str) -> list[str]:
    return [entry for entry in map(str.strip, text.split(",")) if entry]


def _bases(text: str) -> dict[str, str]:
    """Return places by name."""
    bases: dict[str, str] = {}
    for entry in _entries(text):
        name, equals, place = map(str.strip, entry.partition("="))
        if not equals:
            name, place = PurePath(entry).name, entry
        if not name or not place or name in bases:
            raise InputError(
                f"BRIEFCONTEXT_BASES cannot be used: {entry!r} is not NAME=PLACE, or repeats "
                f"place. Write NAME=PLACE."
            )
        bases[name] = place
    return bases
