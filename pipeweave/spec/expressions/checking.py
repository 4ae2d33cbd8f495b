"""Find the mistakes of an expression before it is stored: names, places, kinds and values that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pipeweave import secret_names
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.spec.expressions.expression import Expression
from pipeweave.spec.expressions.faults import Fault
from pipeweave.spec.expressions.functions import NOW
from pipeweave.spec.expressions.input_facts import input_fact, missing_name
from pipeweave.spec.expressions.kinds import (
    BOOLEAN,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    is_certain,
    kind_of,
    literal_of,
    shown,
)
from pipeweave.spec.expressions.known import MEMBERS, STATUSES, Known
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
    parts_of,
)
from pipeweave.suggestions import nearest

_OF_STEPS: Final = ("steps", "status", "errors")


def check(expression: Expression, known: Known) -> list[Fault]:
    """List the mistakes of an expression, at most 100, in the order in which they are written.

    Args:
        expression: of a condition, also that it can be true or false is checked.
        known: what the expression may name at its place.
    """
    faults = list(islice(_faults(expression, known), MOST_ERRORS))
    return sorted(faults, key=lambda fault: fault.column)


def _faults(expression: Expression, known: Known) -> Iterator[Fault]:
    if expression.is_condition:
        yield from _not_a_condition(expression.tree, known)
    for part in parts_of(expression.tree):
        look = _CHECKS.get(type(part))
        if look is not None:
            yield from look(part, known)


def _not_a_condition(tree: Tree, known: Known) -> Iterator[Fault]:
    kind = kind_of(tree, known)
    if is_certain(kind) and kind != BOOLEAN:
        message = f"gives {shown(kind)}, a condition gives true or false: compare it with something"
        yield Fault(message, tree.column, "no_condition")


def _path(path: Path, known: Known) -> Iterator[Fault]:
    if path.root == "secret":
        yield from _secret(path, known)
    elif path.root not in known.roots:
        near = nearest(path.root, known.roots)
        message = f"{path.text} has no value here: use {', '.join(sorted(known.roots))}"
        yield Fault(message, path.column, "out_of_place", near)
    elif path.root in _OF_STEPS:
        yield from _step(path, known)
    elif path.root == "input":
        yield from _input(path, known)
    elif path.root == "variables":
        yield from _member(path, known.variables)
    else:
        yield from _member(path, MEMBERS.get(path.root))


def _secret(path: Path, known: Known) -> Iterator[Fault]:
    if path.root not in known.roots:
        message = f"{path.text} has no value here: only the params of a step with a task may hold a secret"
        yield Fault(message, path.column, "out_of_place")
        return
    name = path.segments[0].key if path.segments else None
    problem = secret_names.problem_of(name) if len(path.segments) == 1 else "is a text: it has no parts"
    if problem is not None:
        yield Fault(f"{path.text} {problem}"[:500], path.column, "invalid_secret")


def _step(path: Path, known: Known) -> Iterator[Fault]:
    step = path.segments[0].key if path.segments else None
    if known.before is None or not isinstance(step, str) or step in known.before:
        return
    if step in known.excluded:
        if path.root != "status":
            message = (
                f"{path.text} has no value: its branch excludes this one, only status.{step} can be read"
            )
            yield Fault(message, path.column, "excluded_step")
    elif step in known.elsewhere:
        yield Fault(
            f"{path.text} has no value: the step {step!r} does not come before", path.column, "later_step"
        )
    else:
        yield _unknown(step, "is not a step", known.steps(), path.column, "unknown_step")


def _input(path: Path, known: Known) -> Iterator[Fault]:
    missing = missing_name(known.input_schema, path.segments) if known.input_schema is not None else None
    if missing is not None:
        name, names = missing
        yield _unknown(name, "is not an input of this pipeline", names, path.column, "unknown_input")


def _member(path: Path, members: Collection[str] | None) -> Iterator[Fault]:
    key = path.segments[0].key if path.segments else None
    if members is not None and isinstance(key, str) and key not in members:
        yield _unknown(key, f"is not in {path.root}", members, path.column, "unknown_name")


def _unknown(name: str, problem: str, known: Collection[str], column: int, code: str) -> Fault:
    near = nearest(name, known)
    hint = f"; did you mean {near!r}?" if near is not None else ""
    return Fault(f"{name[:200]!r} {problem}{hint}", column, code, near)


def _literal(literal: Literal, known: Known) -> Iterator[Fault]:
    if isinstance(literal.value, str) and "${" in literal.value:
        message = "a text in quotes is not looked into: write the path without quotes and ${ }"
        yield Fault(message, literal.column, "reference_in_text")


def _call(call: FunctionCall, known: Known) -> Iterator[Fault]:
    if call.name == NOW and not known.has_now:
        yield Fault("now() has no value here", call.column, "out_of_place")


def _comparison(comparison: Comparison, known: Known) -> Iterator[Fault]:
    left, right, sign = comparison.left, comparison.right, comparison.operator
    one, other = kind_of(left, known), kind_of(right, known)
    if sign in ("==", "!="):
        if is_certain(one) and is_certain(other) and one != other:
            message = f"{shown(one)} never equals {shown(other)}"
            yield Fault(message, comparison.column, "never_equal")
        else:
            yield from _never_one_of(left, literal_of(right), right, known)
            yield from _never_one_of(right, literal_of(left), left, known)
    elif sign == "in":
        if isinstance(right, Listing):
            for each in right.entries:
                yield from _never_one_of(left, literal_of(each), each, known)
    else:
        yield from _not_comparable(comparison, one, other)


def _not_comparable(comparison: Comparison, one: str, other: str) -> Iterator[Fault]:
    for kind in (one, other):
        if kind in (BOOLEAN, LIST, OBJECT):
            message = f"{comparison.operator} cannot compare {shown(kind)}"
            yield Fault(message, comparison.column, "wrong_kind")
            return
    if is_certain(one) and is_certain(other) and one != other:
        message = f"{comparison.operator} cannot compare {shown(one)} with {shown(other)}"
        yield Fault(message, comparison.column, "wrong_kind")


def _never_one_of(tree: Tree, literal: tuple[Any, ...], place: Tree, known: Known) -> Iterator[Fault]:
    """The fault of a literal that is compared with what can never have its value."""
    options = _options(tree, known) if isinstance(tree, Path) and literal else None
    if options is None or literal[0] is None:
        return
    value = literal[0]
    if any(type(each) is type(value) and each == value for each in options):
        return
    texts = [each for each in options if isinstance(each, str)]
    near = nearest(value, texts) if isinstance(value, str) else None
    listed = ", ".join(repr(each) for each in list(options)[:20])
    hint = f"did you mean {near!r}?" if near is not None else f"it is one of {listed}"
    shown_path = tree.text if isinstance(tree, Path) else ""
    yield Fault(f"{shown_path} is never {str(value)[:80]!r}: {hint}", place.column, "not_an_option", near)


def _options(path: Path, known: Known) -> Collection[Any] | None:
    if path.root == "status" and len(path.segments) == 1:
        return STATUSES
    if path.root == "input" and known.input_schema is not None:
        return input_fact(known.input_schema, path.segments).options
    return known.values.get(path.text)


def _truths(trees: Collection[Tree], known: Known) -> Iterator[Fault]:
    for each in trees:
        kind = kind_of(each, known)
        if is_certain(kind) and kind != BOOLEAN:
            message = f"{shown(kind)} is neither true nor false: compare it with something"
            yield Fault(message, each.column, "wrong_kind")


def _not(part: Not, known: Known) -> Iterator[Fault]:
    yield from _truths([part.operand], known)


def _conditional(part: Conditional, known: Known) -> Iterator[Fault]:
    yield from _truths([condition for condition, _ in part.cases], known)


def _negation(part: Negation, known: Known) -> Iterator[Fault]:
    yield from _calculated([part.operand], "-", part.column, known)


def _chain(part: Chain, known: Known) -> Iterator[Fault]:
    operator = part.links[0].operator
    operands = [part.first, *(each.operand for each in part.links)]
    if operator in ("&&", "||"):
        yield from _truths(operands, known)
    elif operator != "??":
        yield from _calculated(operands, operator, part.links[0].column, known)


def _calculated(operands: list[Tree], sign: str, column: int, known: Known) -> Iterator[Fault]:
    kinds = [kind_of(each, known) for each in operands]
    wrong = next((each for each in kinds if each in (BOOLEAN, LIST, OBJECT)), None)
    if wrong is None and sign != "+" and TEXT in kinds:
        wrong = TEXT
    if wrong is not None:
        yield Fault(f"{sign} cannot calculate with {shown(wrong)}", column, "wrong_kind")
    elif sign == "+" and TEXT in kinds and NUMBER in kinds:
        message = "+ cannot add a text and a number: write text(…) around the number"
        yield Fault(message, column, "wrong_kind")


_CHECKS: Final[Mapping[type, Callable[[Any, Known], Iterator[Fault]]]] = {
    Path: _path,
    Literal: _literal,
    FunctionCall: _call,
    Comparison: _comparison,
    Not: _not,
    Conditional: _conditional,
    Negation: _negation,
    Chain: _chain,
}
