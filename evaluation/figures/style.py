"""The style of figures: legible, and safe for colour-blind readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briefcontext.errors import MissingExtraError
from briefcontext.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MARKERS", "OKABE_ITO", "figure", "save"]

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


@contextmanager
def figure(columns: int = 1, *, width: float = 6.4, height: float = 4.2) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Open a figure of `columns` plots side by side that share the y axis; sizes are in inches for one plot.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "Figures need matplotlib: pip install 'briefcontext[experiments]', or leave them out with --no-figures."
        ) from error
    with mpl.rc_context(_STYLE):
        drawn = Figure(figsize=(width * columns, height), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.subplots(1, columns, sharey=True, squeeze=False)
        yield drawn, list(axes[0])


def save(figure: "Figure", path: Path) -> list[Path]:
    """Write a figure as `path` with .png and .svg, and return both."""
    written = []
    for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
        target = path.with_name(path.name + suffix)
        with replacing(target) as unfinished:
            figure.savefig(unfinished, format=suffix[1:], dpi=_PIXELS_PER_INCH, metadata=metadata)
        written.append(target)
    return written
