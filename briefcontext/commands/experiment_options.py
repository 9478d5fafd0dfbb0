"""Checks that an experiment uses the options it was given, and rejects those that it ignores."""

from collections.abc import Collection, Sequence

import typer

from briefcontext.errors import InputError

__all__ = ["check_methods", "check_options", "given_options"]

_OF_A_MODEL = {
    "model": "names the model that answers",
    "extract_model": "names the model that extracts",
    "prompts": "names what the model is told",
    "method": "names what is compared",
    "per_class": "draws questions by their answers",
    "repeats": "is for a model's replies",
    "partition_size": "cuts documents for a model to read",
    "temperature": "is for a model's replies",
    "max_input_tokens": "is a model's window",
    "in_flight": "is for calls of a model",
    "requests_per_minute": "is for calls of a model",
    "tokens_per_minute": "is for calls of a model",
    "input_price": "is the price of a model's calls",
    "output_price": "is the price of a model's calls",
    "dry_run": "foretells the calls of a model",
    "batch": "writes the calls of a model to a file",
    "replies": "takes the replies of a model",
}
"""Options that the experiment preflight does not use, which asks none, and what they are for."""
_OF_ONE = {
    "positives": ("preflight", "says what the preflight study predicts"),
    "rankings": ("conflict", "is for the experiment conflict"),
    "encoder": ("order", "encodes the chunks of long documents, which only the experiment order reads"),
    "exact_chunks": ("order", "cuts long documents, which only the experiment order reads"),
    "judge": ("open_ended", "judges the pairs of the experiment open_ended"),
    "verdicts": ("open_ended", "takes verdicts on the pairs of the experiment open_ended"),
}
"""Options that one experiment uses, and what they are for."""
_KB = "names the knowledge base to read from, and the experiment order reads the data set's long documents"
_MAPS = frozenset({"briefcontext", "map_reduce"})


def given_options(context: typer.Context) -> list[str]:
    """Return the names of the parameters that were given, and not left to their defaults."""
    return [
        name
        for name in context.params
        if getattr(context.get_parameter_source(name), "name", "DEFAULT") not in ("DEFAULT", "DEFAULT_MAP")
    ]


def check_options(experiment: str, given: Collection[str]) -> None:
    """Refuse options that the experiment does not use, or that exclude each other.

    Raises:
        InputError: there is one, and what it is for.
    """
    refused = {option: purpose for option, (only, purpose) in _OF_ONE.items() if only != experiment}
    asks = ""
    if experiment == "preflight":
        refused |= _OF_A_MODEL
        asks = ", which asks no model and reads every question by both checks"
    elif experiment == "order":
        refused["kb"] = _KB
    for option in given:
        if option in refused:
            raise InputError(
                f"{_written(option)} {refused[option]}: the experiment {experiment}{asks} does not use it. "
                "Leave it out."
            )
    for first, *others in (("dry_run", "batch", "judge", "verdicts"), ("batch", "judge", "verdicts")):
        for other in others:
            if first in given and other in given:
                raise InputError(f"{_written(first)} and {_written(other)} are two steps. Give one of them at a time.")


def check_methods(experiment: str, methods: Sequence[str], given: Collection[str]) -> None:
    """Refuse options that none of the methods that are compared would heed.

    Raises:
        InputError: there is one.
    """
    for option, needed in (("iou_threshold", {"briefcontext"}), ("partition_size", _MAPS)):
        if option in given and not needed.intersection(methods):
            raise InputError(
                f"{_written(option)} is for {' or '.join(sorted(needed))}, and the methods of this run are "
                f"{', '.join(methods)}. Leave it out, or add a --method."
            )


def _written(option: str) -> str:
    return "--" + option.replace("_", "-")
