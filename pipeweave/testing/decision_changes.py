"""Says what the rules of a run would decide otherwise today than they did when the run was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeweave.authoring import TaskSpec
from pipeweave.spec import PipelineSpec
from pipeweave.testing.recorded_run import RecordedRun, RecordedStep
from pipeweave.testing.redeciding import (
    FAILS,
    OPEN,
    RUNS,
    SKIPPED,
    StepDecision,
    decisions,
    failed_attempts,
)

What = Literal["step", "items", "choice", "output", "params", "retries", "rounds", "rule"]


@dataclass(frozen=True, slots=True)
class DecisionChange:
    """One thing that is decided otherwise.

    Args:
        what: `step` (whether it runs), `items` (of a map), `choice` and `output` (of a step of the engine),
            `params`, `retries`, `rounds` (of a loop), or `rule` (that takes care of its error).
        then: the value in the record.
        now: the value of today.
        said: both, for people.
    """

    step: str
    what: What
    then: Any
    now: Any
    said: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of one run.

    Args:
        changes: in the order of the pipeline.
        undecided: by the reason, the steps of which nothing can be said.
    """

    changes: list[DecisionChange]
    undecided: dict[str, list[str]]


def decided_again(
    record: RecordedRun,
    spec: PipelineSpec,
    before: PipelineSpec | None = None,
    options: Mapping[str, TaskSpec] | None = None,
) -> Decided:
    """Compare the decisions of a run with those that a definition leads to.

    Args:
        spec: the definition of today.
        before: that of the run; without it, no params are compared, and no reasons of then are named.
        options: of the tasks of today, by id.
    """
    chosen_mode = str(record.run["failureMode"])
    mode = None if before is not None and before.failure_mode == chosen_mode else chosen_mode
    now, ends_early = decisions(spec, record, options, mode=mode)
    then = {} if before is None else decisions(before, record, mode=chosen_mode)[0]
    compared = _Compared(record, then, ends_early=ends_early)
    undecided: dict[str, list[str]] = {}
    changes: list[DecisionChange] = []
    for step_id, decision in now.items():
        if decision.word == OPEN:
            undecided.setdefault(decision.why, []).append(step_id)
        else:
            changes += compared.step(step_id, decision)
    changes += [_gone(id, each) for id, each in record.steps.items() if id not in now]
    return Decided(changes, undecided)


def _gone(step_id: str, recorded: RecordedStep) -> DecisionChange:
    return DecisionChange(step_id, "step", recorded.status, None, f"was {recorded.status}, now is gone")


@dataclass(frozen=True, slots=True)
class _Compared:
    record: RecordedRun
    then: Mapping[str, StepDecision]
    ends_early: bool

    def step(self, step_id: str, now: StepDecision) -> Iterator[DecisionChange]:
        recorded = self.record.steps.get(step_id)
        if recorded is None:
            yield _whether(step_id, None, "was not there", now)
        elif recorded.status == "cancelled":
            yield from self._cancelled(step_id, now)
        elif recorded.status == "skipped":
            if now.word != SKIPPED:
                why = self.then.get(step_id, StepDecision()).why
                yield _whether(step_id, "skipped", f"was skipped{_in_brackets(why)}", now)
        elif now.word == SKIPPED or (now.word == FAILS and recorded.task_run.get("errorCode") != now.code):
            yield _whether(step_id, recorded.status, f"was {recorded.status}", now)
        elif now.word == RUNS:
            yield from self._both_ran(step_id, recorded, now)

    def _cancelled(self, step_id: str, now: StepDecision) -> Iterator[DecisionChange]:
        """The failure of another step ended the run before it. Whoever cancels a run, and its time limit,
        may do so again.
        """
        if self.record.was_failed_by_a_step and now.word == RUNS and not self.ends_early:
            yield _whether(step_id, "cancelled", "was cancelled (the run had failed)", now)

    def _both_ran(self, step_id: str, recorded: RecordedStep, now: StepDecision) -> Iterator[DecisionChange]:
        kept = recorded.task_run
        items = kept.get("mapCount") if now.items is None else kept.get("mapCount") or 0
        yield from _differing(step_id, "items", items, now.items, "was mapped into {} items")
        if now.is_made:
            yield from self._made(step_id, recorded, now)
        for number, code, _, was_retried in failed_attempts(recorded):
            is_retried = now.retries.get(number, was_retried)
            if is_retried != was_retried:
                words = ("was tried again", "now is final")
                words = words if was_retried else ("was final", "now is tried again")
                said = f"attempt {number} failed with {code}: {words[0]}, {words[1]}"
                yield DecisionChange(step_id, "retries", was_retried, is_retried, said)
        if now.rounds is not None and recorded.rounds is not None:
            yield from _rounds(step_id, len(recorded.rounds), now.rounds)
        yield from self._rule(step_id, recorded, now)
        then = self.then.get(step_id)
        if then is not None and then.word == RUNS and step_id not in self.record.edited_steps:
            yield from _differing(step_id, "params", then.params, now.params, "was given other params")

    def _made(self, step_id: str, recorded: RecordedStep, now: StepDecision) -> Iterator[DecisionChange]:
        chosen = recorded.task_run.get("selectedNext")
        before, after = None if chosen is None else sorted(chosen), None
        if now.chosen is not None:
            after = sorted(now.chosen)
        if before != after:
            said = f"chose {_names(before)}, now {_names(after)}"
            yield DecisionChange(step_id, "choice", before, after, said)
        elif recorded.why_unknown is None:
            yield from _differing(
                step_id, "output", recorded.result().output, now.value, "came to another value"
            )

    def _rule(self, step_id: str, recorded: RecordedStep, now: StepDecision) -> Iterator[DecisionChange]:
        if recorded.failure() is None:
            return
        before = self.then[step_id].rule if step_id in self.then else None
        was_handled = recorded.status == "completed"
        if before == now.rule or (before is None and was_handled == (now.rule is not None)):
            return
        names = [each or "nothing" for each in (before or ("a rule" if was_handled else None), now.rule)]
        said = f"its error was taken care of by {names[0]}, now by {names[1]}"
        yield DecisionChange(step_id, "rule", before, now.rule, said)


def _whether(step_id: str, status: str | None, said: str, now: StepDecision) -> DecisionChange:
    word = "fails before it begins" if now.word == FAILS else now.word
    return DecisionChange(step_id, "step", status, now.word, f"{said}, now {word}{_in_brackets(now.why)}")


def _differing(step_id: str, what: What, then: Any, now: Any, said: str) -> Iterator[DecisionChange]:
    if then != now:
        text = said if what != "items" else f"{said.format(_count(then))}, now into {_count(now)}"
        yield DecisionChange(step_id, what, then, now, text)


def _rounds(step_id: str, before: int, after: int) -> Iterator[DecisionChange]:
    if before != after:
        now = f"now after {after}" if after else f"now goes on after {before}"
        yield DecisionChange(
            step_id, "rounds", before, after or None, f"was over after {before} rounds, {now}"
        )


def _count(items: int | None) -> str:
    return "no" if items is None else f"{items:,}"


def _names(chosen: list[str] | None) -> str:
    return "all" if chosen is None else ", ".join(chosen) or "none"


def _in_brackets(why: str) -> str:
    return f" ({why})" if why else ""
