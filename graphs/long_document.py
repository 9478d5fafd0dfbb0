"""The graph for one long document, read in the order of its text (OP-RAG, Yu et al. 2024)."""

from typing import Literal, Self

from pydantic import Field, model_validator

from briefcontext.errors import InputError
from briefcontext.graphs.graph import build_graph
from briefcontext.graphs.resources import RESOURCES
from briefcontext.graphs.settings import Settings


class LongDocumentSettings(Settings):
    """Settings that name a document and read it in the order of its text.

    Raises InputError for an unknown setting or a value out of range.
    """

    document: str | None = Field(
        default=None,
        description="File to answer from: text, PDF, PMC NXML, Word or another document. Required.",
    )
    route: Literal["auto", "map_reduce", "vanilla", "order_preserving"] = Field(
        default="order_preserving",
        description="Route of every question; auto lets the preflight decide.",
    )

    @model_validator(mode="after")
    def _check_document(self) -> Self:
        if self.document is None:
            raise InputError(
                "There is no document to answer from. Name a file in the setting document; on a "
                "server, one in the folder BRIEFCONTEXT_DOCUMENTS."
            )
        return self


graph = build_graph(settings=LongDocumentSettings, name="LongDocument", resources=RESOURCES)
