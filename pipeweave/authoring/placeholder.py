"""Define Placeholder: what a task call returns inside a `@pipeline` function.

A placeholder can be passed to a task, its parts can be named (`files["paths"]`), and it can be compared and
calculated with: that makes a placeholder for an expression (`order["total"] * 1.2 > 1000`), which the engine
evaluates in a run. Everything else needs the value, which is known only at run time: each such use raises
InvalidSpec, which says what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NoReturn

from pipeweave.authoring import formulas
from pipeweave.authoring.formulas import Formula
from pipeweave.errors import InvalidSpec
from pipeweave.json_conversion import to_json_value
from pipeweave.json_values import kind_of

_LOOKED_AT = 100  # entries of a list or dict among which a placeholder is searched
_IN_A_TASK = "do it in a task: pass the value to one, and return the result from there"
_COMPARED = "compare parts with texts, numbers, True, False, None, or lists of these"


class Placeholder:
    """A value that is known only at run time: a step's output, the run's input, a part of them, or what an
    expression makes of them.
    """

    __slots__ = ("_formula", "_step")

    def __init__(self, formula: Formula, step: str | None = None) -> None:
        self._formula = formula
        self._step = step

    def __getitem__(self, key: str | int) -> Placeholder:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            shown = "a slice" if isinstance(key, slice) else repr(key)
            raise InvalidSpec(
                f"{self!r} can be indexed with a name or a number, not with {shown}", hint=_IN_A_TASK
            )
        return Placeholder(self._formula.part(key), self._step)

    def __repr__(self) -> str:
        return f"<{reference_of(self)}>"

    # Sets and dicts of placeholders are harmless: they compare by identity first.
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # Python and libraries ask every object for these
        _refuse(self, f"has no attribute {name!r}", f"a part of the value is named by its key: x[{name!r}]")

    def __call__(self, *_: object, **__: object) -> NoReturn:
        _refuse(self, "cannot be called", "pass it to a task")

    def __iter__(self) -> Iterator[Any]:
        _refuse(self, "cannot be iterated", "run a task for each item of the list: task.map(x)")

    def __await__(self) -> NoReturn:
        _refuse(self, "cannot be awaited", "tasks are plain functions: pass the value to the next task")

    def in_(self, values: Any) -> Placeholder:
        """Whether the value is one of a list's, or a key of an object: an expression.

        Args:
            values: a list, or a placeholder for one.
        """
        return Placeholder(formulas.comparison("in", self._formula, operand(values)))

    # --- expressions --------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> Placeholder:  # type: ignore[override]
        return _compared("==", self, other)

    def __ne__(self, other: object) -> Placeholder:  # type: ignore[override]
        return _compared("!=", self, other)

    def __lt__(self, other: Any) -> Placeholder:
        return _compared("<", self, other)

    def __le__(self, other: Any) -> Placeholder:
        return _compared("<=", self, other)

    def __gt__(self, other: Any) -> Placeholder:
        return _compared(">", self, other)

    def __ge__(self, other: Any) -> Placeholder:
        return _compared(">=", self, other)

    def __and__(self, other: Any) -> Placeholder:
        return _both("&&", formulas.AND, self, other)

    def __rand__(self, other: Any) -> Placeholder:
        return _both("&&", formulas.AND, other, self)

    def __or__(self, other: Any) -> Placeholder:
        return _both("||", formulas.OR, self, other)

    def __ror__(self, other: Any) -> Placeholder:
        return _both("||", formulas.OR, other, self)

    def __invert__(self) -> Placeholder:
        return Placeholder(formulas.inversion(self._formula))

    def __neg__(self) -> Placeholder:
        return Placeholder(formulas.negation(self._formula))

    def __add__(self, other: Any) -> Placeholder:
        return _calculated("+", formulas.SUM, self, other)

    def __radd__(self, other: Any) -> Placeholder:
        return _calculated("+", formulas.SUM, other, self)

    def __sub__(self, other: Any) -> Placeholder:
        return _calculated("-", formulas.SUM, self, other)

    def __rsub__(self, other: Any) -> Placeholder:
        return _calculated("-", formulas.SUM, other, self)

    def __mul__(self, other: Any) -> Placeholder:
        return _calculated("*", formulas.PRODUCT, self, other)

    def __rmul__(self, other: Any) -> Placeholder:
        return _calculated("*", formulas.PRODUCT, other, self)

    def __truediv__(self, other: Any) -> Placeholder:
        return _calculated("/", formulas.PRODUCT, self, other)

    def __rtruediv__(self, other: Any) -> Placeholder:
        return _calculated("/", formulas.PRODUCT, other, self)

    def __mod__(self, other: Any) -> Placeholder:
        return _calculated("%", formulas.PRODUCT, self, other)

    def __rmod__(self, other: Any) -> Placeholder:
        return _calculated("%", formulas.PRODUCT, other, self)


def operand(value: Any) -> Formula:
    """A placeholder, a constant, or a list of them, as a part of an expression.

    Raises:
        InvalidSpec: expressions have no such constants.
    """
    if isinstance(value, Placeholder):
        return value._formula
    if isinstance(value, (list, tuple)):
        return formulas.listing([operand(each) for each in value])
    literal = formulas.literal(value)
    if literal is not None:
        return literal
    converted, faults = to_json_value(value)
    if faults or isinstance(converted, dict) or type(converted) is type(value):
        raise InvalidSpec(f"{kind_of(value)} cannot be a part of an expression", hint=_COMPARED)
    return operand(converted)


def _compared(operator: str, left: Placeholder, right: Any) -> Placeholder:
    return Placeholder(formulas.comparison(operator, left._formula, operand(right)))


def _calculated(operator: str, strength: int, left: Any, right: Any) -> Placeholder:
    return Placeholder(formulas.chain(operator, strength, operand(left), operand(right)))


def _both(operator: str, strength: int, left: Any, right: Any) -> Placeholder:
    """Join two conditions. `a == 1 & b == 2` is `a == (1 & b) == 2` for Python: this is found here."""
    for each in (left, right):
        if not isinstance(each, (Placeholder, bool)):
            raise InvalidSpec(
                f"{operator[0]} joins conditions, and {each!r} is none"[:300],
                hint=f"put each comparison in ( ): (a == 1) {operator[0]} (b == 2)",
            )
    return _calculated(operator, strength, left, right)


def either(value: Any, default: Any) -> Any:
    """The value, or the default if the value is null: what a step gave that was passed over or not chosen.

    Example: `either(ok["approved"], True)`.

    Args:
        value: a step's result, a part of it, or a parameter of the pipeline.
        default: a constant, or another such value.
    """
    if not isinstance(value, Placeholder) and not isinstance(default, Placeholder):
        return default if value is None else value
    return _calculated("??", formulas.ELSE, value, default)


# --- refusals -----------------------------------------------------------------------------------------------


def _refuse(value: Placeholder, problem: str, hint: str) -> NoReturn:
    raise InvalidSpec(
        f"{value!r} {problem} while the pipeline is drawn: its value is known only at run time", hint=hint
    )


_TO_CHOOSE = (
    "use when(…) instead of `if`: `with when(x > 1):`; join conditions with & | ~ instead of and, or, not,"
    " each comparison in ( ); write x.in_([…]) instead of `in`"
)
_AS_TEXT = 'write it as a text: when("len(steps.rows) > 0"), or do it in a task'
# Special methods by what Python would do with them.
_USES: dict[tuple[str, str], tuple[str, ...]] = {
    ("is neither true nor false", _TO_CHOOSE): ("bool",),
    ("has no length", _AS_TEXT): ("len", "length_hint"),
    ("cannot be iterated", _IN_A_TASK): ("next", "reversed", "aiter", "anext"),
    ("cannot be searched", "write x.in_(list), or as a text: when(\"'a' in steps.rows\")"): ("contains",),
    ("cannot be inserted into a text", _IN_A_TASK): ("format", "str", "bytes"),
    ("is not a path", _IN_A_TASK): ("fspath",),
    ("cannot be changed", _IN_A_TASK): ("setitem", "delitem"),
    ("cannot be used in `with`", "write `with when(…):`"): ("enter", "exit", "aenter", "aexit"),
    ("is not a number", _IN_A_TASK): (
        *("int", "float", "complex", "index", "round", "trunc", "floor", "ceil", "divmod", "rdivmod"),
        *("pos", "abs"),
    ),
    ("cannot be calculated with", _IN_A_TASK): tuple(
        prefix + name
        for prefix in ("", "r")
        for name in ("matmul", "floordiv", "pow", "xor", "lshift", "rshift")
    ),
}


def _refusing(problem: str, hint: str) -> Callable[..., NoReturn]:
    def refuse(self: Placeholder, *_: object) -> NoReturn:
        _refuse(self, problem, hint)

    return refuse


for (_problem, _hint), _names in _USES.items():
    for _name in _names:
        setattr(Placeholder, f"__{_name}__", _refusing(_problem, _hint))


# --- what the builder asks ----------------------------------------------------------------------------------


def reference_of(value: Placeholder) -> str:
    """The `${…}` of a placeholder's value in a spec."""
    return f"${{{expression_of(value)}}}"


def expression_of(value: Placeholder) -> str:
    """The expression of a placeholder's value."""
    return value._formula.text


def step_of(value: Placeholder) -> str | None:
    """The step whose output, or a part of it, a placeholder stands for; None for everything else."""
    return value._step


def find_placeholder(value: Any) -> Placeholder | None:
    """The first placeholder that a value is, or that the entries of a list, tuple, set or dict are."""
    if isinstance(value, Placeholder):
        return value
    entries: Iterable[Any] = ()
    if isinstance(value, Mapping):
        entries = value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        entries = value
    return next((each for each in islice(entries, _LOOKED_AT) if isinstance(each, Placeholder)), None)
