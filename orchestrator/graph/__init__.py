"""Draws graphs of pipelines: pattern, layout, JSON and SVG. Pure, but for what reads a stored version.

Called by `api`. This room must never write to PostgreSQL.
"""

from pipeweave.orchestrator.graph.document import graph_document, read_document
from pipeweave.orchestrator.graph.layout import layout
from pipeweave.orchestrator.graph.pattern import DrawingView, shape_of
from pipeweave.orchestrator.graph.shapes import CHOICE_WORD, ICONS, Box
from pipeweave.orchestrator.graph.svg import MOST_IN_PAGE, svg
from pipeweave.orchestrator.graph.versions import version_differences, version_graph, version_svg

__all__ = [
    "CHOICE_WORD",
    "ICONS",
    "MOST_IN_PAGE",
    "Box",
    "DrawingView",
    "graph_document",
    "layout",
    "read_document",
    "shape_of",
    "svg",
    "version_differences",
    "version_graph",
    "version_svg",
]
