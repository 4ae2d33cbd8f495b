"""Write expressions of pipeline documents: operands, operators, and constants as literals. Pure.

`pipeweave.spec.expressions` reads them. Parentheses are written only where the language needs them, so that
what a `@pipeline` function compares reads as people write it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from pipeweave.spec.expressions.tree import write_path

# How strongly operators bind, the weakest first; what binds weaker needs parentheses inside of what binds
# stronger.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, ELSE, NEGATION, ATOM = range(1, 10)


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression as text.

    Args:
        text: without `${}`.
        strength: how strongly its outermost operator binds.
    """

    text: str
    strength: int = ATOM

    def inside(self, strength: int) -> str:
        """The text as an operand of an operator of this strength."""
        return self.text if self.strength >= strength else f"({self.text})"

    def part(self, key: str | int) -> Formula:
        """The expression of a part of the value: of a member of an object, or an entry of a list."""
        return Formula(write_path(self.inside(ATOM), (key,)))


def path(root: str, keys: tuple[str | int, ...]) -> Formula:
    """The expression of a path."""
    return Formula(write_path(root, keys))


def chain(operator: str, strength: int, left: Formula, right: Formula) -> Formula:
    """`left operator right`, read from the left: `a - b - c` is `(a - b) - c`."""
    return Formula(f"{left.inside(strength)} {operator} {right.inside(strength + 1)}", strength)


def comparison(operator: str, left: Formula, right: Formula) -> Formula:
    """`left operator right`; the language does not chain comparisons."""
    return Formula(f"{left.inside(SUM)} {operator} {right.inside(SUM)}", COMPARISON)


def negation(operand: Formula) -> Formula:
    """`-operand`."""
    return Formula(f"-{operand.inside(ATOM)}", NEGATION)


def inversion(operand: Formula) -> Formula:
    """`!operand`."""
    return Formula(f"!{operand.inside(ATOM)}", NOT)


def listing(entries: list[Formula]) -> Formula:
    """`[a, b]`."""
    return Formula(f"[{', '.join(each.text for each in entries)}]")


def literal(value: Any) -> Formula | None:
    """A constant: null, true, false, a number or a text; None for every other value."""
    if value is None or isinstance(value, bool):
        return Formula({None: "null", True: "true", False: "false"}[value])
    if type(value) is str:
        inner = json.dumps(value, ensure_ascii=False)[1:-1]
        return Formula("'" + inner.replace('\\"', '"').replace("'", "\\'") + "'")
    if type(value) in (int, float) and math.isfinite(value):
        number = json.dumps(value)
        return Formula(number, NEGATION if number.startswith("-") else ATOM)
    return None
