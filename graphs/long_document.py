"""The graph for one long document: the same nodes, and settings that name its file (OP-RAG, Yu et al. 2024)."""

from typing import Literal, Self

from pydantic import Field, model_validator

from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.resources import RESOURCES
from briefcontext.graphs.settings import Settings


class LongDocumentSettings(Settings):
    """The settings, with the file that the answer is to come from, read in the order of its text.

    Raises:
        InputError: an unknown setting, or a value out of its range.
    """

    document: str | None = Field(
        default=None,
        description="The file to answer from: text, PDF, PMC NXML, Word or another document. It must be named.",
    )
    route: Literal["auto", "map_reduce", "vanilla", "order_preserving"] = Field(
        default="order_preserving",
        description="The way to read: in the order of the text, decided by the preflight check (auto), or forced.",
    )

    @model_validator(mode="after")
    def _check_document(self) -> Self:
        if self.document is None:
            raise InputError(
                "There is no document to answer from. Name its file in the setting document; on a "
                "server, a file in the folder of BRIEFCONTEXT_DOCUMENTS."
            )
        return self


graph = build_graph(settings=LongDocumentSettings, name="LongDocument", resources=RESOURCES)
