"""`briefcontext compare`: runs of experiments side by side, beside the papers' figures."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs.")],
    out: Annotated[Path | None, typer.Option(help="Write the comparison to this file, too.")] = None,
) -> None:
    """Put runs of experiments side by side, beside the papers' published figures."""
    from briefcontext.commands.terminal import say
    from briefcontext.evaluation.runs.compare import compare_runs
    from briefcontext.files import write_whole

    compared = compare_runs(runs)
    if out is not None:
        write_whole(out, compared)
    say(compared)
