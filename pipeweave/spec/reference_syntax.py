"""Say which paths a text with `${…}` refers to, and write such a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeweave.spec.expressions import BadExpression, Expression, Path, parse_template
from pipeweave.spec.expressions.tree import write_path


class BadReference(ValueError):
    """A `${…}` cannot be parsed; the message says why."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One path in a `${…}`.

    Args:
        text: the path as it was written, in `${}`.
        root: what it starts at: `input`, `steps`, `item` and so on.
        step: the id of the step, for the root `steps`; else None.
        path: the keys and indexes that follow, up to the first `[*]`.
    """

    text: str
    root: str
    step: str | None
    path: tuple[str | int, ...]


def parse(text: str) -> tuple[str | Expression, ...]:
    """Split a text into its literal parts and its expressions, in order.

    Raises:
        BadReference: a `${` is not closed, or does not hold an expression.
    """
    try:
        return parse_template(text)
    except BadExpression as error:
        raise BadReference(_refusal(text, error)) from None


def references_in(text: str) -> list[Reference]:
    """Every path in the `${…}` of a text. Raises BadReference like `parse`."""
    expressions = (part for part in parse(text) if isinstance(part, Expression))
    return [_reference(each) for expression in expressions for each in expression.references]


def _reference(path: Path) -> Reference:
    return Reference(f"${{{path.text}}}", path.root, path.step, path.path)


def _refusal(text: str, error: BadExpression) -> str:
    start = max(text.rfind("${", 0, error.column), 0)
    end = text.find("}", start)
    if end == -1:
        return f"{short(text[start:])!r} is not closed: write $${{ for a literal ${{"
    shown = short(text[start : end + 1])
    return f"{shown!r} is not a reference or an expression: {error.message} (column {error.column})"


def show_path(root: str, path: Sequence[str | int]) -> str:
    """Write the reference that starts at `root` and follows `path`."""
    return f"${{{write_path(root, path)}}}"


def escape(text: str) -> str:
    """Escape every `${` in a text, so that the text holds no references."""
    return text.replace("${", "$${")


def short(text: str) -> str:
    """Cut a text to 80 characters for a message."""
    return text if len(text) <= 80 else text[:79] + "…"
