"""`briefcontext experiment` and `compare`: the papers' experiments on a model and a corpus of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from briefcontext.commands.options import (
    SETTINGS,
    model_option as _model,
    output_option as _output,
    settings_of,
)
from briefcontext.commands.terminal import Interrupted, say
from briefcontext.errors import InputError, ModelCallError

_questions, _design = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Questions", "Design")
)

_Name = Literal[
    "position", "integration", "conflict", "context_length", "attention_bias", "order", "open_ended", "cost",
    "preflight", "verify"
]  # fmt: skip

_ASKING = get_args(_Name)[:-2]
"""The experiments that ask a model."""
_USED_BY = {
    **dict.fromkeys(
        ("model", "extract_model", "prompts", "methods", "per_class", "repeats", "partition_size", "temperature",
         "max_input_tokens", "max_concurrent_calls", "requests_per_minute", "input_price",
         "output_price", "dry_run", "batch", "replies"),
        _ASKING,
    ),
    "knowledge_base": [name for name in get_args(_Name) if name not in ("order", "verify")],
    "positives": ("preflight",),
    "rankings": ("conflict",),
    **dict.fromkeys(("document_encoder", "exact_chunks"), ("order",)),
    **dict.fromkeys(("judge", "verdicts"), ("open_ended",)),
}  # fmt: skip
"""Options that some experiments use."""
_OF_METHODS = {"iou_threshold": ["briefcontext"], "partition_size": ["briefcontext", "map_reduce"]}
"""Options that some methods heed."""


def experiment(
    context: typer.Context,
    experiment: Annotated[
        _Name,
        typer.Argument(
            metavar="NAME", help=f"{', '.join(get_args(_Name)[:-1])}; or verify, to check a run."
        ),
    ],
    run_folder: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="With verify: the folder of a run to check."),
    ] = None,
    data_set: Annotated[
        str | None,
        _questions(
            "--questions",
            help="Data set as KIND:PATH (mirage, pubmedqa, bioasq, infinitebench-qa, infinitebench-mc, "
            "evidence-inference, medq, jsonl), or a .jsonl file.",
        ),
    ] = None,
    out: Annotated[
        Path | None, _output(help="Folder of the run. A run that was stopped goes on there.")
    ] = None,
    model: Annotated[str | None, _model(help="Chat model as provider:model.")] = None,
    extract_model: Annotated[str | None, SETTINGS["extract_model"][1]] = None,
    prompts: Annotated[str | None, SETTINGS["prompts"][1]] = None,
    knowledge_base: Annotated[
        str | None, _design("--kb", help="Folder of the knowledge base, or demo.")
    ] = None,
    document_encoder: Annotated[
        str | None,
        _design(
            "--encoder",
            help="Encoder for the chunks of long documents. Default: bge where its weights are, else minilm.",
        ),
    ] = None,
    exact_chunks: Annotated[
        bool,
        _design(
            "--exact-chunks", help="order: chunks of 128 tokens as in OP-RAG, cutting sentences."
        ),
    ] = False,
    methods: Annotated[
        list[str] | None,
        _design(
            "--method",
            help="A method to compare; give it once for each. Default: the experiment's.",
        ),
    ] = None,
    ks: Annotated[
        list[int] | None,
        _design(
            "--k", min=1, help="Number of documents; give it once for each. Default: the paper's."
        ),
    ] = None,
    limit: Annotated[
        int | None, _questions(min=1, help="At most so many questions, drawn by the seed.")
    ] = None,
    per_class: Annotated[
        int | None,
        _questions(min=1, help="So many questions of each answer class (the paper: 35)."),
    ] = None,
    seed: Annotated[
        int, _questions(help="For sampling, random documents, shuffling and bootstraps.")
    ] = 0,
    repeats: Annotated[
        int,
        _questions(
            min=1,
            help="Ask every question so often, sampled afresh; needs a --temperature above 0.",
        ),
    ] = 1,
    rankings: Annotated[
        Literal["synthetic", "real"],
        _design(help="conflict: the papers' rankings, or the corpus's own."),
    ] = "synthetic",
    positives: Annotated[
        Literal["ranked_below", "misplaced"],
        _design(
            help="preflight: what is predicted, a key document ranked below 3, or also one not retrieved."
        ),
    ] = "ranked_below",
    partition_size: Annotated[int, _design(min=1, help="Documents for one extraction.")] = 4,
    iou_threshold: Annotated[
        float | None, _design(help="The preflight's overlap. Default: 0.2.")
    ] = None,
    temperature: Annotated[
        float, _model(help="The model's temperature; below 0 for the provider's own.")
    ] = 0.0,
    max_input_tokens: Annotated[
        int | None, _model(help="The model's input window. Default: what the model states.")
    ] = None,
    max_concurrent_calls: Annotated[
        int, _model("--in-flight", min=1, help="Model calls in flight at once.")
    ] = 8,
    requests_per_minute: Annotated[
        float | None, _model(help="Model calls started in a minute.")
    ] = None,
    input_price: Annotated[
        float | None, _model(min=0, help="US dollars for a million input tokens, to show the cost.")
    ] = None,
    output_price: Annotated[
        float | None, _model(min=0, help="US dollars for a million output tokens.")
    ] = None,
    dry_run: Annotated[
        bool,
        _model("--dry-run", help="Print the calls and tokens that it will take, and call nothing."),
    ] = False,
    batch: Annotated[
        Literal["export", "import"] | None,
        _model(
            help="export: write the requests of a stage as OpenAI-batch JSONL; import: go on with --replies FILE."
        ),
    ] = None,
    replies: Annotated[
        Path | None, _model(help="With --batch import: the file of results.")
    ] = None,
    verdicts: Annotated[
        Path | None, _output(help="open_ended: a CSV of verdicts to take in.")
    ] = None,
    judge: Annotated[
        str | None, _output(help="open_ended: a chat model that judges each pair, in both orders.")
    ] = None,
    no_figures: Annotated[bool, _output("--no-figures", help="Draw no figures.")] = False,
    preflight: Annotated[
        str | None,
        _design(
            "--calibration",
            metavar="FILE",
            help="Calibrated preflight: for preflight to test, else to decide by.",
        ),
    ] = None,
) -> None:
    """Run one of the papers' experiments, and write rows, tables and figures."""
    if experiment == "verify":
        from briefcontext.evaluation.runs.results import verify_run

        if run_folder is None:
            raise InputError(
                "Name the folder of the run to check: briefcontext experiment verify RUN."
            )
        if problems := verify_run(run_folder):
            raise InputError(f"{run_folder}: {' '.join(problems)}")
        typer.echo(
            f"{run_folder} is sound: configuration, prompts, rows, report and summary belong "
            f"together."
        )
        return
    if run_folder is not None:
        raise InputError(
            f"{run_folder} is one argument too many: leave it out. Only verify takes a folder."
        )
    if data_set is None or out is None:
        raise InputError(
            "An experiment needs its questions and a folder for its results: --questions and --out."
        )
    given = _given(context)
    _check_options(experiment, given)
    if experiment == "preflight":
        _preflight(context.params, data_set, out)
        return
    if (batch == "import") != (replies is not None):
        raise InputError(
            "--batch import and --replies FILE belong together: give both, or neither."
        )
    from briefcontext.evaluation.runs.folder import RunFolder
    from briefcontext.evaluation.runs.progress import Prices
    from briefcontext.evaluation.runs.run import Run
    from briefcontext.evaluation.runs.settings import RunSettings
    from briefcontext.graphs.settings import Settings

    options: dict[str, Any] = context.params | {
        "methods": tuple(methods or ()),
        "ks": tuple(ks or ()),
        "temperature": None if temperature < 0 else temperature,
        "prices": Prices(input_price, output_price),
        "figures": not no_figures,
    }
    own = options.keys() & {field.name for field in fields(RunSettings)}
    reading = options.keys() & Settings.model_fields.keys() - own
    settings = {name: options[name] for name in own}
    run = Run(
        RunSettings(**settings, reading=settings_of(**{name: options[name] for name in reading}))
    )
    _check_methods([method.name for method in run.methods], given)
    if dry_run:
        say(run.estimate(out).markdown())
        return
    if batch is not None:
        done = run.batch(out, replies)
        if replies is not None:
            typer.echo(", ".join(f"{count} {what}" for what, count in done.imported.items()))
        for file in done.files:
            typer.echo(str(file))
        if done.files:
            typer.echo(
                f"Answers that wait for these requests: {done.waiting}. Send them as a batch, and "
                f"give the results: "
                f"--batch import --replies FILE."
            )
            return
    else:
        try:
            run.execute(out)
        except KeyboardInterrupt:
            kept = f"The answers so far, with what they cost, are kept in {out}; the same command goes on from there."
            raise Interrupted(f"Interrupted. {kept}") from None
    if verdicts is not None:
        typer.echo(f"Verdicts taken in: {run.take_verdicts(out, verdicts)}.")
    if judge is not None:
        typer.echo(
            f"{judge} judged every pair in both orders, and gave no clear verdict on "
            f"{run.judge(out, judge)}."
        )
    _print_report(out)
    if failed := RunFolder(out).summary()["failed"]:
        raise ModelCallError(
            f"Answers whose calls failed: {failed:,}; the report says why. Give the same command "
            f"again to get them."
        )


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the comparison to this file, too.")
    ] = None,
) -> None:
    """Put runs of experiments side by side, beside the papers' published figures."""
    from briefcontext.evaluation.runs.compare import compare_runs
    from briefcontext.files import write_whole

    compared = compare_runs(runs)
    if out is not None:
        write_whole(out, compared)
    say(compared)


