"""Defines what a run runs besides its steps: when a step fails, to take back what a step did, and at its end.

Each of them is a child run, which nothing starts before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.spec.child_steps import Body, ChildPipeline

# The most entries of `errorHandlers`.
MAX_ERROR_RULES: Final = 50
# How long all that follows the last step of a run may take together (ms), if the pipeline says nothing.
DEFAULT_FINALLY_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A child run that starts when something has happened.

    Args:
        runs: what it runs.
        params: of a pipeline, its input, which may hold references; None for what the place gives by itself.
    """

    runs: ChildPipeline | Body
    params: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {self.runs.word: self.runs.to_json()}
        return shown if self.params is None else {**shown, "params": dict(self.params)}


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """What runs when the last attempt of a step has failed.

    Args:
        call: the run that takes care of the error.
        condition: an expression over `error` and constant `variables`; None for every error.
        is_handled: whether its success completes the step, with its output; else the step fails after it.
    """

    call: ChildCall
    condition: str | None = None
    is_handled: bool = True

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {} if self.condition is None else {"condition": self.condition}
        shown |= self.call.to_json()
        return shown if self.is_handled else {**shown, "handled": False}
