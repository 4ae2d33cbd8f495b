"""Suggest the known name nearest to a misspelt name: "did you mean …?"."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

# The comparison is quadratic in the lengths of the names, and misspelt names come from users.
_LONGEST = 64
_MOST = 500


def nearest(wrong: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Find the known name most similar to `wrong`; None if no name is similar enough.

    Args:
        wrong: the misspelt name; longer than 64 characters gives None.
        known: the valid names; only the first 500, and of them those of up to 64 characters, are compared.
        cutoff: the least similarity, 0 to 1.
    """
    from difflib import get_close_matches

    if len(wrong) > _LONGEST:
        return None
    near = get_close_matches(
        wrong, [each for each in islice(known, _MOST) if len(each) <= _LONGEST], 1, cutoff
    )
    return near[0] if near else None


def did_you_mean(wrong: str, known: Iterable[str], default: str = "", *, cutoff: float = 0.6) -> str:
    """Return `did you mean 'name'?` with the nearest known name, or `default` if no name is similar."""
    near = nearest(wrong, known, cutoff=cutoff)
    return f"did you mean {near!r}?" if near is not None else default
