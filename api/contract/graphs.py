"""Models of the query parameters of the graphs of pipelines."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from pipeweave.api.contract.query_parameters import OpenClasses, Query, opened_classes, truth
from pipeweave.orchestrator.documents.graphs import Direction, GraphView


class DrawingQuery(Query):
    """What a drawing of a pipeline's graph shows."""

    view: GraphView | None = Field(
        None,
        description="`all` steps, or their `pattern`: steps of the same task and level are one box. Absent:"
        " all up to 150 steps, else the pattern.",
    )
    open: OpenClasses = Field(
        None,
        description="Keys of the boxes of the pattern that show their members, with commas between. Keys that"
        " are not in it are ignored.",
    )

    direction: Direction = Field("right", description="From left to right, or from the top `down`.")
    body: str | None = Field(
        None,
        max_length=400,
        description="A body of the version, such as `files.map`, as runs of it name it. Absent: the whole"
        " pipeline.",
    )

    @property
    def is_down(self) -> bool:
        return self.direction == "down"

    @property
    def opened(self) -> tuple[str, ...]:
        """The keys in a fixed order, each once."""
        return opened_classes(self.open)


class GraphQuery(DrawingQuery):
    """What the document of a graph holds."""

    layout: Annotated[bool, BeforeValidator(truth)] = Field(
        True, description="`false`: without places and sizes."
    )
