"""Confusion counts of a preflight check on labelled questions."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.retrievers.calibration import Estimate

__all__ = ["count_decisions", "wilson_interval"]


def count_decisions(
    misplaced: Sequence[bool] | NDArray[np.bool_], mapped: Sequence[bool] | NDArray[np.bool_]
) -> Estimate:
    """Compare the labels of questions with which of them a check sends to the map."""
    truth, sent = np.asarray(misplaced, dtype=bool), np.asarray(mapped, dtype=bool)
    tp, fp = int((truth & sent).sum()), int((~truth & sent).sum())
    fn, tn = int((truth & ~sent).sum()), int((~truth & ~sent).sum())
    return Estimate(
        tp=tp,
        fp=fp,
        fn=fn,
        tn=tn,
        precision=_share(tp, tp + fp),
        recall=_share(tp, tp + fn),
        specificity=_share(tn, tn + fp),
        f1=_share(2 * tp, 2 * tp + fp + fn),
        skip_share=_share(tn + fn, len(truth)),
        precision_interval=wilson_interval(tp, tp + fp),
        recall_interval=wilson_interval(tp, tp + fn),
        specificity_interval=wilson_interval(tn, tn + fp),
    )


def wilson_interval(successes: int, n: int) -> tuple[float, float] | None:
    """Return Wilson's 95% interval of a share; None when n is 0."""
    if not n:
        return None
    interval = wilson(successes, n)
    return interval.low, interval.high


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
