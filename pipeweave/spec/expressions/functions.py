"""List the functions of expressions: what each takes and what it gives.

A function whose argument is null gives null; `takes_null` names the exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.spec.expressions import list_functions, text_functions, time_functions
from pipeweave.spec.expressions.bounds import MAX_PARTS

HAS: Final = "has"
NOW: Final = "now"
MAKE_TIMES: Final = frozenset({NOW, "time", "duration"})
"""The functions whose values JSON does not have."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function of expressions.

    Args:
        call: takes the frame and the arguments.
        parameters: their names, as they are shown; those after `least` may be left out.
        least: how many arguments it needs.
        gives: the kind of what it gives, one word of `kinds.KINDS`.
        takes_null: it is called with null arguments, too.
        takes_more: the last parameter takes any number of arguments.
    """

    call: Callable[..., Any]
    parameters: tuple[str, ...]
    least: int
    gives: str
    takes_null: bool = False
    takes_more: bool = False

    @property
    def most(self) -> int:
        """How many arguments it takes at most."""
        return MAX_PARTS if self.takes_more else len(self.parameters)


def _never(*_: Any) -> bool:
    raise AssertionError("has looks at a path, not at its value")


def _of(call: Callable[..., Any], parameters: str, gives: str, least: int | None = None) -> Function:
    names = tuple(parameters.split())
    return Function(call, names, len(names) if least is None else least, gives)


_texts, _lists, _times = text_functions, list_functions, time_functions
FUNCTIONS: Final[Mapping[str, Function]] = {
    "len": _of(_lists.length, "value", "number"),
    "has": _of(_never, "path", "boolean"),
    "number": _of(_texts.number, "text", "number"),
    "text": _of(_texts.text, "value", "text"),
    "lower": _of(_texts.lower, "text", "text"),
    "upper": _of(_texts.upper, "text", "text"),
    "trim": _of(_texts.trim, "text", "text"),
    "split": _of(_texts.split, "text separator", "list"),
    "join": _of(_texts.join, "list separator", "text", least=1),
    "replace": _of(_texts.replace, "text old new", "text"),
    "starts": _of(_texts.starts, "text prefix", "boolean"),
    "ends": _of(_texts.ends, "text suffix", "boolean"),
    "contains": _of(_texts.contains, "value member", "boolean"),
    "like": _of(_texts.like, "text pattern", "boolean"),
    "sum": _of(_lists.total, "list", "number"),
    "min": Function(_lists.smallest, ("list",), 1, "any", takes_null=True, takes_more=True),
    "max": Function(_lists.largest, ("list",), 1, "any", takes_null=True, takes_more=True),
    "any": _of(_lists.any_true, "list", "boolean"),
    "all": _of(_lists.all_true, "list", "boolean"),
    "round": _of(_lists.rounded, "number digits", "number", least=1),
    "floor": _of(_lists.floor, "number", "number"),
    "ceil": _of(_lists.ceiling, "number", "number"),
    "abs": _of(_lists.size, "number", "number"),
    "keys": _of(_lists.keys, "object", "list"),
    "first": _of(_lists.first, "list", "any"),
    "last": _of(_lists.last, "list", "any"),
    "time": _of(_times.time, "text", "time"),
    "duration": _of(_times.duration, "text", "duration"),
    "now": _of(_times.now, "", "time"),
}


def signature(name: str) -> str:
    """How a function is written: `join(list, separator)`."""
    function = FUNCTIONS[name]
    shown = [*function.parameters, *(["…"] if function.takes_more else [])]
    return f"{name}({', '.join(shown)})"
