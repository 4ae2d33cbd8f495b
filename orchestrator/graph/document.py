"""Shows a drawing as a JSON document of columns by box, junction and link, which is small (pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipeweave.orchestrator.documents.graphs import (
    BoxSize,
    GraphAnswer,
    GraphBlock,
    GraphBoxes,
    GraphFrame,
    GraphJunctions,
    GraphLinks,
    GraphSteps,
)
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.graph.layout import layout
from pipeweave.orchestrator.graph.pattern import DrawingView, shape_of
from pipeweave.orchestrator.graph.shapes import (
    BOX_HEIGHT,
    BOX_WIDTH,
    JUNCTION_HEIGHT,
    JUNCTION_WIDTH,
    MEMBERS_IN_COLUMN,
    MEMBERS_SHOWN,
    Box,
    DrawingFrame,
    Layout,
    Link,
    Shape,
)
from pipeweave.orchestrator.store.keyset import Document

# Where a drawing goes: from left to right, or from the top down.
RIGHT, DOWN = "right", "down"


def graph_document(
    plan: Plan,
    view: DrawingView,
    opened: Collection[str] = (),
    *,
    pipeline_id: str,
    version: int,
    has_layout: bool = True,
    is_down: bool = False,
) -> Document:
    """The graph of a plan.

    Args:
        plan: of this version of this pipeline.
        view: all steps, or the pattern.
        opened: keys of the classes that show their members.
        has_layout: False: leave places and sizes out, which are what takes time.
        is_down: from the top down, not from left to right.
    """
    shape = shape_of(plan, view, opened)
    tasks = sorted({each.step.task for each in plan.steps} | {box.task for box in shape.boxes})
    number = {task: at for at, task in enumerate(tasks)}
    geometry = layout(shape, is_down=is_down) if has_layout else None
    return GraphAnswer.of(
        pipeline_id=pipeline_id,
        version=version,
        view=view.value,
        direction=DOWN if is_down else RIGHT,
        open=[box.key for box in shape.boxes if box.is_open],
        step_count=len(plan.steps),
        edge_count=sum(len(each.predecessors) for each in plan.steps),
        width=geometry and geometry.width,
        height=geometry and geometry.height,
        tasks=tasks,
        steps=GraphSteps.of(
            ids=[each.id for each in plan.steps], tasks=[number[each.step.task] for each in plan.steps]
        ),
        box=BoxSize.of(width=BOX_WIDTH, height=BOX_HEIGHT),
        boxes=_boxes(shape, number, geometry),
        blocks=_blocks(shape, geometry),
        junctions=_junctions(shape, geometry),
        links=_links(shape, geometry),
        frames=_frames(shape, geometry),
    )


def _boxes(shape: Shape, number: dict[str, int], geometry: Layout | None) -> Document:
    boxes = shape.boxes
    return GraphBoxes.of(
        keys=[box.key for box in boxes],
        tasks=[number[box.task] for box in boxes],
        maps=[at for at, box in enumerate(boxes) if box.is_map],
        steps=[list(box.steps) for box in boxes],
        inside={str(at): box.inside for at, box in enumerate(boxes) if box.inside},
        titles={str(at): box.title for at, box in enumerate(boxes) if not box.steps},
        x=None if geometry is None else [x for x, _ in geometry.places[: len(boxes)]],
        y=None if geometry is None else [y for _, y in geometry.places[: len(boxes)]],
    )


def _blocks(shape: Shape, geometry: Layout | None) -> list[Document]:
    return [
        GraphBlock.of(
            box=at,
            width=geometry and geometry.sizes[at][0],
            height=geometry and geometry.sizes[at][1],
            rows=min(len(box.steps), MEMBERS_IN_COLUMN),
            shown=min(len(box.steps), MEMBERS_SHOWN),
        )
        for at, box in enumerate(shape.boxes)
        if box.is_open
    ]


def _junctions(shape: Shape, geometry: Layout | None) -> Document:
    places = None if geometry is None else geometry.places[len(shape.boxes) :]
    width, height = JUNCTION_WIDTH, JUNCTION_HEIGHT
    if geometry is not None and geometry.is_down:
        width, height = height, width
    return GraphJunctions.of(
        count=shape.junctions,
        width=width,
        height=height,
        x=None if places is None else [x for x, _ in places],
        y=None if places is None else [y for _, y in places],
    )


def _links(shape: Shape, geometry: Layout | None) -> Document:
    bends = [] if geometry is None else geometry.bends
    return GraphLinks.of(
        sources=[link.source for link in shape.links],
        targets=[link.target for link in shape.links],
        labels={str(at): link.label for at, link in enumerate(shape.links) if link.label},
        bends={
            str(at): [value for point in each for value in point] for at, each in enumerate(bends) if each
        },
    )


def _frames(shape: Shape, geometry: Layout | None) -> list[Document]:
    nowhere = None, None, None, None
    places = [nowhere] * len(shape.frames) if geometry is None else geometry.frames
    return [
        GraphFrame.of(
            place=frame.place,
            title=frame.title,
            elements=list(frame.elements),
            x=x,
            y=y,
            width=wide,
            height=high,
        )
        for frame, (x, y, wide, high) in zip(shape.frames, places, strict=True)
    ]


def read_document(document: Document) -> tuple[Shape, Layout]:
    """The shape and layout in a document that has a layout: what `svg` draws."""
    boxes, joints, links, sizes = (document[name] for name in ("boxes", "junctions", "links", "box"))
    ids, tasks, is_open = document["steps"]["ids"], document["tasks"], set(document["open"])
    maps, blocks = set(boxes["maps"]), {each["box"]: each for each in document["blocks"]}
    shape = Shape(
        tuple(
            Box(
                key,
                boxes["titles"].get(str(at)) or _title(tasks[boxes["tasks"][at]], ids, steps),
                tasks[boxes["tasks"][at]],
                at in maps,
                tuple(steps),
                key in is_open,
                tuple(ids[each - 1] for each in steps[:MEMBERS_SHOWN]) if key in is_open else (),
                boxes["inside"].get(str(at), ""),
            )
            for at, (key, steps) in enumerate(zip(boxes["keys"], boxes["steps"], strict=True))
        ),
        joints["count"],
        tuple(
            Link(source, target, links["labels"].get(str(at), ""))
            for at, (source, target) in enumerate(zip(links["sources"], links["targets"], strict=True))
        ),
        tuple(
            DrawingFrame(each["place"], each["title"], tuple(each["elements"])) for each in document["frames"]
        ),
    )
    places = [*zip(boxes["x"], boxes["y"], strict=True), *zip(joints["x"], joints["y"], strict=True)]
    bends = (links["bends"].get(str(at), ()) for at in range(len(shape.links)))
    return shape, Layout(
        document["width"],
        document["height"],
        places,
        [
            *(
                (blocks.get(at, sizes)["width"], blocks.get(at, sizes)["height"])
                for at in range(len(shape.boxes))
            ),
            *[(joints["width"], joints["height"])] * joints["count"],
        ],
        [tuple(zip(each[::2], each[1::2], strict=True)) for each in bends],
        document["direction"] == DOWN,
        [(each["x"], each["y"], each["width"], each["height"]) for each in document["frames"]],
    )


def _title(task: str, ids: Sequence[str], steps: Sequence[int]) -> str:
    return task if len(steps) > 1 else ids[steps[0] - 1]
