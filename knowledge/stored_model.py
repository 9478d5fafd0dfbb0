"""Models that are stored as JSON with the version of their format."""

from pydantic import BaseModel, ValidationError

__all__ = ["first_problem", "stored_version"]


class _Version(BaseModel):
    format_version: int


def stored_version(text: str) -> int:
    """Return the format version of a stored model, whatever else stands in it.

    Raises:
        ValidationError: there is none.
    """
    return _Version.model_validate_json(text).format_version


def first_problem(error: ValidationError) -> str:
    """Say where a stored model is first wrong, and how."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
