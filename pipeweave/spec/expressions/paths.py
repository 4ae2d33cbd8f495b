"""Follow a path into the values of a frame.

A step without output gives null, and so does every path into it; the same holds for an error that did not
happen and for a round that has not been. Any other part that is missing fails, with the nearest key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from pipeweave.errors import InvalidReference
from pipeweave.json_values import json_type
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.tree import Each, Path, Segment, write_path
from pipeweave.spec.expressions.values import is_list, is_object
from pipeweave.suggestions import nearest

Run = Callable[[Frame], Any]
_STEPS_OF_RUN: Final = frozenset({"steps", "status", "errors"})
"""Roots with a member for each step that has one."""
_MOST_KEYS: Final = 8
_MOST_COMPARED: Final = 20_000
"""Letters of a wrong key, times those of the keys that it is compared with."""


class Absent(Exception):
    """A part is missing, and the caller does not want to know why."""


def follow(path: Path) -> Run:
    """The evaluation of a path; it raises InvalidReference where a part is missing.

    Nearly every path is plain and leads somewhere: such a one takes a short way. The long way says what is
    missing.
    """
    if any(isinstance(each.key, Each) or each.is_optional for each in path.segments):
        return lambda frame: _from_root(frame, path, is_lenient=False)
    keys = tuple(each.key for each in path.segments)
    with_index = any(isinstance(key, int) for key in keys)
    return _by_keys_and_indexes(path, keys) if with_index else _by_keys(path, keys)


def _by_keys(path: Path, keys: tuple[Any, ...]) -> Run:
    root = path.root

    def run(frame: Frame) -> Any:
        try:
            value = frame.scope[root]
            for key in keys:
                value = value[key]
        except (KeyError, TypeError, IndexError):
            return _from_root(frame, path, is_lenient=False)
        return value

    return run


def _by_keys_and_indexes(path: Path, keys: tuple[Any, ...]) -> Run:
    root = path.root

    def run(frame: Frame) -> Any:
        try:
            value = frame.scope[root]
            for key in keys:
                # A text has places, too, and no path leads to its characters.
                if type(key) is int and type(value) is not list:
                    return _from_root(frame, path, is_lenient=False)
                value = value[key]
        except (KeyError, TypeError, IndexError):
            return _from_root(frame, path, is_lenient=False)
        return value

    return run


def follow_leniently(path: Path) -> Run:
    """The evaluation of a path that raises Absent where a part is missing."""
    return lambda frame: _from_root(frame, path, is_lenient=True)


def follow_member(owner: Run, segments: tuple[Segment, ...], text: str, *, is_lenient: bool) -> Run:
    """The evaluation of segments behind another value."""
    return lambda frame: _Walk(frame, text, segments, is_lenient).into(owner(frame), 0)


def _from_root(frame: Frame, path: Path, *, is_lenient: bool) -> Any:
    scope, segments = frame.scope, path.segments
    if path.step is not None and path.step not in (scope.get("steps") or ()):
        return None
    walk = _Walk(frame, path.text, segments, is_lenient, path.root)
    if path.root not in scope:
        if segments and (segments[0].is_optional or path.root in _STEPS_OF_RUN):
            return None
        walk.fail(f"{path.root} has no value here")
    value = scope[path.root]
    if _may_be_null(path):
        anchor = 1 if path.root != "last" and segments else 0
        reached = value.get(segments[0].key) if anchor and isinstance(value, Mapping) else value
        return None if reached is None else walk.into(reached, anchor)
    return walk.into(value, 0)


def _may_be_null(path: Path) -> bool:
    """Whether null in the place of what happened to a step, or of a round, makes every path into it null."""
    if path.root == "loop":
        return bool(path.segments) and path.segments[0].key == "last"
    return path.root in ("last", "status", "errors")


class _Walk:
    """Follows segments. Raises Absent instead of InvalidReference if it is lenient."""

    __slots__ = ("frame", "is_lenient", "root", "segments", "text")

    def __init__(
        self,
        frame: Frame,
        text: str,
        segments: tuple[Segment, ...],
        is_lenient: bool,
        root: str | None = None,
    ) -> None:
        self.frame = frame
        self.text = text
        self.segments = segments
        self.is_lenient = is_lenient
        self.root = root if root is not None else text

    def into(self, value: Any, place: int) -> Any:
        """The value of the segments from `place` on."""
        segments = self.segments
        for at in range(place, len(segments)):
            key, is_optional = segments[at]
            if isinstance(key, Each):
                if value is None and is_optional:
                    return None
                return self._each(value, at)
            if isinstance(key, str):
                if is_object(value) and key in value:
                    value = value[key]
                    continue
            elif is_list(value) and -len(value) <= key < len(value):
                value = value[key]
                continue
            if is_optional:
                return None
            self._missing(value, key, at)
        return value

    def _each(self, value: Any, at: int) -> list[Any]:
        if not is_list(value):
            self.fail(f"[*] needs a list, not {json_type(value)}")
        self.frame.charge(len(value))
        keys = tuple(each.key for each in self.segments[at + 1 :])
        if not all(type(key) is str for key in keys):
            return [self.into(each, at + 1) for each in value]
        return [self._by_keys(each, keys, at) for each in value] if keys else list(value)

    def _by_keys(self, value: Any, keys: tuple[Any, ...], at: int) -> Any:
        """The short way, as for a path as a whole."""
        part = value
        try:
            for key in keys:
                part = part[key]
        except (KeyError, TypeError, IndexError):
            return self.into(value, at + 1)
        return part

    def _missing(self, value: Any, key: str | int, at: int) -> NoReturn:
        if isinstance(key, str) and isinstance(value, Mapping):
            self._without_key(value, key, at)
        if isinstance(key, int) and is_list(value):
            self.fail(f"the list has {len(value)} entries")
        wanted = "an object" if isinstance(key, str) else "a list"
        self.fail(f"{key!r} needs {wanted}, not {json_type(value)}")

    def _without_key(self, value: Mapping[str, Any], key: str, at: int) -> NoReturn:
        hint = None
        if not self.is_lenient:
            place = write_path(self.root, [each.key for each in self.segments[:at]])
            hint = _hint(place, value, key)
        self.fail(f"the object has no key {key!r}", hint)

    def fail(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise what says that a part is missing."""
        if self.is_lenient:
            raise Absent
        raise InvalidReference(f"${{{self.text}}} does not exist: {why}", hint=hint)


