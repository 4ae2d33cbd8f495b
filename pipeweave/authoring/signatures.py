"""Read a function's signature: its parameters, and a validator for each type hint."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.authoring.context import Context
from pipeweave.errors import FieldError, InvalidTask


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_PLAIN: frozenset[Any] = frozenset({str, int, float, bool, list, dict})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a task's function that receives a value.

    Args:
        name: the parameter's name.
        is_required: true if it has no default.
        plain_type: a value of exactly this type needs no validation; None if every value needs it.
        validate: converts a value to the hinted type and lists its mistakes; None if there is no hint.
        is_keyword_only: true if it cannot be given by position.
        hint: the type hint; Any if there is none.
    """

    name: str
    is_required: bool
    plain_type: type | None = None
    validate: HintValidator | None = None
    is_keyword_only: bool = False
    hint: Any = Any


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A function's parameters.

    Args:
        parameters: the parameters that receive values, in order.
        context: the name of the parameter that receives the Context; None if there is none.
        needs_context: true if that parameter has no default.
        takes_any: true if the function has `**kwargs`.
        names: the names of all parameters, including the context's.
        is_empty: true if the function has no parameters and no `**kwargs`.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    needs_context: bool
    takes_any: bool
    names: frozenset[str]
    is_empty: bool


def read_signature(fn: Callable[..., Any]) -> FunctionSignature:
    """Read a function's parameters and their type hints.

    Raises:
        InvalidTask: it has positional-only parameters, two contexts, or a hint that cannot be read.
    """
    code = getattr(fn, "__code__", None)
    if (
        code is not None
        and not hasattr(fn, "__wrapped__")
        and not code.co_argcount
        and not code.co_kwonlyargcount
    ):
        takes_any = bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return FunctionSignature((), None, False, takes_any, frozenset(), not takes_any)
    return _read(fn)


def _read(fn: Callable[..., Any]) -> FunctionSignature:
    parameters: list[Parameter] = []
    context: inspect.Parameter | None = None
    takes_any = False
    hints = hints_of(fn)
    for name, each in _parameters(fn):
        if each.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InvalidTask(
                f"{_name(fn)}: parameter {name!r} is positional-only, but parameters are filled by name",
                errors=[FieldError(name, "must not be positional-only", "invalid_signature")],
            )
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif _is_context(hints.get(name)):
            if context is not None:
                raise InvalidTask(f"{_name(fn)}: both {context.name!r} and {name!r} are annotated Context")
            context = each
        else:
            parameters.append(_parameter(each, hints.get(name, MISSING)))
    names = frozenset(each.name for each in parameters) | ({context.name} if context else frozenset())
    return FunctionSignature(
        tuple(parameters),
        context.name if context else None,
        context is not None and context.default is inspect.Parameter.empty,
        takes_any,
        names,
        not names and not takes_any,
    )


def _parameters(fn: Callable[..., Any]) -> list[tuple[str, inspect.Parameter]]:
    try:
        return list(inspect.signature(fn).parameters.items())
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"{_name(fn)}: its signature cannot be read: {error}") from error


def _parameter(parameter: inspect.Parameter, hint: Any) -> Parameter:
    return Parameter(
        parameter.name,
        is_required=parameter.default is inspect.Parameter.empty,
        plain_type=hint if isinstance(hint, type) and hint in _PLAIN else None,
        validate=None if hint is MISSING or hint is Any else HintValidator(parameter.name, hint),
        is_keyword_only=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        hint=Any if hint is MISSING else hint,
    )


def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The type hints of a function; hints may name variables of the functions around it.

    Raises:
        InvalidTask: a hint cannot be read.
    """
    inner = inspect.unwrap(fn)
    try:
        return typing.get_type_hints(inner, localns=_closure(inner), include_extras=True)
    except Exception as error:
        raise InvalidTask(
            f"{_name(fn)}: a type hint cannot be read: {error}",
            hint="import the types of its parameters at the top of the module, for the worker to read them",
        ) from error


def _closure(fn: Any) -> dict[str, Any] | None:
    """The variables of enclosing functions that this function uses and that have a value already."""
    code = getattr(fn, "__code__", None)
    variables: dict[str, Any] = {}
    for name, cell in zip(
        code.co_freevars if code else (), getattr(fn, "__closure__", None) or (), strict=False
    ):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables or None


def _is_context(hint: Any) -> bool:
    if hint is Context:
        return True
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_context(typing.get_args(hint)[0])
    return origin in (typing.Union, types.UnionType) and Context in typing.get_args(hint)


class HintValidator:
    """Checks the values of one parameter. Its pydantic adapter is built at the first call, or by `build`."""

    def __init__(self, name: str, hint: Any) -> None:
        self._name = name
        self._hint = hint
        self._adapter: Any = None

    def build(self) -> None:
        """Build the adapter now.

        Raises:
            InvalidTask: pydantic cannot check values against the hint; its one FieldError has pydantic's
                sentence.
        """
        if self._adapter is None:
            self._adapter = _adapter(self._name, self._hint)

    def __call__(self, value: Any) -> tuple[Any, list[FieldError]]:
        from pydantic import ValidationError

        self.build()
        try:
            return self._adapter.validate_python(value), []
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            return None, [_field_error(self._name, each) for each in faults]


def _adapter(name: str, hint: Any) -> Any:
    from pydantic import TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        adapter.rebuild(raise_errors=True)  # a class that names a later class is only checked here
    except Exception as error:  # pydantic's own errors, and those of the user's classes
        sentence = _sentence(hint, error)
        raise InvalidTask(
            f"parameter {name!r}: {sentence}",
            errors=[FieldError(name, sentence, "invalid_hint")],
            hint="use JSON types, dataclasses, TypedDicts, pydantic models, or Any",
        ) from error
    return adapter


def _sentence(hint: Any, error: Exception) -> str:
    from pydantic.errors import PydanticSchemaGenerationError

    if isinstance(error, PydanticSchemaGenerationError):
        # pydantic's own advice is for the fields of models.
        named = str(error).partition("schema for ")[2].partition(". Set ")[0] or repr(hint)
        return f"values cannot be checked against {named.rstrip('.')}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _field_error(name: str, fault: Mapping[str, Any]) -> FieldError:
    path = name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    shown = repr(fault["input"])
    said = str(fault["msg"]).replace("Input should be", "must be", 1)
    return FieldError(
        path, f"{said}, not {shown if len(shown) <= 100 else shown[:99] + '…'}", str(fault["type"])
    )


def _name(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', repr(fn))}"
