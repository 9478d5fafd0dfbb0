"""Draw the pictures of the README and the documentation.

Usage: `python -m docs.pictures position published.csv`, `graph` or `page`.

`position` draws Supplementary Table 1 of the BriefContext preprint (arXiv 2412.15271) from a table
with the columns paper, place, model, k, position, method and value. `graph` draws the compiled
graph. `page` photographs the page with Chromium while a scripted model answers.
"""

import csv
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch

PICTURES = Path(__file__).parent / "pictures"
TEAL, GREY = "#00796b", "#8a8f98"
NAMES = {"vanilla": "one call over all documents (vanilla RAG)", "briefcontext": "BriefContext"}
NODES = {
    "__start__": (0.4, 1.9, ""),
    "retrieve": (2.0, 1.9, "k documents"),
    "preflight": (3.9, 1.9, "compares two rankings"),
    "map_fanout": (6.2, 3.5, "rankings disagree"),
    "extract": (8.6, 3.5, "one call a group"),
    "reduce": (10.6, 3.5, "one answer"),
    "vanilla": (7.6, 2.5, "rankings agree: rank order"),
    "order_preserving": (7.6, 1.5, "rankings agree: source order"),
    "abstain": (7.6, 0.5, "nothing retrieved"),
    "verify": (11.2, 2.3, "checks sentences"),
    "__end__": (13.4, 2.3, ""),
}
"""Place of each node in the picture, and its caption."""


def main() -> None:
    """Draw the picture that the command line names."""
    PICTURES.mkdir(exist_ok=True)
    match sys.argv[1:]:
        case ["position", table]:
            draw_position(table)
        case ["graph"]:
            draw_graph()
        case ["page"]:
            photograph_page()
        case _:
            sys.exit(__doc__)


def draw_position(table: str) -> None:
    """Draw accuracy by the position of the key document, as the preprint prints it."""
    with open(table, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["place"] == "Supplementary Table 1"]
    panels = sorted({(row["model"], int(row["k"])) for row in rows})
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.2), sharex=True, sharey=True)
    for axis, (model, k) in zip(axes.flat, panels, strict=True):
        for method, colour, line in (("vanilla", GREY, "--"), ("briefcontext", TEAL, "-")):
            points = sorted(
                (float(row["position"]), float(row["value"]))
                for row in rows
                if (row["model"], int(row["k"]), row["method"]) == (model, k, method)
            )
            axis.plot(
                *zip(*points, strict=True), line, marker="o", color=colour, label=NAMES[method]
            )
        axis.set_title(f"{model}, {k} documents", fontsize=10)
        axis.set_xticks([0, 25, 50, 75, 100])
        axis.grid(axis="y", color="#e3e5e8")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylim(44, 66)
    figure.supxlabel("position of the key document, % of the context", fontsize=10)
    figure.supylabel("accuracy, % (axis from 44)", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    _save(figure, "position")


def draw_graph() -> None:
    """Draw the compiled graph: its nodes at fixed places, its edges as LangGraph has them."""
    from briefcontext import graph

    drawable = graph.get_graph()
    figure, axis = plt.subplots(figsize=(12.7, 4.0), dpi=72)
    axis.set(xlim=(-0.1, 13.9), ylim=(0, 4))
    axis.axis("off")
    figure.subplots_adjust(0, 0, 1, 1)
    # Arrows end at the boxes only if these are laid out at the resolution of SVG.
    boxes = {node: _box(axis, node) for node in drawable.nodes}
    figure.canvas.draw()
    for edge in drawable.edges:
        arrow = FancyArrowPatch(
            NODES[edge.source][:2],
            NODES[edge.target][:2],
            patchA=boxes[edge.source],
            patchB=boxes[edge.target],
            arrowstyle="-|>",
            mutation_scale=12,
            color="#555555",
            linestyle="--" if edge.conditional else "-",
            shrinkB=4,
        )
        axis.add_patch(arrow)
    _save(figure, "graph")


def _box(axis: Axes, node: str) -> Patch:
    x, y, caption = NODES[node]
    end = node.startswith("__")
    box = {"boxstyle": "round,pad=0.45", "facecolor": "#e0f2f1", "edgecolor": TEAL}
    if end:
        box |= {"facecolor": GREY, "edgecolor": GREY}
    colour = "white" if end else "black"
    name = node.strip("_") if end else node
    text = axis.text(x, y, name, ha="center", va="center", size=11, color=colour, bbox=box)
    caption_box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    height = y + 0.32 if y > 3 else y - 0.42  # The top row has arrows below it.
    axis.text(x, height, caption, ha="center", size=8.5, color="#555555", bbox=caption_box)
    patch = text.get_bbox_patch()
    assert patch is not None
    return patch


def _save(figure: Figure, name: str) -> None:
    # Neither a date nor random ids: the same data give the same file.
    plt.rcParams["svg.hashsalt"] = name
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})


def photograph_page() -> None:
    """Photograph the page with an answer of a scripted model that a check objects to."""
    from briefcontext.graphs.settings import Settings
    from briefcontext.page.app import create_app
    from tests.documentation import QUESTION, scripted_model
    from tests.page_server import browse, serve_page

    with scripted_model(os.environ.__setitem__), TemporaryDirectory() as profile:
        app = create_app(Settings(model="openai:gpt-4o-mini"))
        with serve_page(app) as address, browse(Path(profile)) as browser:
            browser.size(1280, 790)
            browser.open(address)
            browser.ask(QUESTION)
            browser.see("#status", "Answered")
            browser.run(
                "const top = document.querySelector('#result-heading').getBoundingClientRect().top;"
                "window.scrollBy({top: top - 14, behavior: 'instant'})"
            )
            browser.driver.save_screenshot(str(PICTURES / "page.png"))


if __name__ == "__main__":
    main()
