"""Write what runs when a step fails, or a run ends, as a pipeline document has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.authoring.written_values import condition_text, template
from pipeweave.errors import InvalidSpec

_HINT = 'write on_error=tell, or on_error={"task": tell, "params": {"why": "${error.message}"}}'


def written_call(value: Any, path: str) -> Any:
    """The document of what runs: a pipeline, its id, a task, or a mapping with `pipeline` or `task`, and with
    `params`, whose texts are templates. A task is the one step of a body.

    Args:
        path: the field of the value, for errors.

    Raises:
        InvalidSpec: it is none of these.
    """
    if not isinstance(value, Mapping):
        return _body_of(value.id, {}) if _is_task(value) else {"pipeline": _id_of(value, path)}
    members = {key: each for key, each in value.items() if key not in ("pipeline", "task", "condition")}
    shown = template(members, path)
    if "pipeline" in value:
        shown["pipeline"] = _id_of(value["pipeline"], f"{path}.pipeline")
    if "task" in value:
        of_step = {"params": shown.pop("params")} if "params" in shown else {}
        shown |= _body_of(_id_of_task(value["task"], f"{path}.task"), of_step)
    if value.get("condition") is not None:
        shown["condition"] = condition_text(value["condition"], f"{path}.condition")
    return shown


def _body_of(task: str, members: Mapping[str, Any]) -> dict[str, Any]:
    return {"steps": [{"task": task, **members}]}


def _id_of_task(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    if not _is_task(value):
        raise InvalidSpec(f"{path} must be a task or its id, not {value!r}"[:300], hint=_HINT)
    return str(value.id)


# Pipelines and tasks are told apart by their classes: the attributes of a pipeline are known once it is
# drawn, which may be later.
def _is_task(value: Any) -> bool:
    return hasattr(type(value), "to_registration")


def _id_of(value: Any, path: str) -> Any:
    if isinstance(value, (str, Mapping)):
        return value
    id = getattr(value, "id", None)
    if not isinstance(id, str) or not hasattr(type(value), "tasks"):
        raise InvalidSpec(f"{path} must be a pipeline, its id or a task, not {value!r}"[:300], hint=_HINT)
    return id


def written_rules_for_errors(values: Sequence[Any], path: str) -> list[Any]:
    """The document of `error_handlers`. Raises InvalidSpec like `written_call`."""
    return [written_call(each, f"{path}[{place}]") for place, each in enumerate(values)]
