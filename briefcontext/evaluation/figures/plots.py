"""The figures of the experiments, in a style that is legible, and safe for colour-blind readers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from briefcontext.errors import needing
from briefcontext.evaluation.statistics.inference import wilson
from briefcontext.evaluation.statistics.tables import SCORE_NAMES, Cell, by_metric, title_of
from briefcontext.files import replacing
from briefcontext.retrievers.calibration import Positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
"""Okabe and Ito's palette of colours that the colour-blind tell apart; the strong ones first, its yellow darkened."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""A second sign beside the colour, for print in grey."""

_STYLE: Any = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "legend.fontsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    # Without these, the same figure would be another file on every run.
    "svg.hashsalt": "briefcontext",
}
_PIXELS_PER_INCH = 160
_CALIBRATED, _IOU, *_ = OKABE_ITO
_REFERENCE = "#777777"
_BINS = 8


@contextmanager
def _figure(
    columns: int = 1, *, width: float = 6.4, height: float = 4.2
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Open a figure of `columns` plots side by side that share the y axis; sizes are in inches for one plot.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with needing("experiments", "Figures need matplotlib, and can be left out with --no-figures"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    with mpl.rc_context(_STYLE):
        drawn = Figure(figsize=(width * columns, height), layout="constrained")
        axes = drawn.subplots(1, columns, sharey=True, squeeze=False)
        yield drawn, list(axes[0])


def _save(figure: "Figure", path: Path) -> Path:
    """Write a figure as `path` with .png and .svg, and return `path`."""
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        with replacing(path.with_name(path.name + suffix)) as unfinished:
            figure.savefig(unfinished, format=suffix[1:], dpi=_PIXELS_PER_INCH, metadata=metadata)
    return path


def line_plot(
    found: Sequence[Cell],
    path: Path,
    *,
    x: str,
    x_label: str,
    panel: str | None = None,
    x_ticks: Sequence[int] = (),
    logarithmic: bool = False,
    simulated: bool = False,
) -> list[Path]:
    """Draw scores over a value of the condition or of the cell, a line a method, a plot a value of `panel`.

    Methods that have no such value, as they see no ranking, are drawn as level lines. Lines stand a
    little apart, so that intervals can be told from each other.
    """
    written = []
    for y_label, file, scored in _by_metric(found, path):
        ranked, styles = [cell for cell in scored if _value(cell, x) is not None], _styles(scored)
        panels = list(dict.fromkeys(cell["condition"].get(panel) for cell in ranked))
        if not panels:
            continue
        with _figure(len(panels), width=5.2 if len(panels) > 1 else 6.4) as (drawn, axes):
            for axis, value in zip(axes, panels, strict=True):
                own = [cell for cell in ranked if cell["condition"].get(panel) == value]
                for name, some, shift in _side_by_side(_methods(ranked), own):
                    some.sort(key=lambda cell: _value(cell, x))
                    values = np.array([_value(cell, x) for cell in some], dtype=np.float64)
                    apart = (
                        values * (1.036 if x_ticks else 1.012) ** shift
                        if logarithmic
                        else values + 1.8 * shift
                    )
                    _points(axis, apart.tolist(), some, styles[name])
                for cell in scored:
                    if _value(cell, x) is None:
                        _level(axis, cell, styles)
                if logarithmic:
                    axis.set_xscale("log")
                _set_ticks(axis, x_ticks)
                axis.set_xlabel(x_label)
                if panel is not None:
                    axis.set_title(f"{panel} = {value}")
            written.append(_finished(drawn, axes, y_label, file, simulated=simulated))
    return written


def _value(cell: Cell, name: str) -> Any:
    return cell["condition"].get(name, cell.get(name))


def _set_ticks(axis: "Axes", ticks: Sequence[int]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if ticks:
        axis.set_xticks(ticks, list(map(str, ticks)))
        axis.minorticks_off()
    else:
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.xaxis.set_minor_formatter(NullFormatter())


def bar_plot(
    groups: Mapping[str, Sequence[Cell]], path: Path, *, simulated: bool = False
) -> list[Path]:
    """Draw scores as points with 95% intervals, side by side in groups of a cell a method; a figure a metric."""
    written = []
    for y_label, file, scored in _by_metric(
        [cell for cells in groups.values() for cell in cells], path
    ):
        kept = {
            group: some
            for group, cells in groups.items()
            if (some := [cell for cell in cells if cell in scored])
        }
        styles = _styles(scored)
        with _figure(width=max(6.4, 1.5 * len(kept) + 3), height=4.4) as (drawn, (axis,)):
            for name, _, shift in _side_by_side(list(styles), scored):
                own = [
                    (at, cell)
                    for at, cells in enumerate(kept.values())
                    for cell in cells
                    if cell["method"] == name
                ]
                places = [at + shift * 0.7 / len(styles) for at, _ in own]
                _points(axis, places, [cell for _, cell in own], styles[name], line="")
            axis.set_xticks(range(len(kept)), list(kept))
            axis.set_xlim(-0.6, len(kept) - 0.4)
            axis.grid(visible=False, axis="x")
            written.append(_finished(drawn, [axis], y_label, file, simulated=simulated))
    return written


def _by_metric(found: Sequence[Cell], path: Path) -> Iterator[tuple[str, Path, list[Cell]]]:
    """Yield each metric's name, the path of its figure, and its cells that have a score."""
    groups = by_metric([cell for cell in found if "score" in cell])
    for metric, some in groups.items():
        yield (
            SCORE_NAMES[metric],
            path if len(groups) == 1 else path.with_name(f"{path.name}-{metric}"),
            some,
        )


def _methods(found: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell["method"] for cell in found))


def _side_by_side(
    methods: Sequence[str], found: Sequence[Cell]
) -> Iterator[tuple[str, list[Cell], float]]:
    """Yield each method with its cells and its place beside the others, which is 0 in the middle."""
    for place, name in enumerate(methods):
        if some := [cell for cell in found if cell["method"] == name]:
            yield name, some, place - (len(methods) - 1) / 2


def _styles(found: Sequence[Cell]) -> dict[str, tuple[str, str]]:
    """Give each method its colour and sign; the same ones in every figure with the same methods."""
    return dict(zip(_methods(found), cycle(zip(OKABE_ITO, MARKERS, strict=True)), strict=False))


def _points(
    axis: Any, xs: Sequence[float], some: Sequence[Cell], style: tuple[str, str], line: str = "-"
) -> None:
    colour, marker = style
    scores = [100 * cell["score"] for cell in some]
    # Where there is no interval there is no bar.
    bounds = [
        [100 * cell[bound] if cell[bound] is not None else nan for cell in some]
        for bound in ("low", "high")
    ]
    axis.errorbar(
        xs, scores, yerr=np.abs(np.subtract(bounds, scores)), label=title_of(some[0]["method"]), color=colour,
        marker=marker, linestyle=line, markersize=6, linewidth=1.6, elinewidth=1.1, capsize=3,
    )  # fmt: skip


def _level(axis: Any, cell: Cell, styles: Mapping[str, Any]) -> None:
    colour, _ = styles[cell["method"]]
    axis.axhline(
        100 * cell["score"],
        color=colour,
        linestyle="--",
        linewidth=1.4,
        label=title_of(cell["method"]),
    )
    if cell["low"] is not None:
        axis.axhspan(100 * cell["low"], 100 * cell["high"], color=colour, alpha=0.08, linewidth=0)


def stacked_plot(
    bars: Mapping[str, Sequence[float]],
    path: Path,
    *,
    parts: Sequence[str],
    x_label: str,
    colours: Sequence[str] = OKABE_ITO,
    simulated: bool = False,
) -> list[Path]:
    """Draw level bars that are made up of parts, each with its figure where there is room for it."""
    if not bars:
        return []
    from matplotlib.ticker import MaxNLocator

    longest = max(sum(values) for values in bars.values()) or 1
    with _figure(width=8.0, height=1.6 + 0.62 * len(bars)) as (drawn, (axis,)):
        starts = [0.0] * len(bars)
        for place, part in enumerate(parts):
            lengths = [values[place] for values in bars.values()]
            axis.barh(
                list(bars), lengths, left=starts, height=0.62, label=part, color=colours[place],
                edgecolor="white",
            )  # fmt: skip
            for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
                if length > 0.07 * longest:
                    axis.text(
                        start + length / 2,
                        row,
                        f"{length:,.0f}",
                        ha="center",
                        va="center",
                        color="white",
                    )
            starts = [start + length for start, length in zip(starts, lengths, strict=True)]
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.set_xlabel(x_label)
        _legend(drawn, axis, simulated=simulated)
        return [_save(drawn, path)]


def _finished(
    drawn: Any, axes: Sequence[Any], y_label: str, file: Path, *, simulated: bool
) -> Path:
    axes[0].set_ylabel(f"{y_label} (%)")
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(max(-3, low), min(103, high))
    _legend(drawn, axes[0], simulated=simulated)
    return _save(drawn, file)


def _legend(drawn: Any, axis: Any, *, simulated: bool) -> None:
    handles, labels = axis.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    legend = drawn.legend(
        list(unique.values()),
        list(unique),
        loc="outside upper center",
        ncols=len(unique) if len(unique) <= 4 else 3,
        frameon=False,
        title="SIMULATION: no language model, no result" if simulated else None,
    )
    legend.get_title().set(color="#B00020", weight="bold")


def draw_preflight(
    out: Path,
    labels: NDArray[np.bool_],
    probability: NDArray[np.float64],
    calibrated: Mapping[str, Any],
    iou: Mapping[str, Any],
    *,
    positive: Positive,
    held_out: str,
) -> list[str]:
    """Write a preflight check's calibration and precision-recall curves into a folder, each as PNG and SVG.

    Returns their names, without a suffix.

    Args:
        labels, probability: True for positives (n,), and the probability (n,) that the model gave
            without seeing it.
        calibrated, iou: what the two checks decide, as `count_decisions` gives it.
        positive, held_out: what is positive, and how the model did not see them, for the titles.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    from sklearn.metrics import precision_recall_curve  # type: ignore[import-untyped]

    out.mkdir(parents=True, exist_ok=True)
    positives = "ranked below 3" if positive == "ranked_below" else positive
    measured = f"{len(labels):,} questions, {int(labels.sum())} {positives}; {held_out}"
    with _curve(out / "calibration_curve", f"Calibration\n{measured}") as axes:
        # Bins of equal size; bars are Wilson's intervals.
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
        axes.set(xlabel="probability predicted (%)", ylabel=f"share {positives} (%)")
    with _curve(out / "precision_recall", f"Precision and recall\n{measured}") as axes:
        precision, recall, _ = precision_recall_curve(labels, probability)
        axes.step(recall, precision, where="post", color=_CALIBRATED, label="calibrated")
        checks = (
            (calibrated, "o", _CALIBRATED, "calibrated, at its threshold"),
            (iou, "s", _IOU, "IoU check"),
        )
        for check, marker, colour, label in checks:
            if check["recall"] is not None and check["precision"] is not None:
                axes.plot(
                    [check["recall"]],
                    [check["precision"]],
                    marker,
                    markersize=9,
                    color=colour,
                    label=label,
                )
        axes.axhline(
            labels.mean(), linestyle="--", color=_REFERENCE, label="every question to the map"
        )
        axes.set(xlabel="recall (%)", ylabel="precision (%)", xlim=(0, 1.02), ylim=(0, 1.02))
    return ["calibration_curve", "precision_recall"]


@contextmanager
def _curve(path: Path, title: str) -> "Iterator[Axes]":
    """Open the plot of a curve over shares, which is written as the block ends."""
    with _figure(height=4.8) as (drawn, (axes,)):
        yield axes
        from matplotlib.ticker import PercentFormatter

        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1, symbol=None))
        axes.set_title(title)
        axes.legend(frameon=False)
        _save(drawn, path)