def _preflight(given: Mapping[str, Any], questions: str, out: Path) -> None:
    """Run the study of the preflight check with the command's options, by name."""
    if given["knowledge_base"] is None:
        raise InputError(
            "The experiment preflight takes its documents from a knowledge base: name it with --kb "
            "DIR."
        )
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.evaluation.data_sets.data_set import sample
    from briefcontext.evaluation.experiments.preflight import KS, run_preflight
    from briefcontext.evaluation.runs.progress import progress_bar
    from briefcontext.retrievers.rankings import PREFLIGHT_IOU_THRESHOLD

    data_set, limit, threshold, ks = (
        load_data_set(questions),
        given["limit"],
        given["iou_threshold"],
        given["ks"],
    )
    items = data_set.items if limit is None else sample(data_set.items, limit, given["seed"])
    with progress_bar("questions", len(items)) as bar:
        run_preflight(
            given["knowledge_base"],
            items,
            out,
            calibration=given["preflight"],
            positive=given["positives"],
            k=ks[0] if ks else None,
            ks=ks or KS,
            seed=given["seed"],
            data_set_left_out=data_set.left_out,
            figures=not given["no_figures"],
            progress=bar.update,
            iou_threshold=PREFLIGHT_IOU_THRESHOLD if threshold is None else threshold,
        )
    _print_report(out)


