"""Match the patterns of input schemas in an engine whose time is linear in the text: Rust's `regex`.

Anyone who may register a task may write a pattern, and Python's `re` needs exponential time for some of them
while it keeps every other thread waiting. pydantic has the Rust engine; its `$`, `\\uXXXX` and `(?<name>…)`
are those of JavaScript. It knows neither lookaround nor back references: such patterns are accepted, because
workers in other languages check them, and are not checked here (docs/decisions/0016-patterns.md).
pydantic is imported when the first pattern is read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def matches(pattern: str, text: str) -> bool:
    """True if the pattern matches anywhere in the text, or if the engine does not know the pattern."""
    compiled = _compiled(pattern)
    if compiled is None:
        return True
    from pydantic import ValidationError

    try:
        compiled.validate_python(text, strict=True)
    except ValidationError:
        return False
    return True


def pattern_fault(pattern: str) -> str | None:
    """Why a pattern cannot be a regular expression; None if it can."""
    if _compiled(pattern) is not None:
        return None
    try:
        # JavaScript writes named groups without the P.
        re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern))
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> TypeAdapter[str] | None:
    from pydantic import StringConstraints, TypeAdapter
    from pydantic_core import SchemaError

    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except SchemaError:
        return None
