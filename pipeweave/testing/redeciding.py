"""Decides the steps of a recorded run again, by a definition of today: the rules of a run get what each step
came to then, and nothing is called.

A step of which the record says nothing (it did not run then, or would run otherwise now) has no outcome here;
what depends on it is not decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from pipeweave import error_kinds
from pipeweave.authoring import TaskSpec, describe
from pipeweave.authoring.secret_means import SecretReferences
from pipeweave.errors import PipeWeaveError, TaskError
from pipeweave.spec import Gather, LoopStep, PipelineSpec, StepSpec, error_rules, rounds
from pipeweave.spec.engine_results import fill
from pipeweave.spec.expressions import parse_condition
from pipeweave.spec.rounds import AfterRound
from pipeweave.spec.rules import FAIL_FAST, Decision, decide_step
from pipeweave.spec.wait_steps import WaitStep
from pipeweave.testing.local_answers import Answers
from pipeweave.testing.local_attempts import retries_of
from pipeweave.testing.local_definitions import Definitions
from pipeweave.testing.local_result import StepResult
from pipeweave.testing.local_run import LocalRun
from pipeweave.testing.local_scope import seen_error, values_of_run
from pipeweave.testing.local_secrets import secret_scope
from pipeweave.testing.local_tree import LocalTree
from pipeweave.testing.local_waits import Outside
from pipeweave.testing.recorded_run import RecordedRun, RecordedStep

RUNS: Final = "runs"
SKIPPED: Final = "is skipped"
FAILS: Final = "fails"
OPEN: Final = "is not decided"
_UNKNOWN: Final = "unknown"

# Items of a map of which the params are compared.
MOST_ITEMS: Final = 1_000


@dataclass(slots=True)
class StepDecision:
    """What the rules say of one step.

    Args:
        word: RUNS, SKIPPED, FAILS (before it could begin), or OPEN.
        why: the reason, for people; empty for a step that runs.
        code: of the error with which it fails before it could begin.
        items: of a map: into how many it is mapped.
        params: what its call is given, of a map by item; None: not known.
        chosen: the successors that a step of the engine chose; None: all, or the step chooses nothing.
        value: the output of a step of the engine.
        is_made: whether the engine made the output here.
        retries: by the number of an attempt that failed, whether it is tried again.
        rounds: of a loop: after how many it is over; 0: not within those of the record.
        rule: the name of the rule that takes care of its error.
    """

    word: str = RUNS
    why: str = ""
    code: str | None = None
    items: int | None = None
    params: Any = None
    chosen: tuple[str, ...] | None = None
    value: Any = None
    is_made: bool = False
    retries: dict[int, bool] = field(default_factory=dict)
    rounds: int | None = None
    rule: str | None = None


def decisions(
    spec: PipelineSpec,
    record: RecordedRun,
    options: Mapping[str, TaskSpec] | None = None,
    *,
    mode: str | None = None,
) -> tuple[dict[str, StepDecision], bool]:
    """Decide all steps of a run: by step; and whether the failure of one of them ends the run early.

    Args:
        spec: the definition that decides.
        record: the run.
        options: of the tasks, by id, for their retries.
        mode: the failure mode; None for that of the definition.
    """
    run = _Redecided(spec, record, options or {}, mode or spec.failure_mode)
    for step_id in run.graph.order:
        run.decide_again(spec.by_id[step_id])
    ends_early = run.mode == FAIL_FAST and any(map(run.is_failure, run.results))
    return run.decided_again, ends_early


class _Redecided(LocalRun):
    """A run whose steps come to what the record says."""

    def __init__(
        self, spec: PipelineSpec, record: RecordedRun, options: Mapping[str, TaskSpec], mode: str
    ) -> None:
        nothing = Outside([], Answers(), Answers())
        tree = LocalTree(Definitions(spec, {}, {}, options), tenant="", uploads=None, outside=nothing)
        super().__init__(spec, record.input, tree, mode=mode, now=record.began_at)
        self.record = record
        self.decided_again: dict[str, StepDecision] = {}
        # The steps whose conditions and params have their values.
        self.begun: set[str] = set()

    @cached_property
    def of_run(self) -> Mapping[str, Any]:
        run = self.record.run
        values = values_of_run(self.spec, str(run["id"]), self.input, self.began_at)
        created = {**values["run"], "createdAt": run["createdAt"]}
        return {**values, "trigger": self.record.trigger, "run": created}

    def decide_again(self, step: StepSpec) -> None:
        start = self.start_of(step)
        self.decided_again[step.id] = decision = StepDecision()
        result = self.decide(step, start)
        if decision.word == RUNS and result.status == "skipped":
            decision.word, decision.why = SKIPPED, _why_skipped(result)
        result = self._cared_for(step, result, decision)
        result.is_passed_over |= step.continue_on_error and result.status in ("failed", "timeout")
        self.results[step.id] = result
        self.errors[step.id] = seen_error(step.id, result, self.tree.masks)
        self.ends[step.id] = max(start, self.record.ended_at(step.id) or start)

    def decide(self, step: StepSpec, start: datetime) -> StepResult:
        decision = self.decided_again[step.id]
        before = {id: self.predecessor(id) for id in self.graph.predecessors[step.id]}
        if decide_step(self.mode, before, step.id, step.join) is Decision.WAIT:
            behind = next(id for id in before if self.results[id].status == _UNKNOWN)
            return self._open(decision, self._why_open(behind))
        try:
            result = super().decide(step, start)
        except PipeWeaveError as error:
            result = StepResult("failed", error=error)
        if result.error is not None and step.id not in self.begun:
            return self._undone(step, result, result.error, decision)
        return result

    def _undone(
        self, step: StepSpec, result: StepResult, error: BaseException, decision: StepDecision
    ) -> StepResult:
        """An expression has no value, or what it gives is refused: the step fails before it begins."""
        unknown = [id for id in self.graph.ancestors(step.id) if self.results[id].status == _UNKNOWN]
        if unknown:
            return self._open(decision, self._why_open(min(unknown)))
        decision.word, decision.why, decision.code = FAILS, str(error), describe(error).code
        return result

    def _why_open(self, step_id: str) -> str:
        before = self.decided_again[step_id]
        return before.why if before.word == OPEN and before.why.startswith("behind ") else f"behind {step_id}"

    def _open(self, decision: StepDecision, why: str) -> StepResult:
        decision.word, decision.why = OPEN, why
        return StepResult(_UNKNOWN)

    # --- what a step comes to -----------------------------------------------------------------------------

    def once(self, step: StepSpec, item: Any = None, index: int | None = None) -> StepResult:
        decision = self.decided_again[step.id]
        decision.params = self._params(step, {}, self.start_of(step))
        result = self._as_recorded(step)
        recorded = self.record.steps.get(step.id)
        return result if recorded is None else self._tried_again(step, recorded, result, decision)

    def inside(self, step: StepSpec, item: Any, index: int | None) -> StepResult:
        decision, recorded = self.decided_again[step.id], self.record.steps.get(step.id)
        if step.own_body is None:
            decision.params = self._params(step, {}, self.start_of(step))
        if isinstance(step.decides, LoopStep) and recorded is not None and recorded.rounds is not None:
            decision.rounds = self._rounds(step, step.decides, recorded.rounds)
            if decision.rounds != len(recorded.rounds):
                return StepResult(_UNKNOWN)
        return self._as_recorded(step)

    def waited(self, step: StepSpec, wait: WaitStep, start: datetime) -> StepResult:
        return self._as_recorded(step)

    def made(self, step: StepSpec, decides: Any, now: datetime) -> StepResult:
        decision = self.decided_again[step.id]
        result = super().made(step, decides, now)
        if isinstance(decides, Gather) and any(
            self.results[each].status == _UNKNOWN for each in (*step.needs, *decides.members)
        ):
            return self._open(decision, self._why_open(next(iter(step.needs))))
        self.begun.add(step.id)
        decision.is_made, decision.chosen, decision.value = True, result.run_next, result.output
        return result

    def mapped(self, step: StepSpec) -> StepResult:
        decision, recorded = self.decided_again[step.id], self.record.steps.get(step.id)
        items = self.items(step)
        decision.items = len(items)
        now = self.start_of(step)
        of_items = ({"item": each, "mapIndex": index} for index, each in enumerate(items[:MOST_ITEMS]))
        decision.params = [self._params(step, each, now) for each in of_items]
        is_same = recorded is not None and (recorded.task_run.get("mapCount") or 0) == len(items)
        return self._as_recorded(step) if is_same else StepResult(_UNKNOWN)

    def _as_recorded(self, step: StepSpec) -> StepResult:
        self.begun.add(step.id)
        kept = self.record.steps.get(step.id)
        return StepResult(_UNKNOWN) if kept is None or kept.why_unknown else kept.result()

    def _params(self, step: StepSpec, of_item: Mapping[str, Any], now: datetime) -> Any:
        """What the call of a step is given; the run's input for a step without params."""
        if step.params is None:
            return of_item.get("item", self.input) if step.decides is not None else self.input
        secrets = secret_scope(step.params, SecretReferences())
        return fill(dict(step.params), {**self.scope(step), **of_item, **secrets}, now)

    def _rounds(self, step: StepSpec, loop: LoopStep, outputs: Sequence[Any]) -> int:
        """After how many of these rounds the loop is over; 0 if it goes on after the last of them."""
        scope, now = self.scope(step), self.start_of(step)

        def is_over(index: int) -> bool:
            assert loop.until is not None
            of_round = rounds.scope_of_round(index, outputs[index])
            return parse_condition(loop.until).is_true({**scope, **of_round}, now=now)

        for index in range(len(outputs)):
            if rounds.after_round(loop, index, lambda: is_over(index)) is not AfterRound.NEXT:  # noqa: B023
                return index + 1
        return 0

    def _tried_again(
        self, step: StepSpec, recorded: RecordedStep, result: StepResult, decision: StepDecision
    ) -> StepResult:
        """Ask of each failed attempt whether another one follows, until the answer is not that of then."""
        options = self.options.get(step.task)
        if step.retry is None and options is None:
            return result
        most, policy = retries_of(step, options)
        for number, code, error, was_retried in failed_attempts(recorded):
            may = policy.may_retry(code, is_retryable=bool(error.get("retryable", True)))
            decision.retries[number] = number < most and may
            if decision.retries[number] and not was_retried:
                return StepResult(_UNKNOWN)
            if was_retried and not decision.retries[number]:
                raised = TaskError(str(error.get("message") or code), code=code)
                return StepResult("failed", error=raised, attempts=number)
        return result

    def _cared_for(self, step: StepSpec, result: StepResult, decision: StepDecision) -> StepResult:
        """Ask which rule takes care of the error of a step. What its run comes to is in the record alone."""
        recorded = self.record.steps.get(step.id)
        failure = None if recorded is None or decision.word != RUNS else recorded.failure()
        if recorded is None or failure is None or result.status == _UNKNOWN:
            return result
        code, error = failure
        seen = error_kinds.as_seen(step.id, code, error, max(int(recorded.task_run.get("attempt") or 1), 1))
        constants = error_rules.constants_of(self.spec.variables)
        decision.rule = error_rules.fitting(step, self.spec.error_rules, constants, seen)
        was_handled = recorded.status == "completed"
        if was_handled and decision.rule is None:
            return StepResult("failed", error=TaskError(str(seen["message"]), code=code or "UNKNOWN"))
        if decision.rule is not None and not was_handled:
            rule = error_rules.named(step, self.spec.error_rules, decision.rule)
            return StepResult(_UNKNOWN) if rule.is_handled else result
        return result


def failed_attempts(recorded: RecordedStep) -> Iterator[tuple[int, str, Mapping[str, Any], bool]]:
    """The attempts that failed by themselves: number, code, error, and whether another one followed.

    What followed the last attempt that was allowed then, people wished.
    """
    attempts = recorded.attempts
    for place, each in enumerate(attempts):
        number = int(each["number"])
        if each["status"] in ("failed", "timeout") and number <= int(recorded.task_run["maxAttempts"]):
            is_last_allowed = number == int(recorded.task_run["maxAttempts"])
            was_retried = place + 1 < len(attempts) and not is_last_allowed
            yield number, str(each.get("errorCode") or "UNKNOWN"), each.get("error") or {}, was_retried


def _why_skipped(result: StepResult) -> str:
    if result.is_passed_over:
        return "its condition is false"
    return "a step before it failed" if result.follows_failure else "no step before it leads to it"
