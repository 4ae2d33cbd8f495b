"""Turn a parsed expression into nested functions of a frame: no `eval`, nothing that could run for long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pipeweave.spec.expressions.arithmetic import OPERATIONS, Operation, negate
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.functions import FUNCTIONS, HAS
from pipeweave.spec.expressions.paths import Absent, Run, follow, follow_leniently, follow_member
from pipeweave.spec.expressions.tree import (
    Chain,
    Comparison,
    Conditional,
    FunctionCall,
    Listing,
    Literal,
    Member,
    Negation,
    Not,
    Path,
    Tree,
)
from pipeweave.spec.expressions.values import equal, is_in, ordered, truth


def compiled(tree: Tree) -> Run:
    """The evaluation of an expression: a function that takes a Frame and gives the value, or raises Unfit or
    InvalidReference.
    """
    return _COMPILERS[type(tree)](tree)


def _literal(tree: Literal) -> Run:
    value = tree.value
    return lambda frame: value


def _member(tree: Member) -> Run:
    return follow_member(compiled(tree.owner), tree.segments, tree.text, is_lenient=False)


def _leniently(tree: Tree) -> Run:
    """What raises Absent instead of an error, if the part is a path."""
    if isinstance(tree, Path):
        return follow_leniently(tree)
    if isinstance(tree, Member):
        return follow_member(_leniently(tree.owner), tree.segments, tree.text, is_lenient=True)
    return compiled(tree)


def _listing(tree: Listing) -> Run:
    entries = tuple(compiled(each) for each in tree.entries)
    return lambda frame: [entry(frame) for entry in entries]


def _call(tree: FunctionCall) -> Run:
    if tree.name == HAS:
        return _has(tree.arguments[0])
    function = FUNCTIONS[tree.name]
    call, takes_null = function.call, function.takes_null
    arguments = tuple(compiled(each) for each in tree.arguments)

    def run(frame: Frame) -> Any:
        values = [each(frame) for each in arguments]
        if not takes_null and any(each is None for each in values):
            return None
        return call(frame, *values)

    return run


def _has(tree: Tree) -> Run:
    look = _leniently(tree)

    def run(frame: Frame) -> bool:
        try:
            return look(frame) is not None
        except Absent:
            return False

    return run


def _not(tree: Not) -> Run:
    operand = compiled(tree.operand)
    return lambda frame: not truth(operand(frame))


def _negation(tree: Negation) -> Run:
    operand = compiled(tree.operand)
    return lambda frame: negate(operand(frame))


def _comparison(tree: Comparison) -> Run:
    left, right, operator = compiled(tree.left), compiled(tree.right), tree.operator
    if operator == "==":
        return lambda frame: equal(frame, left(frame), right(frame))
    if operator == "!=":
        return lambda frame: not equal(frame, left(frame), right(frame))
    compare = is_in if operator == "in" else ordered(operator)
    return lambda frame: compare(frame, left(frame), right(frame))


def _chain(tree: Chain) -> Run:
    operator = tree.links[0].operator
    if operator in OPERATIONS:
        return _calculation(tree)
    operands = (tree.first, *(each.operand for each in tree.links))
    if operator == "??":
        return _first_value(operands)
    parts = tuple(compiled(each) for each in operands)
    return _both(parts) if operator == "&&" else _either(parts)


def _both(parts: tuple[Run, ...]) -> Run:
    def run(frame: Frame) -> bool:
        for part in parts:  # noqa: SIM110 - a generator would cost more than the parts
            if not truth(part(frame)):
                return False
        return True

    return run


def _either(parts: tuple[Run, ...]) -> Run:
    def run(frame: Frame) -> bool:
        for part in parts:  # noqa: SIM110
            if truth(part(frame)):
                return True
        return False

    return run


def _first_value(operands: tuple[Tree, ...]) -> Run:
    *optional, otherwise = operands
    lenient, strict = tuple(_leniently(each) for each in optional), compiled(otherwise)

    def run(frame: Frame) -> Any:
        for part in lenient:
            try:
                value = part(frame)
            except Absent:
                continue
            if value is not None:
                return value
        return strict(frame)

    return run


def _calculation(tree: Chain) -> Run:
    first = compiled(tree.first)
    if len(tree.links) == 1:
        operate, second = OPERATIONS[tree.links[0].operator], compiled(tree.links[0].operand)
        return lambda frame: operate(frame, first(frame), second(frame))
    links: tuple[tuple[Operation, Run], ...] = tuple(
        (OPERATIONS[each.operator], compiled(each.operand)) for each in tree.links
    )

    def run(frame: Frame) -> Any:
        value = first(frame)
        for operate, operand in links:
            value = operate(frame, value, operand(frame))
        return value

    return run


def _conditional(tree: Conditional) -> Run:
    cases = tuple((compiled(condition), compiled(value)) for condition, value in tree.cases)
    otherwise = compiled(tree.otherwise)

    def run(frame: Frame) -> Any:
        for condition, value in cases:
            if truth(condition(frame)):
                return value(frame)
        return otherwise(frame)

    return run


_COMPILERS: Final[Mapping[type, Callable[[Any], Run]]] = {
    Literal: _literal,
    Path: follow,
    Member: _member,
    Listing: _listing,
    FunctionCall: _call,
    Not: _not,
    Negation: _negation,
    Comparison: _comparison,
    Chain: _chain,
    Conditional: _conditional,
}
