"""What a random pipeline is, and what a run of it comes to: the words of `branch_model.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipeweave.spec import PipelineSpec

FAILED = ("failed", "timeout", "cancelled")
WITH_OUTPUT = ("completed", "partial")
# What a condition gives that cannot be evaluated, and the code that its step has then: it is no truth value,
# or a part of a value is missing.
BROKEN: Final = {"no truth": "EXPRESSION_FAILED", "missing": "INVALID_REFERENCE"}
# The code of tasks that fail, in all engines that are compared.
BOOM: Final = "BOOM"
# And of those that may succeed when they are tried again.
WEAK: Final = "WEAK"
# What nobody signals, decides or reports.
NEVER: Final = object()


@dataclass(frozen=True, slots=True)
class End:
    """How a step ended in the model.

    Args:
        cause: of a skipped step: `condition`, `failure`, or None if it was not chosen.
        chosen: the successors that it chose; None for all.
        code: of its error; also of one that was handled.
        is_handled: something took care of the error.
        items_failed: whether items of it failed that count for the run by themselves.
    """

    status: str
    cause: str | None = None
    chosen: frozenset[str] | None = None
    output: Any = None
    code: str | None = None
    is_handled: bool = False
    items_failed: bool = False


# What a condition comes to, by how the steps before ended: True, False or one of BROKEN.
Answer = Callable[[Mapping[str, End]], Any]
# Whether a rule for errors is for the error of a step, by its id and its code.
Fits = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Inner:
    """What a run inside of a run comes to.

    Args:
        calls: the steps of it that are called, in their order.
        output: None if it fails.
        is_fine: whether it ends well.
        tells: its output is what it sees: the code of an error, the outcome of a run, or the status of a
            step.
    """

    calls: tuple[str, ...] = ()
    output: Any = None
    is_fine: bool = True
    tells: bool = False

    def seeing(self, seen: Any) -> Inner:
        """The same, where it sees this."""
        return replace(self, output={"told": seen}) if self.tells else self


@dataclass(slots=True)
class Branches:
    """A random pipeline, the input of its run, and what comes from outside.

    Args:
        answers: of each condition, by its text.
        fits: of each condition of a rule for errors, by its text.
        fails: the steps, and the items as (step, index), that fail.
        tries: how many attempts of steps that are tried again fail.
        chooses: the successors that tasks choose.
        inner: what runs inside of it come to, by their places: a step, `<step>.onError`,
            `<step>.compensate`, `errorHandlers[n]`, `finally`.
        rounds: how many rounds loops have; more than they may have: they do not end.
        decisions: of people, by approval; NEVER where nobody decides.
        reports: of other systems, by the steps that suspend themselves; NEVER where nothing comes.
        signals: by name.
    """

    spec: PipelineSpec
    input: dict[str, Any]
    answers: dict[str, Answer]
    fits: dict[str, Fits]
    fails: set[Any]
    tries: dict[str, int]
    chooses: dict[str, list[str]]
    inner: dict[str, Inner]
    rounds: dict[str, int]
    decisions: dict[str, Any]
    reports: dict[str, Any]
    signals: dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """How a run ends in the model, how its steps end, how often each is called, and what follows its steps.

    Args:
        failures: the steps that let the run fail.
        taken_back: the steps that are taken back, in no particular order.
        finally_output: what runs at the end gives; None if nothing does, or if it fails.
        output: of the run.
        decided: what it was to come to, before what runs at the end.
    """

    run_status: str
    ends: dict[str, End] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    failures: set[str] = field(default_factory=set)
    taken_back: set[str] = field(default_factory=set)
    finally_output: Any = None
    output: Any = None
    decided: str = ""