def _print_report(out: Path) -> None:
    from briefcontext.evaluation.runs.folder import REPORT

    head, *tables = (out / REPORT).read_text(encoding="utf-8").split("\n### ")
    say("\n### ".join([head, *tables[:1]]).strip())
    typer.echo(f"\nAll tables and figures: {out / REPORT}")


def _given(context: typer.Context) -> dict[str, str]:
    """Return the parameters that were given, and not left to their defaults, with what they are written as."""
    options = {str(parameter.name): parameter.opts[0] for parameter in context.command.params}
    return {
        name: option
        for name, option in options.items()
        if "DEFAULT" not in str(context.get_parameter_source(name))
    }


def _check_options(experiment: str, given: Mapping[str, str]) -> None:
    """Refuse options that the experiment does not use, with those that do, or that exclude each other."""
    for option, written in given.items():
        if experiment not in (used := _USED_BY.get(option, [experiment])):
            raise InputError(
                f"{experiment} does not use {written}: leave it out. It is for {', '.join(used)}."
            )
    steps = [option for option in ("dry_run", "batch", "judge", "verdicts") if option in given]
    if len(steps) > 1 and steps != ["judge", "verdicts"]:
        raise InputError(
            f"{given[steps[0]]} and {given[steps[1]]} are two steps. Give one of them at a time."
        )


def _check_methods(methods: Sequence[str], given: Mapping[str, str]) -> None:
    """Refuse options that none of the methods that are compared would heed."""
    for option, needed in _OF_METHODS.items():
        if option in given and not {*needed}.intersection(methods):
            raise InputError(
                f"{given[option]} is for {' or '.join(needed)}, and the methods of this run are "
                f"{', '.join(methods)}. Leave it out, or add a --method."
            )
