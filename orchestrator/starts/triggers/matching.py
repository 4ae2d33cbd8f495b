"""Decides whether a trigger fires for what happened, and what the run gets (pure).

What happened is a JSON document: `{body, headers, deliveryId}` of a webhook, `{event}` of an event. A filter
names paths in it, such as `body.action`, each with the values that it may have there; of an event it names
paths in the event itself. An input is a template, whose references `${input.body.action}` stand for parts of
the document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeweave.errors import ExpressionFailed, FieldError, InvalidInput, InvalidReference, InvalidSpec
from pipeweave.json_values import json_type
from pipeweave.spec.references import compile_value, find_references

MAX_PATHS = 20
MAX_CHOICES = 50
MAX_PATH_CHARS = 200

_PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*\Z")
_SCALARS = (str, int, float, bool, type(None))
_MISSING = object()


def fits(filter: Mapping[str, Any], document: Any) -> bool:
    """Whether each path of a filter has one of its values in a document."""
    return all(_is_one_of(_at(document, path), value) for path, value in filter.items())


def _is_one_of(member: Any, wanted: Any) -> bool:
    choices = wanted if isinstance(wanted, list) else [wanted]
    # True equals 1 in Python, not in JSON.
    return any(member == each and isinstance(member, bool) == isinstance(each, bool) for each in choices)


def _at(document: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(document, list) and re.fullmatch("[0-9]{1,6}", name) and int(name) < len(document):
            document = document[int(name)]
        elif isinstance(document, Mapping) and name in document:
            document = document[name]
        else:
            return _MISSING
    return document


def filter_mistakes(filter: Mapping[str, Any], roots: tuple[str, ...]) -> list[FieldError]:
    """The mistakes of a filter: its paths begin at one of these roots; its values are texts, numbers, true,
    false, null, or lists of them.
    """
    if len(filter) > MAX_PATHS:
        return [FieldError("filter", f"has more than {MAX_PATHS} paths", "too_big")]
    mistakes = []
    for path, value in filter.items():
        field = f"filter.{path[:MAX_PATH_CHARS]}"
        if len(path) > MAX_PATH_CHARS or not _PATH.match(path) or path.split(".")[0] not in roots:
            expected = f"a path of at most {MAX_PATH_CHARS} characters that begins with {' or '.join(roots)}"
            mistakes.append(FieldError(field, f"must be {expected}", "invalid_path", expected))
        choices = value if isinstance(value, list) else [value]
        if not 1 <= len(choices) <= MAX_CHOICES or not all(isinstance(each, _SCALARS) for each in choices):
            message = f"must be a text, a number, true, false or null, or 1 to {MAX_CHOICES} of them"
            mistakes.append(FieldError(field, f"{message}, not {json_type(value)}", "invalid_type"))
    return mistakes


def input_of(template: Any, document: Mapping[str, Any]) -> Any:
    """The input of the run: the template with its references replaced; without one, the document.

    Raises:
        InvalidInput: as `value_of`.
    """
    return dict(document) if template is None else value_of(template, document, "input")


def value_of(template: Any, document: Mapping[str, Any], place: str) -> Any:
    """A template with its references replaced.

    Args:
        place: of the template, in errors.

    Raises:
        InvalidInput: the document has nothing at a path that the template names, or an expression fails.
    """
    try:
        return compile_value(template).resolve(input=document, steps={})
    except (ExpressionFailed, InvalidReference) as error:
        fault = FieldError(place, error.detail, "invalid_reference")
        raise InvalidInput(error.detail, errors=[fault], hint=error.hint) from None


def has_references(value: Any) -> bool:
    """Whether a part of a template has a reference, so that nobody knows yet what it will be."""
    return bool(find_references(value, "input")[0])


def template_paths(template: Any, place: str = "input") -> list[tuple[str, tuple[str, ...]]]:
    """Where a template has references, and the path in the document that each names. What is no reference at
    all is left out: `template_mistakes` tells of it.
    """
    try:
        references, _ = find_references(template, place)
    except InvalidSpec:
        return []
    return [(at, tuple(map(str, each.path))) for at, each in references if each.root == "input" and each.path]


def template_mistakes(template: Any, roots: tuple[str, ...], place: str = "input") -> list[FieldError]:
    """The mistakes of a template: its references are `${input.<root>…}`."""
    if template is None:
        return []
    try:
        references, mistakes = find_references(template, place)
    except InvalidSpec as error:
        return list(error.errors)
    expected = " or ".join(f"${{input.{each}}}" for each in roots)
    for path, reference in references:
        if reference.root != "input" or (reference.path and reference.path[0] not in roots):
            message = f"{reference.text[:200]} has no value here: begin with {expected}"
            mistakes.append(FieldError(path, message, "invalid_reference", expected))
    return mistakes
