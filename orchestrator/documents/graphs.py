"""Documents of the graphs of pipelines."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeweave.orchestrator.documents.base import AnswerModel

GraphView = Literal["all", "pattern"]
Direction = Literal["right", "down"]


class GraphSteps(AnswerModel):
    """All steps by ordinal: the first has ordinal 1."""

    ids: list[str]
    tasks: list[int] = Field(description="The place of each step's task in `tasks`.")


class GraphBoxes(AnswerModel):
    """The boxes, as columns: the first entry of each list belongs to box 0."""

    keys: list[str] = Field(description="The id of the one step, or the key of the class.")
    tasks: list[int] = Field(description="The place of the task in `tasks`.")
    maps: list[int] = Field(description="Numbers of the boxes whose steps are maps.")
    steps: list[list[int]] = Field(
        description="Ordinals of the steps of each box; none for a box in a frame, whose steps are those of"
        " other runs."
    )
    inside: dict[str, str] = Field(
        description="By the number of the box: the pipeline that its step runs as a run of its own, or"
        " `steps` for a body; of a pipeline in a frame, `pipeline`."
    )
    titles: dict[str, str] = Field(description="By the number of the box: the name of what is in a frame.")
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
    labels: dict[str, str] = Field(
        description="By the number of the link: how the members of two classes belong together (`1:1`, `1:n`,"
        " `n:1`, `n:m`); of the link of a choice, the case that takes it."
    )
    bends: dict[str, list[int]] = Field(
        description="By the number of the link: x and y of each point between its ends. Between points of the"
        " same height it is straight."
    )


class GraphFrame(AnswerModel):
    """What runs apart from the steps, as runs of their own: for each item, when a step fails, at the end."""

    place: str = Field(description="Where it is in the version, such as `charge.onError` or `finally`.")
    title: str = Field(description="When it runs, for people.")
    elements: list[int] = Field(description="The numbers of the boxes and junctions in it.")
    x: int | None
    y: int | None
    width: int | None
    height: int | None


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
    frames: list[GraphFrame] = Field(description="The first 60; in the pattern, those of no class of steps.")
