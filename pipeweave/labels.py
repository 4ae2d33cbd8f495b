"""Labels: what a worker says of its machine, and what a task, a step or a run requires of the worker.

A label is a name with a value, such as `gpu=a100`. A worker meets a requirement if it has each of its labels
with the same value; nothing else is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from pipeweave.errors import FieldError

Labels: TypeAlias = Mapping[str, str]

MAX_LABELS: Final = 6
"""The most labels of a worker, and of a requirement: a worker consumes a queue for each set of its labels."""

LABEL_NAME_PATTERN: Final = "^[A-Za-z0-9._-]{1,32}$"
"""The name of a label."""

LABEL_PATTERN: Final = "^[A-Za-z0-9._-]{1,63}$"
"""The value of a label."""

LABELS_EXPECTED: Final = (
    f"1 to {MAX_LABELS} labels, each a name of at most 32 and a value of at most 63 of the characters "
    "A-Z a-z 0-9 . _ -"
)


def is_label(name: Any, value: Any) -> bool:
    """Whether a name and a value are a label."""
    return (
        isinstance(name, str)
        and isinstance(value, str)
        and re.fullmatch(LABEL_NAME_PATTERN, name) is not None
        and re.fullmatch(LABEL_PATTERN, value) is not None
    )


def are_labels(value: Any) -> bool:
    """Whether a value is 1 to MAX_LABELS labels."""
    return isinstance(value, Mapping) and next(label_mistakes(value), None) is None


def is_computed(value: Any) -> bool:
    """Whether the value of a label that a step requires is a template, filled before the step runs."""
    return isinstance(value, str) and "${" in value


def label_mistakes(
    value: Any, option: str = "requires", *, takes_templates: bool = False
) -> Iterator[FieldError]:
    """Yield the mistakes of labels that something requires; None is valid.

    Args:
        takes_templates: whether a value may hold `${…}`.
    """
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield FieldError(option, f"is {value!r}: use {{'gpu': 'a100'}}"[:300], "invalid_type", "object")
        return
    if not 1 <= len(value) <= MAX_LABELS:
        yield FieldError(
            option, f"has {len(value)} labels: use {LABELS_EXPECTED}", "invalid", LABELS_EXPECTED
        )
    for name, each in value.items():
        checked = "x" if takes_templates and is_computed(each) else each
        if not is_label(name, checked):
            problem = f"is {each!r}: use {LABELS_EXPECTED}"[:500]
            yield FieldError(f"{option}.{str(name)[:80]}", problem, "invalid", LABELS_EXPECTED)


def read_labels(pairs: Iterable[str]) -> dict[str, str]:
    """Read labels that are written as `gpu=a100`, sorted by name.

    Raises:
        ValueError: one of them is no label, a name has two values, or there are more than MAX_LABELS. The
            message says what is expected.
    """
    labels: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not is_label(name, value):
            raise ValueError(f"{pair.strip()[:120]!r} is no label: write gpu=a100, with {LABELS_EXPECTED}")
        if labels.setdefault(name, value) != value:
            raise ValueError(f"{name} has two values, {labels[name]} and {value}: a label has one")
    if len(labels) > MAX_LABELS:
        raise ValueError(f"are {len(labels)} labels, and at most {MAX_LABELS} are allowed")
    return dict(sorted(labels.items()))


def in_words(labels: Labels) -> str:
    """Labels for people, sorted by name: `gpu=a100, zone=eu`."""
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
