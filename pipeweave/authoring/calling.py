"""Bind the arguments of a task's function, check them against its type hints, and read its result.

A function's signature is read once; each call then costs a few dictionary look-ups. pydantic is imported when
the first value needs it: a value whose type is exactly the hinted str, int, float, bool, list or dict does
not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from pipeweave.authoring.context import Context, TaskResult
from pipeweave.authoring.signatures import MISSING, FunctionSignature, Parameter, read_signature
from pipeweave.authoring.suspend import Suspend, read_literal
from pipeweave.errors import FieldError, InvalidAsyncResult, InvalidParams, InvalidResult
from pipeweave.json_conversion import JSON_HINT, LEFT_TO_CONVERSION, to_json_value
from pipeweave.json_values import json_faults, write_json
from pipeweave.size_limits import MAX_JSON_DEPTH, MAX_OUTPUT_BYTES
from pipeweave.suggestions import did_you_mean

_MOST_ERRORS = 50
# An error of the parameters names this many of them in its message.
_SAID_ERRORS = 5
# Names under which Celery's users expect the context without a type hint.
_CONTEXT_NAMES = ("ctx", "context", "self")
_LOOKED_AT = 32  # members of an output that are looked at before it is written


@lru_cache(maxsize=8192)
def call_plan(fn: Callable[..., Any]) -> FunctionSignature:
    """The parameters of a function, which `bind` fills; cached per function.

    Raises:
        InvalidTask: the function cannot be called with its parameters by name, or a type hint cannot be read.
    """
    return read_signature(fn)


def bind(fn: Callable[..., Any], ctx: Context) -> dict[str, Any]:
    """Build the arguments to call a function with, by parameter name.

    The values come from the step's params, or from the run's input if the step has no params. The item of a
    map fills the parameter that the step names, or the first parameter that the params do not supply. A
    parameter annotated `Context` gets the context. A parameter named `input` that gets no value otherwise
    gets the whole input. Every value is validated against its type hint.

    Raises:
        InvalidParams: with one FieldError per wrong field.
    """
    plan = call_plan(fn)
    is_named = bool(ctx.params) or ctx.map_name is not None
    if plan.is_empty and not is_named:
        return {}
    arguments: dict[str, Any] = {plan.context: ctx} if plan.context is not None else {}
    if plan.parameters or plan.takes_any or is_named:
        _fill(plan, ctx, arguments)
    return arguments


def _fill(plan: FunctionSignature, ctx: Context, arguments: dict[str, Any]) -> None:
    supplied = _supplied(plan, ctx)
    errors: list[FieldError] = []
    for parameter in plan.parameters:
        value = supplied.get(parameter.name, MISSING)
        if value is MISSING and parameter.name == "input":
            value = ctx.input
        if value is not MISSING:
            arguments[parameter.name] = _checked(parameter, value, errors)
        elif parameter.is_required:
            errors.append(_missing(parameter, ctx))
    if plan.takes_any:
        arguments.update((key, supplied[key]) for key in supplied.keys() - plan.names)
    else:
        errors += _unknown(plan, ctx)
    if errors:
        raise _refusal(errors, ctx)


def _supplied(plan: FunctionSignature, ctx: Context) -> Mapping[str, Any]:
    """Values by parameter name, including the item of a map."""
    source = ctx.params if ctx.params is not None else ctx.input
    supplied: Mapping[str, Any] = source if isinstance(source, Mapping) else {}
    if ctx.map_index is None:
        return supplied
    name = _item_name(plan, ctx)
    return supplied if name is None else {**supplied, name: ctx.item}


def _item_name(plan: FunctionSignature, ctx: Context) -> str | None:
    """The parameter that takes the item of a map."""
    arguments = ctx.params or {}
    return ctx.map_name or next((each.name for each in plan.parameters if each.name not in arguments), None)


def idempotency_input(fn: Callable[..., Any], ctx: Context) -> Any:
    """The value that a task's idempotency_key function gets.

    Outside a map this is `ctx.input`. In a map it is an object that also holds the item, under the name of
    the parameter that takes it, or under `item` if no parameter takes it.
    """
    if ctx.map_index is None:
        return ctx.input
    plan = call_plan(fn)
    return {**_supplied(plan, ctx), _item_name(plan, ctx) or "item": ctx.item}


def inputs_read(fn: Callable[..., Any], ctx: Context) -> Any:
    """Every value that a function can read: those of its parameters; the whole input if it takes that; and,
    if it takes the context, the outputs of the steps before it, too.
    """
    plan = call_plan(fn)
    if plan.context is not None:
        return [idempotency_input(fn, ctx), dict(ctx.upstream)]
    if plan.takes_any or "input" in plan.names:
        return idempotency_input(fn, ctx)
    return {name: value for name, value in _supplied(plan, ctx).items() if name in plan.names}


def _checked(parameter: Parameter, value: Any, errors: list[FieldError]) -> Any:
    if parameter.plain_type is not None and type(value) is parameter.plain_type:
        return value
    if parameter.validate is None:
        return value
    value, wrong = parameter.validate(value)
    errors += wrong
    return value


def _missing(parameter: Parameter, ctx: Context) -> FieldError:
    where = "the run's input does" if ctx.params is None else "the step's params do"
    if parameter.name in _CONTEXT_NAMES:
        return FieldError(
            parameter.name,
            f"is required, and {where} not hold it; to receive the context, annotate it: "
            f"`{parameter.name}: Context`",
            "missing",
        )
    return FieldError(parameter.name, f"is required, and {where} not hold it", "missing")


def _unknown(plan: FunctionSignature, ctx: Context) -> list[FieldError]:
    """List params of the step that the function does not take. The run's input may have any members."""
    names = [*(ctx.params or ()), *([ctx.map_name] if ctx.map_name is not None else ())]
    known = [each.name for each in plan.parameters]
    errors: list[FieldError] = []
    for name in names:
        if name not in plan.names or name == plan.context:
            hint = did_you_mean(name, known, f"the task takes {', '.join(known) or 'none'}")
            errors.append(FieldError(name, f"is not a parameter of the task; {hint}", "unknown_parameter"))
    return errors


