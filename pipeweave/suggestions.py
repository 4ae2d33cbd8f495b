"""The right name nearest to a wrong one: "did you mean …?"."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

# Comparing is quadratic in the words' lengths, and wrong names come from outside.
_LONGEST = 64
_MOST = 500


def nearest(wrong: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The name most like the wrong one, if one is; looks at 500 names of up to 64 characters."""
    from difflib import get_close_matches

    if len(wrong) > _LONGEST:
        return None
    near = get_close_matches(
        wrong, [each for each in islice(known, _MOST) if len(each) <= _LONGEST], 1, cutoff
    )
    return near[0] if near else None


def did_you_mean(wrong: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """`did you mean 'name'?`, or what is said where no name is like the wrong one."""
    near = nearest(wrong, known, cutoff=cutoff)
    return f"did you mean {near!r}?" if near is not None else otherwise
