"""Define how many runs of a pipeline are under way at once for each key, how often they start, and what
becomes of one too many.

The key is a text with expressions over the input, such as `${input.customer}`: runs with the same text share
the limit. Without a key, all runs of the pipeline do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.errors import ExpressionFailed, FieldError, InvalidInput, InvalidReference
from pipeweave.json_values import json_type
from pipeweave.spec.expressions.values import as_text
from pipeweave.spec.references import resolve

MAX_KEY: Final = 200
"""The longest key, in characters."""
MAX_LIMIT: Final = 10_000
QUEUE, SKIP, CANCEL_OLD = ON_LIMIT = ("queue", "skip", "cancel-old")
"""What becomes of a run without room; the words are those of a schedule's overlap."""
ALL_RUNS: Final = ""
"""The key of a pipeline that has none: all its runs share it."""


@dataclass(frozen=True, slots=True)
class RunConcurrency:
    """How many runs of a pipeline are under way at once.

    Args:
        key: a text with expressions over the input; None for one limit of all runs.
        limit: runs of a key that are under way at once, from 1.
        on_limit: `queue`: a run without room waits for its turn; `skip`: it does not start, and who asks gets
            the run that is open; `cancel-old`: the oldest runs of its key are cancelled.
    """

    key: str | None = None
    limit: int = 1
    on_limit: str = QUEUE

    def to_json(self) -> dict[str, Any]:
        """The member `concurrency` of a document."""
        shown: dict[str, Any] = {} if self.key is None else {"key": self.key}
        return {**shown, "limit": self.limit, "onLimit": self.on_limit}


@dataclass(frozen=True, slots=True)
class RunRate:
    """How often runs of a pipeline start.

    Args:
        rate: starts in a time, as `100/m`: in no time of that length do more start.
        key: as that of RunConcurrency.
    """

    rate: str
    key: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The member `rateLimit` of a document."""
        return {"rate": self.rate} if self.key is None else {"key": self.key, "rate": self.rate}


def key_of(written: str | None, run_input: Any, variables: Mapping[str, Any], field: str) -> str:
    """The key of a run.

    Args:
        written: as the pipeline has it; None gives ALL_RUNS.
        run_input: with the defaults of the pipeline.
        variables: of the pipeline, as they are written.
        field: where the pipeline has it, for an error.

    Raises:
        InvalidInput: the input lacks what the key is made of, or the key is not 1 to MAX_KEY characters.
    """
    if written is None:
        return ALL_RUNS
    try:
        scope = {"variables": resolve(variables, input=run_input, steps={})} if "variables" in written else {}
        value = resolve(written, input=run_input, steps={}, scope=scope)
    except (InvalidReference, ExpressionFailed) as error:
        raise _no_key(written, field, error.detail) from None
    if value is None or isinstance(value, (dict, list)):
        raise _no_key(written, field, f"it gives {json_type(value)}, not a text, a number or a truth value")
    text = as_text(value)
    if not 1 <= len(text) <= MAX_KEY or "\0" in text:
        raise _no_key(written, field, f"it must give 1 to {MAX_KEY} characters, and gives {len(text):,}")
    return text


def _no_key(written: str, field: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the input gives no key for {field} ({written[:200]}): {why}",
        errors=[FieldError("input", f"gives no key for {field}: {why}"[:500], "no_key", written[:200])],
        hint="send what the key is made of, or give it a default: `${input.customer ?? 'nobody'}`",
    )
