"""`briefcontext calibrate`: fits a preflight check to labelled questions of a knowledge base."""

from typing import Annotated, Literal

import typer


def calibrate(
    kb: Annotated[str, typer.Option("--kb", help="Folder of the knowledge base, or demo.")],
    questions: Annotated[
        str, typer.Option(metavar="FILE", help="JSON lines with id, question and gold_ids.")
    ],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="File to write, such as DIR/preflight.json.")
    ] = "preflight.json",
    target_recall: Annotated[
        float, typer.Option(help="Share of misplaced key documents to catch.")
    ] = 0.95,
    positives: Annotated[
        Literal["ranked_below", "misplaced"],
        typer.Option(help="Key documents ranked below 3, or also those not retrieved."),
    ] = "ranked_below",
    top_k: Annotated[int, typer.Option(min=1, max=1024, help="Documents for a question.")] = 16,
    seed: Annotated[int, typer.Option(help="Random seed for cross-validation.")] = 0,
) -> None:
    """Fit a preflight check on labelled questions, and measure it on held-out ones."""
    from briefcontext.commands.terminal import say
    from briefcontext.evaluation.data_sets import load_data_set
    from briefcontext.evaluation.experiments.preflight import calibration_report
    from briefcontext.evaluation.runs.progress import progress_bar
    from briefcontext.evaluation.statistics.calibrate import calibrate as fit
    from briefcontext.evaluation.statistics.labelled import label_questions
    from briefcontext.knowledge.knowledge_base import KnowledgeBase

    data_set = load_data_set(questions)
    with KnowledgeBase.open(kb) as base, progress_bar("questions", len(data_set.items)) as bar:
        labelled = label_questions(base, data_set.items, [top_k], bar.update)[top_k]
        fitted, held_out = fit(
            labelled, base.manifest, target_recall, positive=positives, seed=seed
        )
    fitted.write(out)
    say(calibration_report(labelled, fitted, held_out, seed=seed))
    say(f'Written to {out}. Use it: briefcontext ask --kb {kb} --preflight {out} "…"')
