"""Say which params of a step are secrets, for tasks of services that get them apart from their input."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.spec.expressions import Expression
from pipeweave.spec.expressions.tree import Path
from pipeweave.spec.parameter_checks import ParameterError
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.spec.reference_syntax import parse
from pipeweave.spec.references import compile_value

# The code of an error of a param whose secret could not be given to its task.
_CODE = "secret_not_private"


@dataclass(frozen=True, slots=True)
class SplitSecrets:
    """The params that name secrets.

    Args:
        whole: parameter -> name of the secret that is its value.
        mixed: the parameters that hold a secret and more.
    """

    whole: Mapping[str, str]
    mixed: tuple[str, ...]


def split_secrets(params: Mapping[str, Any] | None) -> SplitSecrets:
    """Find the params that are secrets, and those that hold some."""
    whole: dict[str, str] = {}
    mixed: list[str] = []
    for parameter, value in (params or {}).items():
        name = _whole_secret(value)
        if name is not None:
            whole[parameter] = name
        elif any(each.root == "secret" for each in compile_value(value).references):
            mixed.append(parameter)
    return SplitSecrets(whole, tuple(mixed))


def tasks_with_secrets(spec: PipelineSpec) -> set[str]:
    """The tasks to which params give secrets."""
    return {step.task for _, step in spec.all_steps if step.has_task and _names_any(step.params)}


def secret_errors(
    spec: PipelineSpec, remote: Collection[str], exposed: Mapping[str, str]
) -> Iterator[ParameterError]:
    """The params whose secrets could not be given to their tasks.

    Args:
        remote: the tasks of HTTP services.
        exposed: task -> a URL of its service that is neither https nor on this machine.
    """
    for place, step in spec.all_steps:
        if not step.has_task or step.task not in remote:
            continue
        split = split_secrets(step.params)
        for each in split.mixed:
            message = "holds more than a secret: a task of an HTTP service takes ${secret.NAME} alone"
            yield ParameterError(f"{place}.params.{each}", message, _CODE, step.id)
        if step.task in exposed:
            for each in split.whole:
                message = f"is a secret, and {exposed[step.task]} is neither https nor loopback"
                yield ParameterError(f"{place}.params.{each}", message, _CODE, step.id)


def _names_any(params: Mapping[str, Any] | None) -> bool:
    return any(each.root == "secret" for each in compile_value(params).references)


def _whole_secret(value: Any) -> str | None:
    parts = parse(value) if isinstance(value, str) and "${" in value else ()
    if len(parts) != 1 or not isinstance(parts[0], Expression):
        return None
    tree = parts[0].tree
    return str(tree.path[0]) if isinstance(tree, Path) and tree.root == "secret" and tree.path else None
