"""The figures of the experiments, legible and safe for colour-blind readers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from briefcontext.errors import needing
from briefcontext.evaluation.runs.published import NPJ, SHORT, Published
from briefcontext.evaluation.statistics.tables import (
    SCORE_NAMES,
    Cell,
    by_metric,
    grouped,
    title_of,
)
from briefcontext.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
"""Okabe and Ito's palette; the strong colours first, its yellow darkened."""
WIN_TIE_LOSE_COLOURS = (OKABE_ITO[0], "#8C8C8C", OKABE_ITO[1])
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLE: Any = {
    "font.size": 10, "axes.titlesize": 11, "legend.fontsize": 9, "axes.grid": True,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "svg.fonttype": "none",
    # A fixed salt makes the same figure the same file.
    "svg.hashsalt": "briefcontext",
}  # fmt: skip
_DPI = 160
_GREY = "#777777"
_METRICS = {"accuracy, %": "accuracy", "F1, %": "f1"}


@contextmanager
def _figure(
    path: Path, title: str, *, simulated: bool, columns: int = 1, size: tuple[float, float]
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Open a figure of plots that share the y axis, and write it as .png and .svg at the end."""
    with needing("experiments", "Figures need matplotlib, and can be left out with --no-figures"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(size[0] * columns, size[1]), layout="constrained")
        axes = list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])
        yield figure, axes
        handles: dict[str, Any] = {}
        for axis in axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        heading = f"{title}\nSIMULATION: no language model, no result" if simulated else title
        figure.suptitle(heading, color="#B00020" if simulated else "black", fontsize=12)
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", frameon=False,
            ncols=3 if columns > 1 or len(handles) == 3 else 2,
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            with replacing(path.with_name(path.name + suffix)) as unfinished:
                figure.savefig(unfinished, format=suffix[1:], dpi=_DPI, metadata=metadata)


def line_plot(
    result: Sequence[Cell],
    path: Path,
    *,
    title: str,
    x: str,
    x_label: str,
    panel: str | None = None,
    published: Sequence[Published] = (),
    simulated: bool = False,
) -> list[Path]:
    """Draw scores over a value of the condition or of the cell: a line a method, a plot a panel.

    Values of a condition are evenly spaced. Methods without the value are level lines.
    """
    written = []
    for metric, file, cells in _by_metric(result, path):
        ranked = [cell for cell in cells if _value(cell, x) is not None]
        panels = list(dict.fromkeys(cell["condition"].get(panel) for cell in ranked))
        if not panels:
            continue
        curves = [one for one in published if _METRICS.get(one.metric) == metric]
        values = {_value(cell, x) for cell in ranked}
        values |= {float(_published_x(one, x)) for one in curves}
        ticks = sorted(values) if x != "input_tokens" else []
        size = (5.2 if len(panels) > 1 else 6.8, 4.8)
        figure = _figure(file, title, simulated=simulated, columns=len(panels), size=size)
        with figure as (_, axes):
            for axis, value in zip(axes, panels, strict=True):
                some = [cell for cell in ranked if cell["condition"].get(panel) == value]
                level = [cell for cell in cells if _value(cell, x) is None]
                own = [one for one in curves if panel is None or one.k == str(value)]
                _draw_published(axis, own, x, ticks)
                _draw_lines(axis, some, level, x, ticks)
                _finish_scores(axis, metric, some + level)
                axis.set_xlabel(f"{x_label}\n{axis.get_xlabel()}")
                if panel is not None:
                    axis.set_title(f"{panel} = {value}")
        written.append(file)
    return written


def _draw_lines(
    axis: Any, ranked: Sequence[Cell], level: Sequence[Cell], x: str, ticks: Sequence[float]
) -> None:
    by_method = grouped([*ranked, *level], lambda cell: cell["method"])
    middle = (len(by_method) - 1) / 2
    for place, (own, style) in enumerate(zip(by_method.values(), _styles(), strict=False)):
        if own[0] in level:
            axis.axhline(100 * own[0]["score"], color=style[0], ls=":", label=_title(own[0]))
            continue
        own.sort(key=lambda cell: _value(cell, x))
        xs = [_value(cell, x) for cell in own]
        if ticks:
            xs = [ticks.index(value) + 0.05 * (place - middle) for value in xs]
        _points(axis, xs, own, style, line="-")
    if ticks:
        axis.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
    else:
        axis.set_xlim(left=0)


def _draw_published(axis: Any, curves: Sequence[Published], x: str, ticks: Sequence[float]) -> None:
    for one in grouped(curves, lambda curve: curve.label).values():
        places = {ticks.index(float(_published_x(c, x))): float(c.value) for c in one}
        style = {"color": _GREY, "ls": "--", "lw": 1.2, "ms": 4, "alpha": 0.8}
        marker = {"vanilla": "o", "long_context": "x"}.get(one[0].method, "^")
        xs = sorted(places)
        axis.plot(xs, [places[at] for at in xs], marker=marker, label=one[0].label, **style)


def _published_x(one: Published, x: str) -> str:
    return one.position if x == "position" else one.k


def bar_plot(
    groups: Mapping[str, Sequence[Cell]],
    path: Path,
    *,
    title: str,
    published: Sequence[Published] = (),
    simulated: bool = False,
) -> list[Path]:
    """Draw scores as points with intervals, in groups of a cell a method; a figure a metric."""
    written = []
    every = [cell for cells in groups.values() for cell in cells]
    for metric, file, cells in _by_metric(every, path):
        kept = {group: [c for c in own if c in cells] for group, own in groups.items()}
        kept = {group: own for group, own in kept.items() if own}
        size = (max(6.8, 1.5 * len(kept) + 3), 4.8)
        with _figure(file, title, simulated=simulated, size=size) as (_, (axis,)):
            by_method = grouped(cells, lambda cell: cell["method"])
            middle = (len(by_method) - 1) / 2
            for place, (name, style) in enumerate(zip(by_method, _styles(), strict=False)):
                own = [(at, cell) for at, some in enumerate(kept.values()) for cell in some]
                own = [(at, cell) for at, cell in own if cell["method"] == name]
                shift = 0.7 * (place - middle) / len(by_method)
                _points(axis, [at + shift for at, _ in own], [cell for _, cell in own], style)
                for at, group in enumerate(kept):
                    for one in published:
                        if one.method == name and _same_set(one.dataset, group):
                            ends, label = [at + shift - 0.1, at + shift + 0.1], one.label
                            y = [float(one.value)] * 2
                            axis.plot(ends, y, color=style[0], ls="--", lw=1.4, label=label)
            axis.set_xticks(range(len(kept)), list(kept))
            axis.set_xlim(-0.6, len(kept) - 0.4)
            axis.grid(visible=False, axis="x")
            _finish_scores(axis, metric, cells)
        written.append(file)
    return written


def _same_set(published: str, group: str) -> bool:
    return published.lower().partition("-")[0] == group.lower().partition("-")[0]


def _by_metric(result: Sequence[Cell], path: Path) -> Iterator[tuple[str, Path, list[Cell]]]:
    groups = by_metric([cell for cell in result if "score" in cell])
    for metric, some in groups.items():
        file = path if len(groups) == 1 else path.with_name(f"{path.name}-{metric}")
        yield metric, file, some


def _value(cell: Cell, name: str) -> Any:
    return cell["condition"].get(name, cell.get(name))


def _styles() -> Iterator[tuple[str, str]]:
    return cycle(zip(OKABE_ITO, _MARKERS, strict=True))


def _title(cell: Cell) -> str:
    return title_of(cell["method"])


def _points(
    axis: Any, xs: Sequence[float], cells: Sequence[Cell], style: tuple[str, str], line: str = ""
) -> None:
    scores = [100 * cell["score"] for cell in cells]
    bounds = [
        [nan if cell[bound] is None else 100 * cell[bound] for cell in cells]
        for bound in ("low", "high")
    ]
    axis.errorbar(
        xs, scores, yerr=np.abs(np.subtract(bounds, scores)), label=_title(cells[0]),
        color=style[0], marker=style[1], linestyle=line, markersize=6, linewidth=1.6,
        elinewidth=1.1, capsize=3,
    )  # fmt: skip


def _finish_scores(axis: Any, metric: str, cells: Sequence[Cell]) -> None:
    axis.set_ylabel(f"{SCORE_NAMES[metric]} (%)")
    axis.set_ylim(0, 102)
    counts = sorted({cell["n"] for cell in cells})
    n = "–".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    axis.set_xlabel(f"n = {n} questions, bars: 95% intervals")


def stacked_plot(
    bars: Mapping[str, Sequence[float]],
    path: Path,
    *,
    title: str,
    parts: Sequence[str],
    x_label: str,
    caption: str,
    colours: Sequence[str] = OKABE_ITO,
    published: Sequence[str] = (),
    paper: str = "",
    percent: bool = False,
    simulated: bool = False,
) -> list[Path]:
    """Draw horizontal bars of several parts; `published` names those of a paper, drawn dashed."""
    if not bars:
        return []
    longest = max(sum(values) for values in bars.values()) or 1
    size = (8.0, 2.2 + 0.5 * len(bars))
    with _figure(path, title, simulated=simulated, size=size) as (_, (axis,)):
        for row, (name, values) in enumerate(bars.items()):
            start = 0.0
            faded: Any = {"alpha": 0.5, "ls": "--", "lw": 1} if name in published else {}
            edge = "black" if name in published else "white"
            for part, colour, length in zip(parts, colours, values, strict=False):
                label = part if row == 0 else None
                axis.barh(
                    row, length, left=start, height=0.62, label=label, color=colour,
                    edgecolor=edge, **faded,
                )  # fmt: skip
                if length > 0.07 * longest:
                    middle, shown = start + length / 2, f"{length:,.0f}"
                    colour = "black" if name in published else "white"
                    axis.text(middle, row, shown, ha="center", va="center", color=colour)
                start += length
        axis.set_yticks(range(len(bars)), list(bars))
        axis.set_xlim(0, 100 if percent else None)
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        note = f"; dashed: {paper}" if published else ""
        axis.set_xlabel(f"{x_label}\n{caption}{note}")
    return [path]


def roc_plot(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float], tuple[float, float] | None]],
    path: Path,
    *,
    caption: str,
    paper: tuple[float, float],
) -> list[Path]:
    """Draw ROC curves (false and true positive rates, operating point) and the paper's point."""
    with _figure(path, "Preflight check", simulated=False, size=(6.2, 6.4)) as (_, (axis,)):
        axis.plot([0, 100], [0, 100], "--", color=_GREY, lw=1, label="by chance")
        for (name, (false, true, point)), style in zip(curves.items(), _styles(), strict=False):
            colour, marker = style
            axis.plot(100 * np.asarray(false), 100 * np.asarray(true), color=colour, label=name)
            if point is not None:
                x, y = (100 * rate for rate in point)
                axis.plot([x], [y], marker, ms=9, color=colour, label=f"{name}, at its threshold")
        axis.plot(*[[100 * rate] for rate in paper], "*", ms=14, color="black", ls="none",
                  label=f"the papers' IoU check ({SHORT[NPJ]})")  # fmt: skip
        axis.set(xlim=(0, 101), ylim=(0, 101), aspect="equal")
        axis.set_xlabel(f"Placed, but sent to the map (%)\n{caption}")
        axis.set_ylabel("Misplaced and sent to the map: recall (%)")
    return [path]
