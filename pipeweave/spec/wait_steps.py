"""Defines the steps that wait for something outside of the run: for a time, a signal, or a person's decision.

No task, no worker and no process waits for them: each is a row until what it waits for has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pipeweave.spec.kinds import WAIT, StepKind


class NoDefault:
    """Marks a wait without a default: it fails when its time is over. None is a default, too."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = NoDefault()
# What a wait without a `timeout` gets (ms), and the longest that any wait may last.
DEFAULT_WAIT_MS: Final = 7 * 86_400_000
MAX_WAIT_MS: Final = 366 * 86_400_000
MAX_NAMES: Final = 20
MAX_ASSIGNEES: Final = 50
# What the output of an approval that people decided has.
DECISION_KEYS: Final = ("approved", "choice", "by", "at", "comment", "form", "votes")


def _limits(timeout_ms: int, default: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"timeoutMs": timeout_ms}
    return shown if default is NO_DEFAULT else {**shown, "default": default}


@dataclass(frozen=True, slots=True)
class Sleep:
    """Waits for a time. Exactly one of the three is set.

    Args:
        ms: how long (ms).
        seconds: an expression: how long, in seconds or as a text such as `5m`.
        until: a time in ISO 8601, or an expression of one.
    """

    ms: int | None = None
    seconds: str | None = None
    until: str | None = None
    kind: ClassVar[StepKind] = WAIT

    @property
    def word(self) -> str:
        """The key of the step's document."""
        if self.until is not None:
            return "sleepUntil"
        return "sleep" if self.ms is None else "sleepMs"

    def to_json(self) -> Any:
        if self.until is not None:
            return self.until
        return self.seconds if self.ms is None else self.ms


@dataclass(frozen=True, slots=True)
class SignalWait:
    """Waits for the first signal of one of several names, sent before or after the wait began.

    Args:
        names: of the signals, at most 20; templates.
        timeout_ms: how long it waits (ms).
        default: its output when the time is over, may hold expressions; NO_DEFAULT: it fails then.
    """

    names: tuple[str, ...]
    timeout_ms: int = DEFAULT_WAIT_MS
    default: Any = NO_DEFAULT
    kind: ClassVar[StepKind] = WAIT
    word: ClassVar[str] = "signal"

    def to_json(self) -> Any:
        return {"names": list(self.names), **_limits(self.timeout_ms, self.default)}


@dataclass(frozen=True, slots=True)
class Approval:
    """Waits for the decision of people.

    Args:
        title: what is asked; a template.
        assignees: names of tokens, or `group:<name>`, whose votes count; empty: everybody with the scope.
            Templates.
        needs: how many different people must say yes; one who says no decides at once.
        options: the choices in place of yes and no; empty for yes and no.
        form: a schema of the fields that who decides fills in (see `pipeweave.schema`); None for no form.
        context: a JSON value with expressions, shown beside the question.
        timeout_ms: how long it waits (ms).
        default: its output when the time is over, may hold expressions; NO_DEFAULT: it fails then.
        fails_when_rejected: a no fails the step with REJECTED, instead of completing it.
        four_eyes: who began the run cannot decide.
    """

    title: str
    assignees: tuple[str, ...] = ()
    needs: int = 1
    options: tuple[str, ...] = ()
    form: Mapping[str, Any] | None = None
    context: Any = None
    timeout_ms: int = DEFAULT_WAIT_MS
    default: Any = NO_DEFAULT
    fails_when_rejected: bool = False
    four_eyes: bool = field(default=False)
    kind: ClassVar[StepKind] = WAIT
    word: ClassVar[str] = "approval"

    def to_json(self) -> Any:
        shown: dict[str, Any] = {"title": self.title}
        shown |= {"assignees": list(self.assignees)} if self.assignees else {}
        shown |= {"needs": self.needs} if self.needs != 1 else {}
        shown |= {"options": list(self.options)} if self.options else {}
        shown |= {} if self.form is None else {"form": dict(self.form)}
        shown |= {} if self.context is None else {"context": self.context}
        shown |= _limits(self.timeout_ms, self.default)
        shown |= {"onReject": "fail"} if self.fails_when_rejected else {}
        shown |= {"fourEyes": True} if self.four_eyes else {}
        return shown


WaitStep = Sleep | SignalWait | Approval


def default_value(step: SignalWait | Approval) -> Any:
    """What a step gives when its time is over; None, too, where it fails then."""
    return None if step.default is NO_DEFAULT else step.default
