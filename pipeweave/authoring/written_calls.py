"""Write what runs when a step fails, or a run ends, as a pipeline document has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.authoring.written_values import condition_text, template
from pipeweave.errors import InvalidSpec


def written_call(value: Any, path: str) -> Any:
    """The document of what runs: a pipeline, its id, or a mapping with `pipeline` and `params`, whose texts
    are templates.

    Args:
        path: the field of the value, for errors.

    Raises:
        InvalidSpec: it is none of these.
    """
    if isinstance(value, Mapping):
        members = {key: each for key, each in value.items() if key not in ("pipeline", "condition")}
        shown = template(members, path)
        if "pipeline" in value:
            shown["pipeline"] = _id_of(value["pipeline"], f"{path}.pipeline")
        if value.get("condition") is not None:
            shown["condition"] = condition_text(value["condition"], f"{path}.condition")
        return shown
    return {"pipeline": _id_of(value, path)}


def _id_of(value: Any, path: str) -> Any:
    if isinstance(value, (str, Mapping)):
        return value
    id = getattr(value, "id", None)
    # Of the class: the tasks of a pipeline are known once it is drawn, which may be later.
    if not isinstance(id, str) or not hasattr(type(value), "tasks"):
        hint = 'write on_error=tell, or on_error={"pipeline": tell, "params": {"why": "${error.message}"}}'
        raise InvalidSpec(f"{path} must be a pipeline or its id, not {value!r}"[:300], hint=hint)
    return id


def written_rules_for_errors(values: Sequence[Any], path: str) -> list[Any]:
    """The document of `error_handlers`. Raises InvalidSpec like `written_call`."""
    return [written_call(each, f"{path}[{place}]") for place, each in enumerate(values)]
