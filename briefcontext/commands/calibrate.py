"""`briefcontext calibrate`: fitting a preflight check on labelled questions of one's own corpus."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def calibrate(
    kb: Annotated[str, typer.Option("--kb", help="Folder of the knowledge base, or demo.")],
    questions: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="JSON lines with id, question and gold_ids: ids of passages or sources.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Where to write it; DIR/preflight.json lies with the knowledge base.",
        ),
    ] = "preflight.json",
    target_recall: Annotated[
        float,
        typer.Option(
            help="The share of misplaced key documents that the check is to catch, such as 0.95."
        ),
    ] = 0.95,
    positives: Annotated[
        Literal["ranked_below", "misplaced"],
        typer.Option(
            help="What to predict: a key document ranked below 3, which a map can repair, or also one not retrieved.",
        ),
    ] = "ranked_below",
    top_k: Annotated[
        int, typer.Option(min=1, max=1024, help="Documents retrieved for a question.")
    ] = 16,
    seed: Annotated[int, typer.Option(help="Of the folds of cross-validation.")] = 0,
) -> None:
    """Fit a preflight check on labelled questions of a knowledge base, and measure it on held-out ones."""
    from briefcontext.commands.terminal import say
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.evaluation.experiments.preflight import HELD_OUT, measured, warnings_of
    from briefcontext.evaluation.experiments.preflight_report import decisions_table
    from briefcontext.evaluation.figures.plots import draw_preflight
    from briefcontext.evaluation.runs.progress import progress_bar
    from briefcontext.evaluation.statistics.calibrate import calibrate as fit
    from briefcontext.evaluation.statistics.labelled import label_questions
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.retrievers.calibration import CALIBRATION_FILE, rounded_down

    data_set = load_data_set(questions)
    with KnowledgeBase.open(kb) as base:
        with progress_bar("questions", len(data_set.items)) as bar:
            labelled = label_questions(base, data_set.items, [top_k], bar.update)[top_k]
        calibration, (run, *_), nested = fit(
            labelled, base.manifest, target_recall, positive=positives, seed=seed
        )
    calibration.write(out)
    of = labelled.counted(positives)
    target = Path(out)
    folder = target.with_name(f"{target.stem}-figures")
    counts = (nested["calibrated"], nested["iou"])
    draw_preflight(
        folder,
        labelled.misplaced[of],
        run.probability[of],
        *counts,
        positive=positives,
        held_out=HELD_OUT,
    )
    for warning in warnings_of(labelled, [calibration.shortfall()], data_set.left_out):
        say(warning)
    say(decisions_table(measured(labelled, run, nested, positive=positives, seed=seed)).markdown())
    say(
        "The threshold is chosen so that the recall of new questions reaches "
        f"{rounded_down(calibration.promised_recall or 0)} with a confidence of "
        f"{calibration.confidence:.0%}; on "
        "average it is higher."
    )
    say(
        f"A question goes to the map when its probability reaches {calibration.threshold:.4f}. "
        f"What the model weighs:"
    )
    for feature in sorted(calibration.features, key=lambda feature: -abs(feature.coefficient)):
        say(f"  {feature.coefficient:+.2f}  {feature.name}")
    travels = target.resolve() == (Path(kb) / CALIBRATION_FILE).resolve()
    option = "--preflight calibrated" if travels else f"--calibration-file {out}"
    say(f'Written to {out}; figures in {folder}.\nUse it: briefcontext ask --kb {kb} {option} "…"')
