"""Replace the values of secrets, in the forms in which programs write them, by `***`.

A value is looked for as it is, escaped as JSON and as Python, percent-encoded, and in base64 at any place of
a longer text. Each line of a value with several lines is one, too, and so is each text in a value that is a
JSON object: programs print them alone.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any, Final
from urllib.parse import quote, quote_plus

import orjson

HIDDEN: Final = "***"

MIN_CHARS: Final = 6
"""A shorter value is not looked for: it may stand anywhere by chance."""

# A process's own log masks what its last attempts have resolved: so many values.
_MOST_OF_PROCESS = 100

_ESCAPED_BYTE = re.compile("%[0-9A-F]{2}")


class Masks:
    """The values that one attempt must not show."""

    __slots__ = ("_forms", "_values")

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._forms: tuple[str, ...] = ()

    @property
    def longest(self) -> int:
        """The length of the longest form (characters); 0 without any."""
        return len(self._forms[0]) if self._forms else 0

    def add(self, value: str, most: int | None = None) -> None:
        """Hide a value from now on.

        Args:
            most: forget the oldest values, so that no more than these are hidden; None for no limit.
        """
        if value in self._values:
            return
        self._values[value] = None
        while most is not None and len(self._values) > most:
            del self._values[next(iter(self._values))]
        forms = {form for each in self._values for form in _forms_of(each)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))

    def text(self, text: str) -> str:
        """A text without the values."""
        spans = sorted(span for form in self._forms for span in _spans(text, form))
        if not spans:
            return text
        kept: list[str] = []
        end = 0
        for start, stop in spans:
            # Two values may overlap: what belongs to either is hidden.
            if start > end or not kept:
                kept += [text[end:start], HIDDEN]
            end = max(end, stop)
        return "".join([*kept, text[end:]])

    def json(self, value: Any) -> Any:
        """A JSON value without them; the same object if it holds none."""
        if not self._forms:
            return value
        masked = self._masked(value)
        return value if masked == value else masked

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._masked(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._masked(each) for each in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            shown = str(value)
            return value if self.text(shown) == shown else HIDDEN
        return value

    def line(self, text: str) -> str:
        """A line of JSON without them; it is still JSON."""
        if not self._forms or self.text(text) == text:
            return text
        try:
            return orjson.dumps(self._masked(orjson.loads(text))).decode()
        except orjson.JSONDecodeError:
            return self.text(text)


_current: ContextVar[Masks | None] = ContextVar("masks of the current attempt", default=None)
_of_process = Masks()


class Masking:
    """Masks what the block logs in this thread and in its asyncio tasks."""

    __slots__ = ("_masks", "_token")

    def __init__(self, masks: Masks | None) -> None:
        self._masks = masks

    def __enter__(self) -> None:
        self._token: Token[Masks | None] = _current.set(self._masks)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current() -> Masks | None:
    """The masks of the attempt that this thread works on; None if it has none."""
    return _current.get()


def of_process() -> Masks:
    """What the log of the process hides: the values of this attempt; outside of attempts, for instance in a
    thread that a task has started, those of the last ones.
    """
    return _current.get() or _of_process


def remember(value: str) -> None:
    """Hide a value in what the process logs outside of attempts."""
    _of_process.add(value, _MOST_OF_PROCESS)


def _spans(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Where a form stands in a text; places that overlap are one."""
    start = text.find(form)
    while start != -1:
        stop = start + len(form)
        after = text.find(form, start + 1)
        while after != -1 and after <= stop:
            stop = after + len(form)
            after = text.find(form, after + 1)
        yield start, stop
        start = after


def _forms_of(value: str) -> Iterator[str]:
    for part in {value, value.strip(), *value.splitlines(), *_texts_in(value)}:
        if len(part) >= MIN_CHARS:
            yield from _written(part)


def _texts_in(value: str) -> Iterator[str]:
    """The texts in a secret that is a JSON object, such as {"user": …, "password": …}."""
    if not value.lstrip().startswith("{"):
        return
    try:
        waiting = [orjson.loads(value)]
    except orjson.JSONDecodeError:
        return
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _written(part: str) -> Iterator[str]:
    yield part
    yield orjson.dumps(part).decode()[1:-1]
    yield json.dumps(part)[1:-1]
    yield repr(part)[1:-1]
    for escaped in (quote(part, safe=""), quote(part), quote_plus(part)):
        yield escaped
        yield _ESCAPED_BYTE.sub(lambda match: match[0].lower(), escaped)
    yield from _base64(part.encode())


def _base64(content: bytes) -> Iterator[str]:
    """What base64 makes of the content alone, and of the content behind other bytes: `user:password`."""
    whole = b64encode(content).decode()
    forms = [whole, whole.rstrip("=")]
    for before in (0, 1, 2):
        text = b64encode(bytes(before) + content).decode()
        # Characters that the bytes before and after the content do not change.
        inside = text[-(-before * 8 // 6) : (before + len(content)) * 8 // 6]
        if len(inside) >= MIN_CHARS:
            forms.append(inside)
    for each in forms:
        yield each
        yield each.replace("+", "-").replace("/", "_")
