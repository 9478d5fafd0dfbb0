"""`briefcontext experiment` and `compare`: the papers' experiments on your model and corpus."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from briefcontext.commands.options import settings_of
from briefcontext.commands.terminal import Interrupted, say
from briefcontext.errors import InputError, ModelCallError

_shared, _own = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("Options of every experiment", "Options of this experiment")
)
_Options = dict[str, tuple[Any, Any]]
"""Types and defaults of options by parameter."""
_QUESTIONS = "mirage, pubmedqa, bioasq, infinitebench-qa, infinitebench-mc, medq or jsonl"

_RUN: _Options = {
    "data_set": (
        Annotated[
            str,
            _shared("--questions", help=f"KIND:PATH ({_QUESTIONS}), a .jsonl file or a folder."),
        ],
        ...,
    ),
    "out": (Annotated[Path, _shared(help="Folder of the run; an unfinished run is resumed.")], ...),
    "limit": (Annotated[int | None, _shared(min=1, help="Number of questions to draw.")], None),
    "seed": (Annotated[int, _shared(help="Random seed.")], 0),
    "no_figures": (Annotated[bool, _shared("--no-figures", help="Draw no figures.")], False),
}
_ASKING: _Options = {
    "model": (Annotated[str | None, _shared(help="Chat model as provider:model.")], None),
    "extract_model": (Annotated[str | None, _shared(help="Model for the extractions.")], None),
    "prompts": (Annotated[str | None, _shared(metavar="DIR", help="Folder of prompts.")], None),
    "temperature": (Annotated[float, _shared(help="Below 0: the provider's default.")], 0.0),
    "max_input_tokens": (
        Annotated[int | None, _shared(help="The model's input window, if it states none.")],
        None,
    ),
    "max_concurrent_calls": (
        Annotated[int, _shared("--in-flight", min=1, help="Concurrent model calls.")],
        8,
    ),
    "requests_per_minute": (
        Annotated[float | None, _shared(help="Most model calls in a minute.")],
        None,
    ),
    "input_price": (
        Annotated[float | None, _shared(min=0, help="US dollars for a million input tokens.")],
        None,
    ),
    "output_price": (
        Annotated[float | None, _shared(min=0, help="US dollars for a million output tokens.")],
        None,
    ),
    "dry_run": (
        Annotated[bool, _shared("--dry-run", help="Print the calls and tokens; call nothing.")],
        False,
    ),
    "batch": (
        Annotated[
            Literal["export", "import"] | None,
            _shared(help="export: write requests for a batch; import: read --replies."),
        ],
        None,
    ),
    "replies": (
        Annotated[Path | None, _shared(help="With --batch import: the file of results.")],
        None,
    ),
}
_METHODS: _Options = {
    "methods": (
        Annotated[list[str] | None, _own("--method", help="Method to compare; may be repeated.")],
        None,
    ),
    "ks": (
        Annotated[
            list[int] | None, _own("--k", min=1, help="Number of documents; may be repeated.")
        ],
        None,
    ),
    "partition_size": (Annotated[int, _own(min=1, help="Documents for one extraction.")], 4),
}
_PER_CLASS: _Options = {
    "per_class": (
        Annotated[int | None, _own(min=1, help="Questions of each answer (the paper: 35).")],
        None,
    )
}
_REPEATS: _Options = {
    "repeats": (Annotated[int, _own(min=1, help="Repetitions; needs a --temperature above 0.")], 1)
}
_BASE: _Options = {
    "knowledge_base": (
        Annotated[str | None, _own("--kb", help="Folder of the knowledge base, or demo.")],
        None,
    )
}
_THRESHOLD: _Options = {
    "iou_threshold": (Annotated[float | None, _own(help="Overlap of the preflight.")], None)
}
_CALIBRATION: _Options = {
    "preflight": (
        Annotated[str | None, _own("--calibration", metavar="FILE", help="Calibrated preflight.")],
        None,
    )
}
_CONTROLLED = {**_BASE, **_METHODS, **_PER_CLASS, **_REPEATS}
_OPTIONS: dict[str, tuple[str, _Options]] = {
    "position": ("Accuracy by the position of the key document.", {**_CONTROLLED, **_THRESHOLD}),
    "integration": (
        "Methods against each other on real rankings.",
        {**_CONTROLLED, **_THRESHOLD, **_CALIBRATION},
    ),
    "conflict": (
        "Partitions that disagree, and the final answers.",
        {
            **_BASE,
            **_METHODS,
            **_PER_CLASS,
            "rankings": (
                Annotated[
                    Literal["synthetic", "real"],
                    _own(help="The paper's rankings, or the corpus's own."),
                ],
                "synthetic",
            ),
            **_CALIBRATION,
        },
    ),
    "context_length": ("Accuracy by the number of documents.", {**_CONTROLLED, **_THRESHOLD}),
    "attention_bias": (
        "Retrieved neighbours against random documents around the key document.",
        _CONTROLLED,
    ),
    "order": (
        "Order-preserving against vanilla RAG by the number of chunks.",
        {
            **_METHODS,
            **_PER_CLASS,
            **_REPEATS,
            "document_encoder": (
                Annotated[
                    str | None, _own("--encoder", help="Encoder of the chunks (OP-RAG: bge).")
                ],
                None,
            ),
            "exact_chunks": (
                Annotated[bool, _own("--exact-chunks", help="128 tokens exactly, as in OP-RAG.")],
                False,
            ),
        },
    ),
    "open_ended": (
        "Pairs of answers for raters or a model judge.",
        {
            **_BASE,
            **_METHODS,
            **_THRESHOLD,
            **_CALIBRATION,
            "verdicts": (Annotated[Path | None, _own(help="CSV of a rater's verdicts.")], None),
            "judge": (Annotated[str | None, _own(help="Chat model that judges the pairs.")], None),
        },
    ),
    "cost": (
        "Tokens of each method for a question.",
        {**_BASE, **_METHODS, **_THRESHOLD, **_CALIBRATION},
    ),
}
_PREFLIGHT: _Options = {
    **_BASE,
    "ks": (
        Annotated[
            list[int] | None, _own("--k", min=1, help="Number of documents; may be repeated.")
        ],
        None,
    ),
    **_THRESHOLD,
    **_CALIBRATION,
    "positives": (
        Annotated[
            Literal["ranked_below", "misplaced"],
            _own(help="Predict a key document ranked below 3, or also one not retrieved."),
        ],
        "ranked_below",
    ),
}
_OF_METHODS = {
    "iou_threshold": ("--iou-threshold", {"briefcontext"}, None),
    "partition_size": ("--partition-size", {"briefcontext", "map_reduce"}, 4),
}
"""Options without effect unless one of these methods is compared, and their defaults."""

experiment = typer.Typer(
    no_args_is_help=True,
    help="Run one of the papers' experiments, and write rows, tables and figures.",
)


def _add(
    name: str, help: str, options: _Options, run: Callable[[str, dict[str, Any]], None]
) -> None:
    def command(**given: Any) -> None:
        run(name, given)

    parameters = [
        Parameter(
            option,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if default is ... else default,
            annotation=annotation,
        )
        for option, (annotation, default) in options.items()
    ]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    experiment.command(name, help=help)(command)


def _run(name: str, given: dict[str, Any]) -> None:
    """Run an experiment that asks a model."""
    from briefcontext.evaluation.runs.progress import Prices
    from briefcontext.evaluation.runs.run import Run
    from briefcontext.evaluation.runs.settings import RunSettings
    from briefcontext.graphs.settings import Settings

    out = given["out"]
    steps = [option for option in ("dry_run", "batch", "judge", "verdicts") if given.get(option)]
    if len(steps) > 1 and steps != ["judge", "verdicts"]:
        first, second = (f"--{step.replace('_', '-')}" for step in steps[:2])
        raise InputError(f"{first} and {second} are two steps. Give one at a time.")
    if (given["batch"] == "import") != (given["replies"] is not None):
        raise InputError("--batch import and --replies FILE belong together: give both.")
    options = given | {
        "experiment": name,
        "methods": tuple(given["methods"] or ()),
        "ks": tuple(given["ks"] or ()),
        "temperature": None if given["temperature"] < 0 else given["temperature"],
        "prices": Prices(given["input_price"], given["output_price"]),
        "figures": not given["no_figures"],
    }
    own = options.keys() & {field.name for field in fields(RunSettings)}
    reading = settings_of(
        **{key: options[key] for key in options.keys() & Settings.model_fields.keys() - own}
    )
    run = Run(RunSettings(**{key: options[key] for key in own}, reading=reading))
    compared = {method.name for method in run.methods}
    for option, (written, needed, default) in _OF_METHODS.items():
        if given.get(option, default) != default and not needed & compared:
            raise InputError(f"{written} needs --method {' or '.join(sorted(needed))}.")
    if given["dry_run"]:
        say(run.estimate(out).markdown())
    elif given["batch"]:
        _batch(run, out, given["replies"])
    else:
        _execute(run, out, given)


def _batch(run: Any, out: Path, replies: Path | None) -> None:
    done = run.batch(out, replies)
    if replies is not None:
        typer.echo(", ".join(f"{count} {what}" for what, count in done.imported.items()))
    for file in done.files:
        typer.echo(str(file))
    if done.files:
        typer.echo(
            f"{done.waiting} answers wait for these requests. Send them as a batch, then give the "
            "results: --batch import --replies FILE."
        )
    else:
        _print_report(out)


def _execute(run: Any, out: Path, given: dict[str, Any]) -> None:
    from briefcontext.evaluation.runs.folder import RunFolder

    try:
        run.execute(out)
    except KeyboardInterrupt:
        kept = f"Interrupted. The answers are kept in {out}; repeat the command to resume."
        raise Interrupted(kept) from None
    if given.get("verdicts"):
        typer.echo(f"Verdicts imported: {run.take_verdicts(out, given['verdicts'])}.")
    if given.get("judge"):
        run.judge(out, given["judge"])
    _print_report(out)
    failed = RunFolder(out).summary()["failed"]
    if failed:
        raise ModelCallError(f"{failed:,} answers failed; see the report. Repeat the command.")


def _preflight(name: str, given: dict[str, Any]) -> None:
    """Run the study of the preflight check, which asks no model."""
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.evaluation.data_sets.data_set import sample
    from briefcontext.evaluation.experiments.preflight import KS, run_preflight
    from briefcontext.evaluation.runs.progress import progress_bar
    from briefcontext.retrievers.rankings import PREFLIGHT_IOU_THRESHOLD

    if given["knowledge_base"] is None:
        raise InputError("The experiment preflight needs a knowledge base: name it with --kb DIR.")
    items, ks, threshold = (
        load_data_set(given["data_set"]).items,
        given["ks"],
        given["iou_threshold"],
    )
    if given["limit"] is not None:
        items = sample(items, given["limit"], given["seed"])
    with progress_bar("questions", len(items)) as bar:
        run_preflight(
            given["knowledge_base"],
            items,
            given["out"],
            calibration=given["preflight"],
            positive=given["positives"],
            k=ks[0] if ks else None,
            ks=ks or KS,
            seed=given["seed"],
            figures=not given["no_figures"],
            progress=bar.update,
            iou_threshold=PREFLIGHT_IOU_THRESHOLD if threshold is None else threshold,
        )
    _print_report(given["out"])


def _print_report(out: Path) -> None:
    from briefcontext.evaluation.runs.folder import REPORT

    head, *tables = (out / REPORT).read_text(encoding="utf-8").split("\n### ")
    say("\n### ".join([head, *tables[:1]]).strip())
    typer.echo(f"\nAll tables and figures: {out / REPORT}")


for _name, (_help, _given) in _OPTIONS.items():
    _add(_name, _help, {**_given, **_RUN, **_ASKING}, _run)
_add("preflight", "How well the check predicts a misplaced document.", {**_PREFLIGHT, **_RUN},
     _preflight)  # fmt: skip


@experiment.command()
def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
) -> None:
    """Check that the files of a run belong together."""
    from briefcontext.evaluation.runs.results import verify_run

    problems = verify_run(run)
    if problems:
        raise InputError(f"{run}: {' '.join(problems)}")
    typer.echo(f"{run} is sound: configuration, prompts, rows, report and summary agree.")


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs.")],
    out: Annotated[Path | None, typer.Option(help="File for the comparison.")] = None,
) -> None:
    """Put runs of experiments side by side with the papers' published figures."""
    from briefcontext.evaluation.runs.compare import compare_runs
    from briefcontext.files import write_whole

    compared = compare_runs(runs)
    if out is not None:
        write_whole(out, compared)
    say(compared)
