"""What an expression consists of, once its text is parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

ROOTS: Final = (
    *("input", "steps", "item", "mapIndex", "status", "errors", "loop", "last", "error"),
    *("variables", "trigger", "run", "secret"),
)
"""What a path may start at."""

NAME: Final = r"[A-Za-z0-9_~:@\-]+"
"""A key that may be written after a dot, as a regular expression."""

_PLAIN_NAME = re.compile(rf"{NAME}\Z")


class Each(Enum):
    """The segment `[*]` of a path."""

    ELEMENT = "[*]"


class Segment(NamedTuple):
    """One part of a path.

    Args:
        key: a key of an object, an index of a list, or every element of a list.
        is_optional: it was written with `?.`: null where it is missing.
    """

    key: str | int | Each
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    """A root and what follows it.

    Args:
        text: as it was written.
        root: one of ROOTS.
        step: the id of the step, for the root `steps`; else None.
        path: the keys and indexes up to the first `[*]`, without the id of the step.
        segments: everything that follows the root.
        column: 1-based.
    """

    text: str
    root: str
    step: str | None
    path: tuple[str | int, ...]
    segments: tuple[Segment, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, true, false or null."""

    value: Any
    column: int


@dataclass(frozen=True, slots=True)
class Member:
    """A part of a value that is not named by a root: `first(input.rows).id`."""

    owner: Tree
    segments: tuple[Segment, ...]
    text: str
    column: int


@dataclass(frozen=True, slots=True)
class Listing:
    """`[a, b]`."""

    entries: tuple[Tree, ...]
    column: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with its arguments."""

    name: str
    arguments: tuple[Tree, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Not:
    """`!a`."""

    operand: Tree
    column: int


@dataclass(frozen=True, slots=True)
class Negation:
    """`-a`."""

    operand: Tree
    column: int


class ChainedOperand(NamedTuple):
    """One further operand of a chain."""

    operator: str
    operand: Tree
    column: int


@dataclass(frozen=True, slots=True)
class Chain:
    """`a + b - c`: operators of equal strength, from left to right."""

    first: Tree
    links: tuple[ChainedOperand, ...]
    column: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a == b` and its kin."""

    operator: str
    left: Tree
    right: Tree
    column: int


@dataclass(frozen=True, slots=True)
class Conditional:
    """`a ? b : c ? d : e`: pairs of a condition and a value, and the value otherwise."""

    cases: tuple[tuple[Tree, Tree], ...]
    otherwise: Tree
    column: int


Tree: TypeAlias = (
    Path | Literal | Member | Listing | FunctionCall | Not | Negation | Chain | Comparison | Conditional
)


def children(tree: Tree) -> tuple[Tree, ...]:
    """The parts right below one part."""
    match tree:
        case Member(owner=one) | Not(operand=one) | Negation(operand=one):
            return (one,)
        case Listing(entries=several) | FunctionCall(arguments=several):
            return several
        case Chain():
            return (tree.first, *(each.operand for each in tree.links))
        case Comparison():
            return (tree.left, tree.right)
        case Conditional():
            return (*(part for pair in tree.cases for part in pair), tree.otherwise)
        case _:
            return ()


def parts_of(tree: Tree) -> Iterator[Tree]:
    """Every part of an expression, itself included, in the order in which they are written."""
    yield tree
    for each in children(tree):
        yield from parts_of(each)


def write_path(root: str, path: Sequence[str | int | Each]) -> str:
    """Write the path that starts at `root`."""
    shown = [root]
    for key in path:
        if isinstance(key, Each):
            shown.append(key.value)
        elif isinstance(key, int):
            shown.append(f"[{key}]")
        elif _PLAIN_NAME.match(key):
            shown.append(f".{key}")
        else:
            shown.append(f"[{json.dumps(key)}]")
    return "".join(shown)
