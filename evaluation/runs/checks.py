"""Whether the settings of a run fit its experiment: repeats, methods, and a calibrated preflight."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from briefcontext.errors import InputError
from briefcontext.evaluation.data_sets.data_set import Item
from briefcontext.evaluation.experiments.experiment import Experiment, OnCorpus, OnDocuments
from briefcontext.evaluation.methods.method import Method
from briefcontext.evaluation.runs.settings import RunSettings
from briefcontext.evaluation.statistics.labelled import questions_sha256
from briefcontext.files import sha256

if TYPE_CHECKING:
    from briefcontext.retrievers.calibration import Calibration

__all__ = ["calibrated", "check_needs", "check_repeats"]

DECIDES = "briefcontext"
"""The one method whose route the preflight decides."""


def check_repeats(settings: RunSettings, experiment: type[Experiment]) -> None:
    """Raise InputError where repeats would tell nothing."""
    if settings.repeats == 1:
        return
    if not experiment.repeatable:
        raise InputError(
            f"Repeats average scores, and the experiment {settings.experiment} counts what becomes of single "
            "answers. Leave --repeats out."
        )
    if settings.temperature is not None and settings.temperature <= 0:
        raise InputError(
            "At temperature 0 a model is asked to say the same each time, so that repeats tell nothing. Give "
            "--temperature, such as 0.7, or a negative one for the provider's own."
        )


def check_needs(experiment: type[Experiment], methods: Sequence[Method]) -> None:
    """Raise InputError where a method reads what the experiment does not have."""
    of_documents = issubclass(experiment, OnDocuments)
    for method in methods:
        if not of_documents and method.need == "whole":
            raise InputError(
                f"{method.name} reads a whole long document, and the experiment {experiment.name} reads from "
                "a knowledge base. Leave it out, or run the experiment order."
            )
        if of_documents and method.need == "key documents":
            raise InputError(
                f"{method.name} reads key documents, and the long documents of the experiment "
                f"{experiment.name} have none. Leave it out."
            )
        if method.need == "fused" and not experiment.real_rankings:
            raise InputError(
                f"{method.name} reads a fused ranking of the corpus, and the rankings of the experiment "
                f"{experiment.name} are synthetic. Leave it out, or run the experiment integration."
            )


def calibrated(
    calibration: "Calibration | None",
    experiment: Experiment,
    methods: Sequence[Method],
    ks: Sequence[int],
    asked: Sequence[Item],
) -> dict[str, Any] | None:
    """Return what tells the calibration of a run from others, with cautions; None where there is none.

    Args:
        asked: all questions of the run's data set.

    Raises:
        InputError: it cannot decide in this run, and why.
    """
    if calibration is None:
        return None
    if not experiment.real_rankings or not isinstance(experiment, OnCorpus):
        raise InputError(
            f"A calibration fits the rankings that a knowledge base gives, and those of the experiment "
            f"{experiment.name} are arranged. Leave --calibration out, or run integration, cost, open_ended "
            "or conflict with --rankings real."
        )
    if DECIDES not in [method.name for method in methods]:
        raise InputError(
            f"A calibration decides for the method {DECIDES}, which is not among those of this run. Add "
            f"--method {DECIDES}, or leave --calibration out."
        )
    base = experiment.corpus.knowledge_base
    cautions = list(dict.fromkeys(caution for k in ks if (caution := calibration.check(base.manifest, k))))
    if shortfall := calibration.shortfall():
        cautions.append(shortfall)
    if len(base) < calibration.k:
        raise InputError(
            f"The calibration is for {calibration.k} retrieved documents, and the knowledge base has {len(base):,} "
            "passages in all. Take a larger one, or leave --calibration out."
        )
    if calibration.fitted_on.sha256 == questions_sha256([item for item in asked if item.gold_ids]):
        cautions.append(
            "The preflight was calibrated on these very questions, so that it decides better here than it is."
        )
    return {
        "sha256": sha256(calibration.model_dump_json()),
        "target_recall": calibration.target_recall,
        "fitted_on": calibration.fitted_on.n,
        "cautions": cautions,
    }
