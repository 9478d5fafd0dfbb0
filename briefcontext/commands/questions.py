"""`briefcontext ask --questions`: many questions in a row, and a line of JSON for each answer."""

import json

import typer

from briefcontext.commands.progress import ProgressLines, run
from briefcontext.errors import ModelCallError
from briefcontext.evaluation.data_sets import load_data_set
from briefcontext.graphs.settings import Settings

__all__ = ["ask_many"]


def ask_many(data_set: str, settings: Settings) -> int:
    """Ask the questions of a data set, and print each one's `id` with its answer, or with the `error` of its calls.

    Returns:
        how many could not be answered, since a model call failed.

    Raises:
        BriefContextError: the data set or the set-up is at fault; what was answered before is printed.
    """
    failed = 0
    for item in load_data_set(data_set).items:
        told: dict[str, object] = {"id": item.id}
        with ProgressLines() as lines:
            try:
                told |= run(item.question, item.options, settings, lines)["answer"]
            except ModelCallError as error:
                told |= {"question": item.question, "options": dict(item.options), "error": str(error)}
                failed += 1
        typer.echo(json.dumps(told, ensure_ascii=False))
    return failed
