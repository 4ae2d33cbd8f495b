"""Parse and write `${…}` references: a root and a path from that root."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeweave.size_limits import MAX_REFERENCE_CHARS

ROOTS = ("input", "steps", "item", "mapIndex")

_NAME = r"[A-Za-z0-9_~:@\-]+"
_SEGMENT = rf'\.{_NAME}|\[-?[0-9]{{1,9}}\]|\["(?:[^"\\]|\\.)*"\]'
_REFERENCE = re.compile(rf"\$\{{\s*([A-Za-z]+)((?:{_SEGMENT})*)\s*\}}")
_SEGMENTS = re.compile(_SEGMENT)
_OPENING = re.compile(r"\$\$\{|\$\{")
_PLAIN_NAME = re.compile(rf"{_NAME}\Z")


class BadReference(ValueError):
    """A `${…}` cannot be parsed; the message says why."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One parsed `${…}`.

    Args:
        text: the reference as it was written.
        root: `input`, `steps`, `item` or `mapIndex`.
        step: the id of the step, for the root `steps`; else None.
        path: the keys and indexes that follow.
    """

    text: str
    root: str
    step: str | None
    path: tuple[str | int, ...]


@lru_cache(maxsize=4096)
def parse(text: str) -> tuple[str | Reference, ...]:
    """Split a text into its literal parts and its references, in order.

    Raises:
        BadReference: a `${` is not closed, or does not hold a reference.
    """
    parts: list[str | Reference] = []
    literal, position = "", 0
    for opening in _OPENING.finditer(text):
        if opening.start() < position:
            continue
        literal += text[position : opening.start()]
        if opening.group() == "$${":
            literal += "${"
            position = opening.end()
            continue
        reference, position = _read(text, opening.start())
        parts += [literal, reference] if literal else [reference]
        literal = ""
    literal += text[position:]
    if literal or not parts:
        parts.append(literal)
    return tuple(parts)


def _read(text: str, start: int) -> tuple[Reference, int]:
    match = _REFERENCE.match(text, start, start + MAX_REFERENCE_CHARS)
    if match is None:
        end = text.find("}", start)
        if end == -1:
            raise BadReference(f"{short(text[start:])!r} is not closed: write $${{ for a literal ${{")
        shown = text[start : end + 1]
        if len(shown) > MAX_REFERENCE_CHARS:
            raise BadReference(f"{short(shown)!r} is longer than {MAX_REFERENCE_CHARS} characters")
        raise BadReference(
            f'{short(shown)!r} is not a reference: write ${{input.name}}, ${{steps.id.name[0]["key"]}}, '
            "${item} or ${mapIndex}, and $${ for a literal ${"
        )
    return _reference(match.group(), match.group(1), match.group(2)), match.end()


def _reference(text: str, root: str, rest: str) -> Reference:
    path = [_segment(each) for each in _SEGMENTS.findall(rest)]
    if root not in ROOTS:
        raise BadReference(f"{short(text)!r} starts with {root!r}: use one of {', '.join(ROOTS)}")
    if root == "mapIndex" and path:
        raise BadReference(f"{short(text)!r}: mapIndex is a number and has no parts")
    if root != "steps":
        return Reference(text, root, None, tuple(path))
    if not path or not isinstance(path[0], str):
        raise BadReference(f"{short(text)!r} names no step: write ${{steps.<step id>}}")
    return Reference(text, root, path[0], tuple(path[1:]))


def _segment(text: str) -> str | int:
    if text.startswith("."):
        return text[1:]
    if text.startswith('["'):
        try:
            return str(json.loads(text[1:-1]))
        except ValueError:
            raise BadReference(f"{short(text)!r} is not a JSON string in brackets") from None
    return int(text[1:-1])


def show_path(root: str, path: Sequence[str | int]) -> str:
    """Write the reference that starts at `root` and follows `path`."""
    shown = [root]
    for segment in path:
        if isinstance(segment, int):
            shown.append(f"[{segment}]")
        elif _PLAIN_NAME.match(segment):
            shown.append(f".{segment}")
        else:
            shown.append(f"[{json.dumps(segment)}]")
    return "${" + "".join(shown) + "}"


def escape(text: str) -> str:
    """Escape every `${` in a text, so that the text holds no references."""
    return text.replace("${", "$${")


def short(text: str) -> str:
    """Cut a text to 80 characters for a message."""
    return text if len(text) <= 80 else text[:79] + "…"
