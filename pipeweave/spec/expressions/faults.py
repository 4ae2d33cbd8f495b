"""Say what is wrong with an expression, before it is stored and while it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake of an expression that can be parsed.

    Args:
        message: what is wrong, for a person.
        column: where it begins, 1-based, in the text that was parsed.
        code: a stable lower-case word.
        near: the nearest right name, or None.
    """

    message: str
    column: int
    code: str
    near: str | None = None


class BadExpression(ValueError):
    """A text cannot be parsed as an expression.

    Args:
        message: what is wrong, for a person.
        column: where it begins, 1-based, in the text that was parsed.
        code: a stable lower-case word.
        near: the nearest right name, or None.
    """

    def __init__(self, message: str, column: int, code: str = "syntax", near: str | None = None) -> None:
        self.message = message
        self.column = column
        self.code = code
        self.near = near
        super().__init__(f"column {column}: {message}")


class Unfit(Exception):
    """A value does not fit an operation. Never leaves the package: `Expression` raises ExpressionFailed."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint
