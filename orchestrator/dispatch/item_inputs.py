"""Says what the input of an item of a map holds (pure): the item under its name, and what comes beside it.

A Celery worker gets item, params and input of the run apart. An HTTP worker reads one value. Which parameter
takes the item is the step's to say (`as`); else it is the first that the task has registered and the params
do not supply, as in a Celery worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.spec import StepSpec

# The name of an item beside params, where nothing says another.
ITEM = "item"


def item_name(step: StepSpec, parameters: Sequence[str] | None) -> str | None:
    """The member of the input that is the item; None when the item itself is the input.

    Args:
        step: a map.
        parameters: of the task, in their order; None when it has registered none.
    """
    if step.item_name is not None:
        return step.item_name
    arguments = step.params or {}
    free = next((each for each in parameters or () if each not in arguments), None)
    return free or (ITEM if arguments else None)


def item_input(
    item: Any,
    name: str | None,
    *,
    params: Mapping[str, Any] | None,
    run_input: Any,
    parameters: Sequence[str] | None,
) -> Any:
    """The input of an item.

    Args:
        name: what `item_name` says.
        params: of the step, resolved; None when it has none. Then members of the run's input that the task
            has registered as parameters come beside the item.
    """
    if name is None:
        return item
    if params is not None:
        return {**params, name: item}
    known = run_input if isinstance(run_input, Mapping) else {}
    return {**{each: known[each] for each in parameters or () if each in known}, name: item}
