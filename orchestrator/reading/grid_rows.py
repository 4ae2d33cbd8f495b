"""The rows of a grid: steps, or classes of steps that look the same, of all shown versions (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.step_classes import SHOWN_SINGLY
from pipeweave.suggestions import did_you_mean

ALL, PATTERN = "all", "pattern"


@dataclass(frozen=True, slots=True)
class GridRow:
    """One row.

    Args:
        key: the id of its step, or the key of its class.
        members: the ids of its steps.
        is_in_newest: whether the newest version has one of them.
        is_open: whether it is a class whose members follow as rows of their own.
        class_key: the key of the open class that it is a member of.
    """

    key: str
    task: str
    is_map: bool
    members: tuple[str, ...]
    is_in_newest: bool
    is_open: bool = False
    class_key: str | None = None


def view_of(newest: Plan, asked: str | None) -> str:
    """The view that was asked for; else the one that fits the size of the pipeline, as in its graph."""
    return asked or (ALL if len(newest.steps) <= SHOWN_SINGLY else PATTERN)


def rows(newest: Plan, plans: Mapping[int, Plan], view: str, opened: Collection[str] = ()) -> list[GridRow]:
    """The rows of the newest version in its order, then those that only other versions have.

    Args:
        plans: version -> plan, of the runs that are shown.
        opened: keys of the classes whose members have rows, too.
    """
    others = (plans[version] for version in sorted(plans, reverse=True))
    # A step belongs to the class that it has in the newest version that has it.
    classes: dict[str, dict[str, Plan]] = {}
    seen: set[str] = set()
    for plan in (newest, *(each for each in others if each is not newest)):
        for key, members in _classes(plan, view).items():
            added = [step for step in members if step not in seen]
            if added:
                seen.update(added)
                classes.setdefault(key, {}).update(dict.fromkeys(added, plan))
    return [
        row for key, members in classes.items() for row in _rows(key, members, newest, is_open=key in opened)
    ]


def _classes(plan: Plan, view: str) -> dict[str, list[str]]:
    if view == ALL:
        return {each.id: [each.id] for each in plan.steps}
    names = [each.id for each in plan.steps]
    return {key: [names[each - 1] for each in members] for key, members in plan.classes.items()}


def _rows(key: str, members: Mapping[str, Plan], newest: Plan, *, is_open: bool) -> Iterator[GridRow]:
    is_class = len(members) > 1
    if is_class:
        first, plan = next(iter(members.items()))
        step = plan[plan.ordinals[first]].step
        is_known = not newest.ordinals.keys().isdisjoint(members)
        yield GridRow(key, step.task, step.has_items, tuple(members), is_known, is_open)
    if is_open or not is_class:
        for name, plan in members.items():
            step = plan[plan.ordinals[name]].step
            parent = key if is_class else None
            is_known = name in newest.ordinals
            yield GridRow(name, step.task, step.has_items, (name,), is_known, class_key=parent)


def begin(rows: Sequence[GridRow], key: str | None) -> int:
    """The place of the first row that is shown.

    Raises:
        InvalidInput: no row has this key.
    """
    if key is None:
        return 0
    keys = [each.key for each in rows]
    if key not in keys:
        raise InvalidInput(
            f"no shown version has a step {key[:200]!r}",
            errors=[FieldError("fromStep", "is not a step of a shown version", "unknown_step")],
            hint=did_you_mean(key, keys, "leave it out for the first step"),
        )
    return keys.index(key)
