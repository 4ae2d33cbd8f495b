"""Check the signals that a test gives: one that no wait could take is a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from pipeweave.errors import InvalidInput
from pipeweave.spec import SignalWait
from pipeweave.spec.expressions import parse_template
from pipeweave.suggestions import did_you_mean
from pipeweave.testing.local_definitions import Definitions

# A wrong name is answered with so many right ones.
_MOST_NAMED = 20


def checked_signals(
    definitions: Definitions, signals: Mapping[str, Any] | Iterable[tuple[str, Any]] | None
) -> list[tuple[str, Any]]:
    """The signals that a test gives, the oldest first.

    Raises:
        InvalidInput: no wait of the pipeline, or of what runs inside of it, could take one of them.
    """
    listed = list(signals.items() if isinstance(signals, Mapping) else signals or ())
    awaited = list(dict.fromkeys(_awaited(definitions))) if listed else []
    for name, _ in listed:
        if not any(_may_be(name, each) for each in awaited):
            named = list(islice(awaited, _MOST_NAMED))
            hint = did_you_mean(name, named, f"its waits take {', '.join(named) or 'none'}")
            raise InvalidInput(f"pipeline {definitions.root.id!r} waits for no signal {name!r}", hint=hint)
    return listed


def _awaited(definitions: Definitions) -> Iterator[str]:
    """The names that all waits take, as they are written."""
    for spec in definitions.pipelines.values():
        for _, step in spec.all_steps:
            if isinstance(step.decides, SignalWait):
                yield from step.decides.names


def _may_be(name: str, written: str) -> bool:
    """Whether a name may be what is written: an expression in it may have any value."""
    parts = (re.escape(each) if isinstance(each, str) else ".*" for each in parse_template(written))
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None
