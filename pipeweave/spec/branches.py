"""Say which branch of a choice each step is in, and which edges a reference across branches needs. Pure.

A step is in a branch if it is reached only through that branch: it is one of the branch's first steps, or all
its predecessors are in the branch. The branches of a choice exclude each other. An edge into a branch from
outside would let the step run though the branch was not taken, so what a branch refers to precedes its choice
instead. An edge out of a branch is not taken if the branch was not taken, so who refers into it follows the
choice, too, whose edge to it always is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeweave.spec.edges import successors_of, topological_order

# The cases by which a step may be reached, by the id of their choice; outer choices first.
Membership = Mapping[str, frozenset[int]]
Edge = tuple[str, str]


class Unreachable(Exception):
    """A step refers to one whose value it can never have. Never leaves `pipeweave.spec`.

    Args:
        why: for people, with a hint.
        code: of the mistake.
    """

    def __init__(self, why: str, code: str) -> None:
        super().__init__(why)
        self.why = why
        self.code = code


@dataclass(frozen=True)
class Branches:
    """The branches of a pipeline.

    Args:
        needs: the predecessors of each step as they are written, before any reference adds one.
        cases: the first steps of each case of each choice.
        always: steps that run whichever of their predecessors chose them.
    """

    needs: Mapping[str, Collection[str]]
    cases: Mapping[str, Sequence[Collection[str]]]
    always: Collection[str] = ()

    @cached_property
    def _predecessors(self) -> dict[str, tuple[str, ...]]:
        return {
            step: tuple(each for each in needs if each in self.needs) for step, needs in self.needs.items()
        }

    @cached_property
    def _successors(self) -> dict[str, tuple[str, ...]]:
        return successors_of(self._predecessors)

    @cached_property
    def _order(self) -> tuple[str, ...]:
        return topological_order(self._predecessors, self._successors)

    @property
    def has_cycle(self) -> bool:
        """Whether some steps wait for each other."""
        return len(self._order) < len(self.needs)

    @cached_property
    def of(self) -> Mapping[str, Membership]:
        """The branches that each step is in; none for a step on a cycle."""
        members: dict[str, Membership] = {step: {} for step in self.needs}
        for step in self._order:
            if step not in self.always:
                members[step] = _common(
                    [self._through(each, step, members) for each in self._predecessors[step]]
                )
        return members

    def _through(self, before: str, step: str, members: Mapping[str, Membership]) -> Membership:
        """The branches that an edge lies in."""
        cases = frozenset(at for at, first in enumerate(self.cases.get(before, ())) if step in first)
        return {**members[before], before: cases} if cases else members[before]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {step: place for place, step in enumerate(self._order)}

    @cached_property
    def _behind(self) -> dict[str, int]:
        """The steps behind each step, as the bits of a number: by their places in the order."""
        behind: dict[str, int] = {}
        for step in reversed(self._order):
            bits = 0
            for each in self._successors[step]:
                if each in behind:
                    bits |= behind[each] | 1 << self._place[each]
            behind[step] = bits
        return behind

    def is_before(self, first: str, second: str) -> bool:
        """Whether a path leads from one step to another one; false for steps on a cycle."""
        if first not in self._place or second not in self._place:
            return False
        return bool(self._behind[first] >> self._place[second] & 1)

    def edges(self, reader: str, target: str, *, is_status: bool = False) -> Iterator[Edge]:
        """The edges, each from a step to its successor, that a reference needs.

        Args:
            reader: the step that refers to another one.
            target: that one.
            is_status: only its status is read, which a step that cannot run has, too.

        Raises:
            Unreachable: the reader can never have the value.
        """
        inside, around = self.of[reader], self.of[target]
        for choice, cases in inside.items():
            if choice not in around:
                yield from self._before(choice, target, reader)
                return
            if not around[choice] <= cases:
                if is_status and around[choice].isdisjoint(cases):
                    return
                raise Unreachable(*_excluded(reader, target, choice, around[choice].isdisjoint(cases)))
        yield target, reader
        entered = next((each for each in around if each not in inside), None)
        if entered is not None and entered != reader:
            yield entered, reader

    def _before(self, choice: str, target: str, reader: str) -> Iterator[Edge]:
        """The edges for a step in a branch that refers to one outside of it."""
        if target == choice or self.is_before(target, choice):
            return
        if self.is_before(choice, target):
            raise Unreachable(
                f"{target!r} comes after choice {choice!r}, but outside of the branch that {reader!r} is in: "
                f"a branch reads what comes before its choice",
                "later_step",
            )
        yield from self.edges(choice, target)


def _common(memberships: Sequence[Membership]) -> Membership:
    if not memberships:
        return {}
    first, *others = memberships
    return {
        choice: frozenset().union(cases, *(each[choice] for each in others))
        for choice, cases in first.items()
        if all(choice in each for each in others)
    }


def _excluded(reader: str, target: str, choice: str, is_excluded: bool) -> tuple[str, str]:
    if is_excluded:
        why = (
            f"{target!r} is in another branch of choice {choice!r} than {reader!r}, so only one of them "
            f"runs: only status.{target} can be read here"
        )
        return why, "excluded_step"
    why = (
        f"{target!r} runs in more branches of choice {choice!r} than {reader!r}: "
        f"let both stand in the same ones"
    )
    return why, "excluded_step"
