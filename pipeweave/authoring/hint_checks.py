"""Check the type hints of tasks before the first call: a wrong hint would fail every attempt of its task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeweave.authoring.calling import call_plan
from pipeweave.errors import FieldError, InvalidTask


def check_hints(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Build what checks the parameters of these functions.

    pydantic is imported if a hint is more than str, int, float, bool, list or dict.

    Args:
        functions: the functions of tasks by task id.

    Raises:
        InvalidTask: with one FieldError for each hint that cannot be read or checked.
    """
    errors = [each for task_id, fn in functions.items() for each in _mistakes(task_id, fn)]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidTask(
            f"{errors[0].field}: {errors[0].message}{more}",
            errors=errors,
            hint="use JSON types, dataclasses, TypedDicts, pydantic models, or Any",
        )


def _mistakes(task_id: str, fn: Callable[..., Any]) -> Iterator[FieldError]:
    try:
        plan = call_plan(fn)
    except InvalidTask as error:
        yield FieldError(f"task {task_id!r}", f"{error.detail} ({_place(fn)})", "invalid_signature")
        return
    for each in plan.parameters:
        # A plain type is right, and pydantic is not needed to know that.
        if each.validate is not None and each.plain_type is None:
            try:
                each.validate.build()
            except InvalidTask as error:
                where = f"task {task_id!r}, parameter {each.name!r}"
                yield FieldError(where, f"{error.errors[0].message} ({_place(fn)})", "invalid_hint")


def _place(fn: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)