def _hint(place: str, value: Mapping[str, Any], key: str) -> str:
    if not value:
        return "the object is empty"
    named = _before_an_operator(key, value)
    if named is not None:
        return f"{named!r} is a key: a minus or a colon needs a space before it"
    near = nearest(key, _comparable(key, value))
    if near is not None:
        return f"{place} has no {key!r}: did you mean {near!r}?"
    shown = [each[:40] for each in _some(value, _MOST_KEYS)]
    return f"its keys are {', '.join(shown)}" + (", …" if len(value) > len(shown) else "")


def _before_an_operator(key: str, value: Mapping[str, Any]) -> str | None:
    """The key that was meant if a minus or a colon was taken for a part of the name."""
    for at, letter in enumerate(key[:200]):
        if letter in "-:" and key[:at] in value:
            return key[:at]
    return None


def _comparable(key: str, value: Mapping[str, Any]) -> list[str]:
    """As many keys as can be compared with another one in some milliseconds."""
    keys, left = [], _MOST_COMPARED
    for each in value:
        left -= len(key) * len(each)
        if left < 0:
            break
        keys.append(each)
    return keys


def _some(value: Mapping[str, Any], most: int) -> Sequence[str]:
    return [str(key) for key, _ in zip(value, range(most), strict=False)]
