"""Keep where the steps of a `@pipeline` function stand: in branches of choices, in settled blocks, in bodies.

The document has a branch as the steps of a case. There a step without predecessors in the branch follows the
choice, so each step names those that it has in its branch: edges come from data and `needs` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipeweave.errors import InvalidSpec
from pipeweave.spec.document_expressions import step_of
from pipeweave.spec.expressions import BadExpression, Path, parse_condition
from pipeweave.spec.reference_syntax import BadReference, parse
from pipeweave.spec.references import texts_in

# The branches around a step, outermost first, each as the id of the choice and the place of the case.
Branches = tuple[tuple[str, int], ...]
# The members of a step that hold expressions as conditions.
_CONDITION = "condition"
# The members whose templates make no edges here: conditions are read apart, and a compensation when all
# steps have ended.
_READ_ELSEWHERE = (_CONDITION, "choice", "compensate")


@dataclass(slots=True)
class _Block:
    """A list of steps that is being drawn.

    Args:
        steps: those of the document.
        branches: around them.
        is_settled: whether it is a settled block itself.
        is_body: whether it is a body itself.
        choice: the choice that was drawn last, if no step came after it.
    """

    steps: list[dict[str, Any]]
    branches: Branches = ()
    is_settled: bool = False
    is_body: bool = False
    choice: dict[str, Any] | None = None


class Blocks:
    """The blocks of one pipeline.

    Attributes:
        branches_of: the branches around each step, by its id.
    """

    def __init__(self) -> None:
        self.branches_of: dict[str, Branches] = {}
        self._steps: list[dict[str, Any]] = []
        self._open = [_Block([])]
        self._undrawn: list[tuple[object, str]] = []
        self._in_bodies: set[str] = set()

    def add(self, step: dict[str, Any]) -> None:
        """Put a step into the innermost block."""
        block = self._open[-1]
        block.steps.append(step)
        block.choice = None
        self._steps.append(step)
        self.branches_of[step["id"]] = block.branches
        if any(each.is_body for each in self._open):
            self._in_bodies.add(step["id"])

    def may_be_left_out(self, step_id: str) -> bool:
        """Whether a step stands in a branch, or in a body, which may run for nothing."""
        return bool(self.branches_of[step_id]) or step_id in self._in_bodies

    @property
    def choice(self) -> dict[str, Any] | None:
        """The choice that the innermost block has just drawn; None after any other step."""
        return self._open[-1].choice

    def open_case(self, choice: dict[str, Any]) -> None:
        """Draw into the last case of a choice."""
        around = self._open[-1].branches
        branches = (*around, (choice["id"], len(choice["choice"]) - 1))
        self._open.append(_Block(choice["choice"][-1]["steps"], branches))

    def close_case(self, choice: dict[str, Any]) -> None:
        """Go on behind a case."""
        self._open.pop()
        self._open[-1].choice = choice

    def open_settled(self, step_id: str) -> None:
        """Draw into a settled block. Raises InvalidSpec in another one."""
        outer = self._open[-1]
        if outer.is_settled:
            raise InvalidSpec(
                "settle() stands in another settle(): every member of the outer one is settled anyway",
                hint="draw the steps of the inner block in the outer one",
            )
        members: list[dict[str, Any]] = []
        outer.steps.append({"id": step_id, "parallel": {"failure": "settle", "steps": members}})
        outer.choice = None
        self.branches_of[step_id] = outer.branches
        self._open.append(_Block(members, outer.branches, is_settled=True))

    def close_settled(self) -> None:
        """Go on behind a settled block."""
        self._open.pop()

    @contextmanager
    def body(self, steps: list[dict[str, Any]]) -> Iterator[None]:
        """Draw into a body: no branch around it is one of its steps'."""
        self._open.append(_Block(steps, is_body=True))
        try:
            yield
        finally:
            self._open.pop()

    def expect(self, branch: object, shown: str) -> None:
        """Note that a branch is to be drawn."""
        self._undrawn.append((branch, shown))

    def came(self, branch: object) -> None:
        """Note that a branch is being drawn."""
        self._undrawn = [each for each in self._undrawn if each[0] is not branch]

    def finished(self) -> list[dict[str, Any]]:
        """The steps of the document. Raises InvalidSpec if a branch was not drawn."""
        if self._undrawn:
            shown = self._undrawn[0][1]
            raise InvalidSpec(f"{shown} opens no branch", hint=f"write `with {shown}:`")
        for step in self._steps:
            branches = self.branches_of[step["id"]]
            if branches:
                step["needs"] += [each for each in self._inside(step, branches) if each not in step["needs"]]
        return self._open[0].steps

    def _inside(self, step: Mapping[str, Any], branches: Branches) -> Iterator[str]:
        """The steps in the same branch that a step refers to."""
        for each in dict.fromkeys(map(step_of, _paths(step))):
            if each is not None and self.branches_of.get(each, ())[: len(branches)] == branches:
                yield each


def _paths(step: Mapping[str, Any]) -> Iterator[Path]:
    """The paths in a step; what cannot be read is left to the reader of the document."""
    values = {key: each for key, each in step.items() if key not in _READ_ELSEWHERE}
    for _, text in texts_in(values, "", []):
        try:
            parts = parse(text)
        except BadReference:
            continue
        for part in parts:
            if not isinstance(part, str):
                yield from part.references
    for text in _conditions(step):
        try:
            yield from parse_condition(text).references
        except BadExpression:
            continue


def _conditions(step: Mapping[str, Any]) -> Iterator[str]:
    failures = step["transform"]["failIf"] if "transform" in step else ()
    for each in (step, *step.get("choice", ()), *failures):
        if _CONDITION in each:
            yield each[_CONDITION]
    if "until" in step.get("loop", ()):
        yield step["loop"]["until"]
    for each in _of_body(step):
        yield from _conditions(each)


def _of_body(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The steps of the body of a step: what they refer to, it refers to."""
    for key in ("map", "loop"):
        yield from _flat(step.get(key, {}).get("steps", ()))


def _flat(listed: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in listed:
        if "parallel" in each:
            yield from _flat(each["parallel"]["steps"])
            continue
        yield each
        for case in each.get("choice", ()):
            yield from _flat(case["steps"])
