"""The state graph: its state, settings, nodes and wiring."""

from briefcontext.graphs.graph import build_graph, graph
from briefcontext.graphs.settings import Settings

__all__ = ["Settings", "build_graph", "graph"]
