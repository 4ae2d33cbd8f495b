"""Models of the graphs of pipelines, and of how versions differ."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from pipeweave.api.contract.query_parameters import GraphView, OpenClasses, Query, opened_classes, truth
from pipeweave.orchestrator.documents.base import AnswerModel

Direction = Literal["right", "down"]


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


class GraphSteps(AnswerModel):
    """All steps by ordinal: the first has ordinal 1."""

    ids: list[str]
    tasks: list[int] = Field(description="The place of each step's task in `tasks`.")


class GraphBoxes(AnswerModel):
    """The boxes, as columns: the first entry of each list belongs to box 0."""

    keys: list[str] = Field(description="The id of the one step, or the key of the class.")
    tasks: list[int] = Field(description="The place of the task in `tasks`.")
    maps: list[int] = Field(description="Numbers of the boxes whose steps are maps.")
    steps: list[list[int]] = Field(description="Ordinals of the steps of each box.")
    x: list[int] | None = Field(description="The left side; null without layout.")
    y: list[int] | None = Field(description="The top; null without layout.")


class BoxSize(AnswerModel):
    """The size of every box that is no open block."""

    width: int
    height: int


class GraphBlock(AnswerModel):
    """An open class: its members stand in columns inside of it."""

    box: int = Field(description="The number of the box.")
    width: int | None
    height: int | None
    rows: int = Field(description="Members in one column.")
    shown: int = Field(description="Members that the block has room for.")


class GraphJunctions(AnswerModel):
    """Bars for «all of these, then all of those». Their numbers follow those of the boxes."""

    count: int
    width: int
    height: int
    x: list[int] | None
    y: list[int] | None


class GraphLinks(AnswerModel):
    """The lines, as columns: from a box or junction to another."""

    sources: list[int]
    targets: list[int]
    labels: dict[str, Literal["1:1", "1:n", "n:1", "n:m"]] = Field(
        description="By the number of the link: how the members of two classes belong together."
    )
    bends: dict[str, list[int]] = Field(
        description="By the number of the link: x and y of each point between its ends. Between points of the"
        " same height it is straight."
    )


class GraphAnswer(AnswerModel):
    """The graph of one version of a pipeline, laid out from left to right or from the top down."""

    pipeline_id: str
    version: int
    view: GraphView
    direction: Direction
    open: list[str] = Field(description="Keys of the classes that show their members.")
    step_count: int
    edge_count: int
    width: int | None = Field(description="Of the whole drawing, in pixels at zoom 1; null without layout.")
    height: int | None
    tasks: list[str] = Field(description="The ids of the tasks, sorted.")
    steps: GraphSteps
    box: BoxSize
    boxes: GraphBoxes
    blocks: list[GraphBlock]
    junctions: GraphJunctions
    links: GraphLinks


class ComparedStep(AnswerModel):
    """A step that only one of two versions has."""

    id: str
    task: str
    needs: list[str]


class Change(AnswerModel):
    """A member that differs; null where it is absent."""

    field: str
    before: Any
    after: Any


class ChangedStep(AnswerModel):
    """A step that both versions have, and how it differs."""

    id: str
    changes: list[Change]


class VersionDifferences(AnswerModel):
    """How two versions of a pipeline differ."""

    pipeline_id: str
    from_: int = Field(alias="from")
    to: int
    added: list[ComparedStep]
    removed: list[ComparedStep]
    changed: list[ChangedStep]
    settings: list[Change] = Field(description="Members of the pipeline besides its steps.")
