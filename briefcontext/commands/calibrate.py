"""`briefcontext calibrate`: fitting a preflight check on labelled questions of one's own corpus."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def calibrate(
    kb: Annotated[str, typer.Option("--kb", help="Folder of the knowledge base, or demo.")],
    questions: Annotated[
        str,
        typer.Option(metavar="FILE", help="JSON lines with id, question and gold_ids: ids of passages or sources."),
    ],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="Where to write it; DIR/preflight.json lies with the knowledge base.")
    ] = "preflight.json",
    target_recall: Annotated[
        float, typer.Option(help="The share of misplaced key documents that the check is to catch, such as 0.95.")
    ] = 0.95,
    positives: Annotated[
        Literal["ranked_below", "misplaced"],
        typer.Option(
            help="What to predict: a key document ranked below 3, which a map can repair, or also one not retrieved.",
        ),
    ] = "ranked_below",
    top_k: Annotated[int, typer.Option(min=1, max=1024, help="Documents retrieved for a question.")] = 16,
    seed: Annotated[int, typer.Option(help="Of the folds of cross-validation.")] = 0,
    figures: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the figures. Default: beside the calibration.")
    ] = None,
) -> None:
    """Fit a preflight check on labelled questions of a knowledge base, and measure it on held-out ones."""
    from briefcontext.commands.terminal import say
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.evaluation.figures.plots import draw_preflight
    from briefcontext.evaluation.runs.progress import CountedProgress
    from briefcontext.evaluation.statistics.calibrate import calibrate as fit
    from briefcontext.evaluation.statistics.labelled import label_questions
    from briefcontext.evaluation.statistics.tables import percent, with_interval
    from briefcontext.knowledge.knowledge_base import KnowledgeBase
    from briefcontext.retrievers.calibration import CALIBRATION_FILE, rounded_down

    data_set = load_data_set(questions)
    for reason, count in data_set.left_out.items():
        say(f"Questions left out as the data set was read, {reason}: {count}.")
    with KnowledgeBase.open(kb) as base:
        with CountedProgress("questions") as progress:
            labelled = label_questions(base, data_set.items, [top_k], progress.reach)[top_k]
        if labelled.left_out:
            say(f"Left out, without gold_ids or documents: {_listed(labelled.left_out)}.")
        if labelled.missing_gold_ids:
            say(f"Gold ids that the knowledge base does not hold: {_listed(labelled.missing_gold_ids)}.")
            without = sum(not question.has_gold for question in labelled.questions)
            say(f"Questions with no gold id that it holds: {without}; they count as not retrieved.")
        calibration, runs = fit(labelled, base.manifest, target_recall, positive=positives, seed=seed)
    calibration.write(out)
    measured, fitted, of = calibration.measured, calibration.fitted_on, labelled.counted(positives)
    target = Path(out)
    folder = Path(figures) if figures is not None else target.with_name(f"{target.stem}-figures")
    probability = runs[0].probability[of]
    counts = (measured.calibrated, measured.iou)
    draw_preflight(folder, labelled.misplaced[of], probability, *counts, held_out="nested cross-validation")
    placed = "ranked below 3" if positives == "ranked_below" else "misplaced"
    lost = f"Left out, as their key document was not retrieved and no map repairs that: {fitted.not_retrieved}. "
    say(
        f"{fitted.n} questions, {fitted.misplaced} with their key document {placed} ({fitted.base_rate:.1%}). "
        f"{lost if fitted.not_retrieved else ''}"
        "On held-out questions, by nested cross-validation, in per cent, with 95% intervals:"
    )
    for name, counted in (("IoU check", measured.iou), ("calibrated", measured.calibrated)):
        shares = ", ".join(
            f"{what} {with_interval(getattr(counted, what), *interval)}"
            for what in ("recall", "specificity", "precision")
            if (interval := getattr(counted, f"{what}_interval")) is not None
        )
        say(f"{name:<11} {shares}; {percent(counted.skip_share)} of the questions skip the map")
    areas = [
        with_interval(area, *(interval or (None, None)))
        for area, interval in ((measured.auc, measured.auc_interval), (measured.iou_auc, measured.iou_auc_interval))
    ]
    say(
        f"Over {measured.repeats} repeats: recall {percent(measured.recall_mean)} for a target of "
        f"{100 * target_recall:g}, specificity {percent(measured.specificity_mean)}, AUC {areas[0]} (IoU {areas[1]})."
    )
    say(
        "The threshold is chosen so that the recall of new questions reaches "
        f"{rounded_down(calibration.promised_recall or 0)} with a confidence of {calibration.confidence:.0%}; on "
        "average it is higher."
    )
    if shortfall := calibration.shortfall():
        say(shortfall)
    if titled := int(labelled.titled[of].sum()):
        say(
            f"Questions worded as the title of their key paper, which makes it easy to retrieve: {titled}. "
            "Measured without them, the check may be worse. `briefcontext experiment preflight` tells them apart."
        )
    say(f"A question goes to the map when its probability reaches {calibration.threshold:.4f}. What the model weighs:")
    for feature in sorted(calibration.features, key=lambda feature: -abs(feature.coefficient)):
        say(f"  {feature.coefficient:+.2f}  {feature.name}")
    travels = target.resolve() == (Path(kb) / CALIBRATION_FILE).resolve()
    option = "--preflight calibrated" if travels else f"--calibration-file {out}"
    say(f'Written to {out}; figures in {folder}.\nUse it: briefcontext ask --kb {kb} {option} "…"')


def _listed(ids: list[str], most: int = 10) -> str:
    more = f" and {len(ids) - most:,} more" if len(ids) > most else ""
    return f"{len(ids):,} ({', '.join(ids[:most])}{more})"
