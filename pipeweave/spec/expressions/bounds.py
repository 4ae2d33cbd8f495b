"""Bound what one expression may cost. None of these is a setting.

An expression comes from a user and is evaluated by the engine inside a transaction. Each bound ends in an
error that says so; together they keep an evaluation under 50 ms and under 10 MB.
"""

from __future__ import annotations

from typing import Final

MAX_CHARS: Final = 2_000
"""Characters of one expression."""

MAX_PARTS: Final = 400
"""Parts of one expression: names, values, signs, and the segments of paths."""

MAX_DEPTH: Final = 32
"""Parentheses, lists, calls and branches of `? :` inside each other."""

MAX_WORK: Final = 100_000
"""Units of work of one evaluation: one for an element that is touched or 16 characters that are made."""

MADE_PER_UNIT: Final = 16
"""Characters of a text that is made, for one unit of work."""

READ_PER_UNIT: Final = 256
"""Characters of a text that is only read, for one unit of work."""

MAX_NUMBER_CHARS: Final = 40
"""Characters of a text that `number` reads."""
