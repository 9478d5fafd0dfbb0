"""The state graph: its state, settings, nodes and wiring."""

from briefcontext.graphs.graph import build_graph, graph
from briefcontext.graphs.settings import Settings
from briefcontext.graphs.tool import briefcontext_tool

__all__ = ["Settings", "briefcontext_tool", "build_graph", "graph"]
