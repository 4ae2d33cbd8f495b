"""Infer, before an expression is evaluated, of which kind its value will be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeweave.spec.expressions.functions import FUNCTIONS
from pipeweave.spec.expressions.input_facts import input_fact
from pipeweave.spec.expressions.known import Known
from pipeweave.spec.expressions.tree import (
    Chain,
    Comparison,
    Conditional,
    FunctionCall,
    Listing,
    Literal,
    Negation,
    Not,
    Path,
    Tree,
)

ANY: Final = "any"
NULL: Final = "null"
BOOLEAN: Final = "boolean"
NUMBER: Final = "number"
TEXT: Final = "text"
LIST: Final = "list"
OBJECT: Final = "object"
TIME: Final = "time"
DURATION: Final = "duration"
KINDS: Final = (ANY, NULL, BOOLEAN, NUMBER, TEXT, LIST, OBJECT, TIME, DURATION)

_OF_TYPES: Final[Mapping[type, str]] = {
    bool: BOOLEAN,
    int: NUMBER,
    float: NUMBER,
    str: TEXT,
    type(None): NULL,
}
_OF_PATHS: Final = {"mapIndex": NUMBER, "loop.index": NUMBER, "error.code": TEXT, "error.step": TEXT}


def kind_of(tree: Tree, known: Known) -> str:
    """The kind of the value of a part; `any` where that cannot be said. Any of them may be null instead."""
    match tree:
        case Literal(value=value):
            return _OF_TYPES[type(value)]
        case Listing():
            return LIST
        case Not() | Comparison():
            return BOOLEAN
        case FunctionCall(name=name):
            return FUNCTIONS[name].gives
        case Negation(operand=operand):
            return kind_of(operand, known)
        case Conditional():
            return _one_of([*(value for _, value in tree.cases), tree.otherwise], known)
        case Chain():
            return _of_chain(tree, known)
        case Path():
            return _of_path(tree, known)
        case _:
            return ANY


def _of_path(path: Path, known: Known) -> str:
    if path.root == "input" and known.input_schema is not None:
        return input_fact(known.input_schema, path.segments).kind
    return TEXT if path.root == "status" and path.segments else _OF_PATHS.get(path.text, ANY)


def _of_chain(chain: Chain, known: Known) -> str:
    operator = chain.links[0].operator
    if operator in ("&&", "||"):
        return BOOLEAN
    operands = [chain.first, *(each.operand for each in chain.links)]
    if operator == "??":
        return _one_of(operands, known)
    kinds = [kind_of(each, known) for each in operands]
    # Of times, which kind comes out depends on the order: what cannot be said is any.
    return kinds[0] if len(set(kinds)) == 1 and kinds[0] in (NUMBER, TEXT) else ANY


def _one_of(trees: list[Tree], known: Known) -> str:
    kinds = {kind_of(each, known) for each in trees} - {NULL}
    return kinds.pop() if len(kinds) == 1 else ANY


def shown(kind: str) -> str:
    """Name a kind with its article."""
    return {NULL: NULL, OBJECT: "an object"}.get(kind, f"a {kind}")


def is_certain(kind: str) -> bool:
    """Whether a value of this kind is of no other kind."""
    return kind not in (ANY, NULL)


def literal_of(tree: Any) -> tuple[Any, ...]:
    """The value of a literal, as a tuple of one; empty for any other part."""
    return (tree.value,) if isinstance(tree, Literal) else ()
