"""Draw the steps that the engine decides and that do not wait: choices, settled blocks and transforms.

Nothing here runs while a pipeline is drawn: a block after `with when(…):` is drawn in any case, and a run
takes it or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, NoReturn, TypeVar, Unpack, cast

from pipeweave.authoring.graph_builder import GraphBuilder, open_builder
from pipeweave.authoring.rules_of_steps import NeedsAndRules, split
from pipeweave.authoring.written_values import condition_text, template
from pipeweave.errors import InvalidSpec

T = TypeVar("T")


class Branch:
    """A block of steps that a run takes or not; `with when(…) as chosen:` gives the result of the choice: the
    name of the case that was taken, or its place.
    """

    def __init__(self, builder: GraphBuilder, shown: str) -> None:
        self._builder = builder
        self._shown = shown
        self._choice: dict[str, Any] = {}
        builder.blocks.expect(self, shown)

    def __enter__(self) -> Any:
        self._builder.blocks.came(self)
        self._choice = self._begin()
        self._builder.blocks.open_case(self._choice)
        return self._builder.result(self._choice["id"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._builder.blocks.close_case(self._choice)

    def __bool__(self) -> NoReturn:
        raise InvalidSpec(f"{self._shown} is no truth value", hint=f"write `with {self._shown}:`")

    def _begin(self) -> dict[str, Any]:
        """Add the case, and give its choice."""
        raise NotImplementedError


class _First(Branch):
    def __init__(
        self, builder: GraphBuilder, case: dict[str, Any], step_id: str | None, needs: Iterable[Any]
    ) -> None:
        super().__init__(builder, "when(…)")
        self._case = case
        self._step_id = step_id
        self._needs = needs

    def _begin(self) -> dict[str, Any]:
        members = {"choice": [self._case]}
        self._builder.add("choice", members, step_id=self._step_id, needs=self._needs)
        return self._builder.steps[-1]


class _Next(Branch):
    def __init__(self, builder: GraphBuilder, case: dict[str, Any]) -> None:
        super().__init__(builder, "otherwise(…)" if "condition" in case else "otherwise()")
        self._case = case

    def _begin(self) -> dict[str, Any]:
        choice = self._builder.blocks.choice
        if choice is None:
            raise InvalidSpec(
                "otherwise follows no when: its block must come right after that of a when or otherwise(…)",
                hint="draw the steps between them before, or behind both",
            )
        if "condition" not in choice["choice"][-1]:
            raise InvalidSpec("otherwise follows otherwise(): nothing is left for it")
        choice["choice"].append(self._case)
        return choice


def when(
    condition: Any, *, name: str | None = None, step_id: str | None = None, needs: Iterable[Any] = ()
) -> Branch:
    """Draw a block that a run takes if a condition is true: `with when(order["total"] > 1000):`.

    Blocks of `otherwise` may follow right behind it: a run takes the first one of them whose condition is
    true. A step of a block that was not taken is skipped; whoever uses its result, gets null.

    Args:
        condition: a comparison of results or parameters of the pipeline, or an expression as a text.
        name: of the case, for people.
        step_id: the id of the choice; `choice` by default.
        needs: results (or ids) of steps that must end before the choice is made.

    Raises:
        InvalidSpec: the condition is known while the pipeline is drawn, or no pipeline is drawn.
    """
    return _First(open_builder("when"), _case(condition, name, "when"), step_id, needs)


_NONE: Any = object()


def otherwise(condition: Any = _NONE, *, name: str | None = None) -> Branch:
    """Draw the block that a run takes if no condition before was true: `with otherwise():`; with a condition:
    if this one is true as well.

    Args:
        condition: as that of `when`; without it the block is the last one of the choice.
        name: of the case, for people.

    Raises:
        InvalidSpec: the block does not follow that of a `when`, or as `when`.
    """
    builder = open_builder("otherwise")
    if condition is not _NONE:
        return _Next(builder, _case(condition, name, "otherwise"))
    return _Next(builder, {**_named(name), "steps": []})


def _case(value: Any, name: str | None, where: str) -> dict[str, Any]:
    return {"condition": condition_text(value, where), **_named(name), "steps": []}


def _named(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"name": name}


class Settled:
    """A block of steps that all end, whatever happens; see `settle`."""

    def __init__(self, builder: GraphBuilder, step_id: str | None) -> None:
        self._builder = builder
        self._step_id = step_id

    def __enter__(self) -> Any:
        name = self._builder.name("gather", self._step_id)
        self._builder.blocks.open_settled(name)
        return self._builder.result(name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._builder.blocks.close_settled()


def settle(*, step_id: str | None = None) -> Settled:
    """Draw a block whose steps all end, whatever happens; then it fails if one of them failed.

    Example: `with settle() as everywhere:`. The result is an object: the output of each step of the block, by
    the steps' ids. Who uses it runs after the whole block.

    Args:
        step_id: the id of the step behind the block; `gather` by default.

    Raises:
        InvalidSpec: it stands in another such block, or no pipeline is drawn.
    """
    return Settled(open_builder("settle"), step_id)


def transform(value: T, *, fail_if: Iterable[tuple[Any, str, str]] = (), **rules: Unpack[NeedsAndRules]) -> T:
    """Draw a step that completes with a value made of others, without a worker.

    Args:
        value: JSON, with results, parameters, and what is calculated with them; its texts are templates:
            `{"total": lines["sum"] * 1.2, "title": "order ${input.order.id}"}`.
        fail_if: conditions that fail the step, each with an error code and a message, which is a template.
        rules: see `Rules`; and `needs`.

    Raises:
        InvalidSpec: an argument is invalid, or no pipeline is drawn.
    """
    builder = open_builder("transform")
    place, members = split(rules, "transform")
    failures = [
        {"condition": condition_text(each, "fail_if"), "code": code, "message": message}
        for each, code, message in fail_if
    ]
    written = {"output": template(value, "value"), "failIf": failures}
    return cast(T, builder.add("transform", {"transform": written, **members}, **place))
