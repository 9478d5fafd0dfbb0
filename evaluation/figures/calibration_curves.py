"""Figures of a preflight check: how far its probabilities can be believed, and what a decision by them costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_recall_curve, roc_curve  # type: ignore[import-untyped]

from briefcontext.evaluation.figures.plots import OKABE_ITO, figure, save
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.retrievers.calibration import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_figures"]

_CALIBRATED, _IOU, *_ = OKABE_ITO
_REFERENCE = "#777777"
_BINS = 8


def draw_figures(
    out: Path,
    labels: NDArray[np.bool_],
    probability: NDArray[np.float64],
    calibrated: Estimate,
    iou: Estimate,
    *,
    held_out: str,
) -> None:
    """Write calibration, precision-recall and cost curves into a folder, each as PNG and SVG.

    Args:
        labels, probability: True for misplaced (n,), and the probability (n,) that the model gave without seeing it.
        held_out: how it did not see them, for the titles.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name, draw in (
        ("calibration_curve", _calibration_curve),
        ("precision_recall", _precision_recall),
        ("cost_curve", _cost_curve),
    ):
        with figure(height=4.8) as (drawn, (axes,)):
            draw(axes, labels, probability, calibrated, iou)
            axes.set_title(f"{axes.get_title()}\n{len(labels):,} questions, {int(labels.sum())} misplaced; {held_out}")
            axes.legend(frameon=False)
            save(drawn, out / name)


def _calibration_curve(axes: "Axes", labels: NDArray[np.bool_], probability: NDArray[np.float64], *_: Any) -> None:
    """Bins of equal size; bars are Wilson's intervals."""
    order = np.argsort(probability, kind="stable")
    for number, some in enumerate(np.array_split(order, min(_BINS, len(order)))):
        hits, n = int(labels[some].sum()), len(some)
        share = hits / n
        axes.errorbar(
            float(probability[some].mean()),
            share,
            yerr=np.abs(np.subtract(wilson(hits, n), share))[:, None],
            fmt="o",
            capsize=3,
            color=_CALIBRATED,
            label="observed, with 95% interval" if not number else None,
        )
    top = max(axes.get_xlim()[1], axes.get_ylim()[1])
    axes.plot([0, top], [0, top], "--", color=_REFERENCE, label="as predicted")
    axes.set(title="Calibration", xlabel="probability predicted (%)", ylabel="share misplaced (%)")
    _in_per_cent(axes)


def _precision_recall(
    axes: "Axes", labels: NDArray[np.bool_], probability: NDArray[np.float64], calibrated: Estimate, iou: Estimate
) -> None:
    precision, recall, _ = precision_recall_curve(labels, probability)
    axes.step(recall, precision, where="post", color=_CALIBRATED, label="calibrated")
    _point(axes, calibrated, "o", _CALIBRATED, "calibrated, at its threshold")
    _point(axes, iou, "s", _IOU, "IoU check")
    axes.axhline(labels.mean(), linestyle="--", color=_REFERENCE, label="every question to the map")
    axes.set(title="Precision and recall", xlabel="recall (%)", ylabel="precision (%)", xlim=(0, 1.02), ylim=(0, 1.02))
    _in_per_cent(axes)


def _in_per_cent(axes: "Axes") -> None:
    from matplotlib.ticker import PercentFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, symbol=None))


def _point(axes: "Axes", estimate: Estimate, marker: str, colour: str, label: str) -> None:
    if estimate.recall is not None and estimate.precision is not None:
        axes.plot([estimate.recall], [estimate.precision], marker, markersize=9, color=colour, label=label)


def _cost_curve(
    axes: "Axes", labels: NDArray[np.bool_], probability: NDArray[np.float64], calibrated: Estimate, iou: Estimate
) -> None:
    """Drummond and Holte's curves: each decision rule is a line from its false alarms to its misses."""
    weight = np.linspace(0, 1, 201)
    alarms, hits, _ = roc_curve(labels, probability)
    best = np.min(np.outer(alarms, 1 - weight) + np.outer(1 - hits, weight), axis=0)
    axes.plot(weight, np.minimum(weight, 1 - weight), "--", color=_REFERENCE, label="map never, or always")
    axes.plot(weight, best, color=_CALIBRATED, linewidth=1, linestyle=":", label="calibrated, at the best threshold")
    for estimate, colour, label in (
        (calibrated, _CALIBRATED, "calibrated, at its threshold"),
        (iou, _IOU, "IoU check"),
    ):
        if estimate.specificity is not None and estimate.recall is not None:
            cost = (1 - estimate.specificity) * (1 - weight) + (1 - estimate.recall) * weight
            axes.plot(weight, cost, color=colour, label=label)
    axes.set(
        title="Cost",
        xlabel="weight of a miss (its share of the cost at stake)",
        ylabel="expected cost, 0 to 1",
        xlim=(0, 1),
        ylim=(0, 0.6),
    )