def _refusal(errors: list[FieldError], ctx: Context) -> InvalidParams:
    said = [f"{each.field} {each.message}" for each in errors[:_SAID_ERRORS]]
    if len(errors) > _SAID_ERRORS:
        said.append(f"and {len(errors) - _SAID_ERRORS} more")
    prefix = f"task {ctx.task_id!r}: " if ctx.task_id else ""
    return InvalidParams(f"{prefix}{'; '.join(said)}", errors=errors[:_MOST_ERRORS])


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call.

    Args:
        output: the task's output, a JSON value.
        run_next: ids of the successors that the task chose; None for all.
        encoded: the output as JSON text (UTF-8).
        assets: the values of the assets that the task has added, by key: in `pipeweave.testing` alone.
        suspend: what the call waits for; None when the output is its result.
    """

    output: Any
    run_next: tuple[str, ...] | None
    encoded: bytes
    assets: Mapping[str, Any] | None = None
    suspend: Suspend | None = None


def outcome_of(result: Any, *, takes_pending: bool = False) -> CallResult:
    """Read the return value of a task: a TaskResult, a Suspend, or a plain value, which is the output.

    Args:
        takes_pending: whether a dict `{"status": "pending", …}` suspends the call.

    Raises:
        InvalidResult: the output cannot be converted to JSON, or `run_next` is not a list of step ids.
        InvalidAsyncResult: the call suspends itself and does not say how, or chooses successors at once.
    """
    suspend = _suspend(result, takes_pending=takes_pending)
    if suspend is not None:
        return CallResult(None, None, b"null", suspend=suspend)
    if isinstance(result, TaskResult):
        run_next = _run_next(result.run_next)
        output, encoded = encode(result.output)
        return CallResult(output, run_next, encoded)
    output, encoded = encode(result)
    return CallResult(output, None, encoded)


def _suspend(result: Any, *, takes_pending: bool) -> Suspend | None:
    output = result.output if isinstance(result, TaskResult) else result
    suspend = output if isinstance(output, Suspend) else None
    if suspend is None and takes_pending:
        suspend = read_literal(output)
    if suspend is not None and isinstance(result, TaskResult) and result.run_next is not None:
        raise InvalidAsyncResult(
            "a call that suspends itself has no output yet, so it cannot choose what runs next",
            hint="let the next steps have a condition over what comes",
        )
    return suspend


def encode(output: Any) -> tuple[Any, bytes]:
    """Convert an output to JSON, and write it.

    An output that is JSON already is returned as it is, without a walk through it; of the types that
    `pipeweave.json_conversion` knows, UUIDs and members of enums are then left to be written by orjson.

    Raises:
        InvalidResult: the output is not JSON, and each FieldError names a place in it; or it is too large.
    """
    if output is None:
        return None, b"null"
    # orjson does not survive texts of gigabytes.
    for each in _first_members(output):
        if type(each) is str and len(each) > MAX_OUTPUT_BYTES:
            raise _too_large("has a text of more than")
    try:
        encoded = write_json(output, LEFT_TO_CONVERSION)
    except (TypeError, ValueError, RecursionError) as error:
        return _converted(output, str(error))
    _check_size(encoded)
    # orjson writes NaN and infinities as null, and U+0000 as an escape sequence that PostgreSQL refuses.
    if (b"null" in encoded or b"\\u0000" in encoded) and (faults := _faults(output)):
        raise _not_json(faults, "it is not JSON")
    return output, encoded


def _converted(output: Any, reason: str) -> tuple[Any, bytes]:
    """Convert an output that orjson refused."""
    try:
        converted, faults = to_json_value(output, "output")
    except Exception as error:  # an object's own code, e.g. a serializer of a model
        raise _not_json([], f"{type(error).__name__}: {error}") from error
    if faults:
        raise _not_json(faults, reason)
    try:
        encoded = write_json(converted, LEFT_TO_CONVERSION)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_json([], str(error)) from None
    _check_size(encoded)
    return converted, encoded


def _first_members(output: Any) -> Iterable[Any]:
    """The output itself, or the first members of a list or dict."""
    match output:
        case dict():
            return islice(output.values(), _LOOKED_AT)
        case list() | tuple():
            return islice(output, _LOOKED_AT)
        case _:
            return (output,)


def _check_size(encoded: bytes) -> None:
    if len(encoded) > MAX_OUTPUT_BYTES:
        raise _too_large(f"has {len(encoded)} bytes, more than")


def _too_large(size: str) -> InvalidResult:
    return InvalidResult(
        f"the output {size} the {MAX_OUTPUT_BYTES} bytes that an output may have",
        errors=[FieldError("output", "is too large", "too_large")],
        hint="store it where the next steps can read it, and return its place",
    )


def _faults(output: Any) -> list[FieldError]:
    return json_faults(output, "output", max_depth=MAX_JSON_DEPTH, takes_natives=True)


def _not_json(faults: list[FieldError], reason: str) -> InvalidResult:
    if not faults:
        return InvalidResult(f"the output cannot be written as JSON: {reason}", hint=JSON_HINT)
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    hint = first.expected or JSON_HINT
    return InvalidResult(f"{first.field} {first.message}{more}", errors=faults, hint=hint)


def _run_next(chosen: Any) -> tuple[str, ...] | None:
    if chosen is None:
        return None
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
        raise _bad_choice(chosen)
    names = tuple(chosen)
    if not all(isinstance(each, str) for each in names):
        raise _bad_choice(chosen)
    return names


def _bad_choice(chosen: Any) -> InvalidResult:
    return InvalidResult(
        f"run_next must be a list of step ids, not {chosen!r}"[:500],
        errors=[FieldError("run_next", "must be a list of step ids", "invalid_type", "array")],
    )
