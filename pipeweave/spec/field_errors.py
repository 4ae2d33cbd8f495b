"""Collecting everything that is wrong with a document, field by field, before refusing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeweave.errors import FieldError, InvalidId
from pipeweave.ids import check_name
from pipeweave.spec.references import json_type
from pipeweave.suggestions import nearest

MOST_ERRORS = 100
_MOST_HINTS = 10


class FieldErrors:
    """What is wrong so far; `errors` in the order in which it was found."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def wrong(self, path: str, message: str, code: str = "invalid", expected: str | None = None) -> None:
        """Note one mistake."""
        self.errors.append(FieldError(path, message, code, expected))

    def unknown_keys(self, members: Iterable[str], allowed: tuple[str, ...], path: str) -> None:
        """Note the keys that mean nothing here, with the nearest that does."""
        for key in members:
            if key not in allowed:
                near = self.nearest(key, allowed, cutoff=0.5)
                hint = f"did you mean {near!r}?" if near else f"the keys here are {', '.join(allowed)}"
                place = f"{path}.{key}" if path else key
                self.wrong(place, f"is not known here; {hint}", "unknown_key", near)

    def nearest(self, wrong: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
        """The name that was probably meant; not looked for any more where much is wrong."""
        return nearest(wrong, known, cutoff=cutoff) if len(self.errors) < _MOST_HINTS else None

    def name(self, text: Any, path: str) -> str:
        """The text if it may be an id, else an empty one."""
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
