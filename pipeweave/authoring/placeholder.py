"""Define Placeholder: what a task call returns inside a `@pipeline` function.

A placeholder can be passed to a task, and its parts can be named (`files["paths"]`). Everything else needs
the value, which is known only at run time: each such use raises InvalidSpec, which says what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NoReturn

from pipeweave.errors import InvalidSpec
from pipeweave.spec import show_path

_LOOKED_AT = 100  # entries of a list or dict among which a placeholder is searched
_IN_A_TASK = "do it in a task: pass the value to one, and return the result from there"


class Placeholder:
    """A value that is known only at run time: a step's output, the run's input, or a part of them."""

    __slots__ = ("_path", "_root", "_step")

    def __init__(self, root: str, path: tuple[str | int, ...], step: str | None = None) -> None:
        self._root = root
        self._path = path
        self._step = step

    def __getitem__(self, key: str | int) -> Placeholder:
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            shown = "a slice" if isinstance(key, slice) else repr(key)
            raise InvalidSpec(
                f"{self!r} can be indexed with a name or a number, not with {shown}", hint=_IN_A_TASK
            )
        return Placeholder(self._root, (*self._path, key), self._step)

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


def _refuse(value: Placeholder, problem: str, hint: str) -> NoReturn:
    raise InvalidSpec(
        f"{value!r} {problem} while the pipeline is drawn: its value is known only at run time", hint=hint
    )


_TO_CHOOSE = "let a task choose what follows it: return TaskResult(…, run_next=[…])"
# Special methods by what Python would do with them.
_USES: dict[tuple[str, str], tuple[str, ...]] = {
    ("is neither true nor false", _TO_CHOOSE): ("bool",),
    ("cannot be compared", _TO_CHOOSE): ("eq", "ne", "lt", "le", "gt", "ge"),
    ("has no length", _IN_A_TASK): ("len", "length_hint"),
    ("cannot be iterated", _IN_A_TASK): ("next", "reversed", "aiter", "anext"),
    ("cannot be searched", _IN_A_TASK): ("contains",),
    ("cannot be inserted into a text", _IN_A_TASK): ("format", "str", "bytes"),
    ("is not a path", _IN_A_TASK): ("fspath",),
    ("cannot be changed", _IN_A_TASK): ("setitem", "delitem", "iadd", "ior", "isub", "imul"),
    ("cannot be used in `with`", _IN_A_TASK): ("enter", "exit", "aenter", "aexit"),
    ("is not a number", _IN_A_TASK): (
        *("int", "float", "complex", "index", "round", "trunc", "floor", "ceil", "divmod", "rdivmod"),
        *("neg", "pos", "abs", "invert"),
    ),
    ("cannot be calculated with", _IN_A_TASK): tuple(
        prefix + name
        for prefix in ("", "r")
        for name in (
            *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
            *("and", "or", "xor", "lshift", "rshift"),
        )
    ),
}


def _refusing(problem: str, hint: str) -> Callable[..., NoReturn]:
    def refuse(self: Placeholder, *_: object) -> NoReturn:
        _refuse(self, problem, hint)

    return refuse


for (_problem, _hint), _names in _USES.items():
    for _name in _names:
        setattr(Placeholder, f"__{_name}__", _refusing(_problem, _hint))


def reference_of(value: Placeholder) -> str:
    """The `${…}` reference to a placeholder's value in a spec."""
    return show_path(value._root, value._path)


def step_of(value: Placeholder) -> str | None:
    """The step whose output a placeholder stands for; None for the run's input."""
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
