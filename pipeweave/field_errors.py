"""Collect every mistake of a document, field by field, before the document is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pipeweave.errors import FieldError, InvalidId
from pipeweave.ids import check_name
from pipeweave.json_values import json_type
from pipeweave.suggestions import nearest

MOST_ERRORS = 100
_MOST_HINTS = 10
_NO_WORDS: Mapping[str, str] = MappingProxyType({})


class FieldErrors:
    """The mistakes found so far; `errors` lists them in the order in which they were found."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def wrong(self, path: str, message: str, code: str = "invalid", expected: str | None = None) -> None:
        """Add one mistake."""
        self.errors.append(FieldError(path, message, code, expected))

    def unknown_keys(
        self,
        members: Iterable[str],
        allowed: tuple[str, ...],
        path: str,
        words: Mapping[str, str] = _NO_WORDS,
    ) -> None:
        """Add a mistake for each key that is not allowed, with the nearest allowed key as a hint.

        Args:
            words: allowed keys by what others call them; they are nearer than any key that looks alike.
        """
        for key in members:
            if key not in allowed:
                near = words.get(key) or self.nearest(key, allowed, cutoff=0.5)
                hint = f"did you mean {near!r}?" if near else f"the known keys are {', '.join(allowed)}"
                place = f"{path}.{key}" if path else key
                self.wrong(place, f"is not a known key; {hint}", "unknown_key", near)

    def nearest(self, wrong: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
        """Find the known name nearest to a wrong name; None once there are many mistakes, to save time."""
        return nearest(wrong, known, cutoff=cutoff) if len(self.errors) < _MOST_HINTS else None

    def name(self, text: Any, path: str) -> str:
        """Return the text if it is a valid id; else add a mistake and return an empty text."""
        if not isinstance(text, str):
            self.wrong(
                path, f"must be a text, not {json_type(text)} (put it in quotes)", "invalid_type", "string"
            )
            return ""
        try:
            return check_name(text, path)
        except InvalidId as error:
            hint = str(error.hint)
            self.wrong(path, f"{text[:80]!r} is not a valid id: {hint}", "invalid_id", hint)
            return ""
