"""The expression language: what stands in `${…}`, and conditions.

An expression reads values of a run and computes from them. It is pure (no effects, no clock of its own),
total (it gives a value or one of two errors) and bounded (text, parts, depth, work), so that the engine may
evaluate it in a transaction. docs/expressions.md describes it, and docs/decisions says why it is our own.
"""

from __future__ import annotations

from pipeweave.spec.expressions.checking import check
from pipeweave.spec.expressions.expression import (
    Expression,
    parse_condition,
    parse_expression,
    parse_template,
)
from pipeweave.spec.expressions.faults import BadExpression, Fault
from pipeweave.spec.expressions.known import Known
from pipeweave.spec.expressions.tree import ROOTS, Path

__all__ = [
    "ROOTS",
    "BadExpression",
    "Expression",
    "Fault",
    "Known",
    "Path",
    "check",
    "parse_condition",
    "parse_expression",
    "parse_template",
]
