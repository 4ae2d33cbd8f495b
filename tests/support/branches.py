"""Random pipelines with all kinds of steps, failures and what follows them; `branch_model.py` says what their
runs come to.

What they run inside of them are REMEDIES, or bodies of one step. Tasks are `act` and `act_limited`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeweave.errors import InvalidSpec
from pipeweave.spec import (
    ALL,
    ALL_DONE,
    Approval,
    AsyncDefaults,
    Body,
    Case,
    ChildCall,
    ChildPipeline,
    Choice,
    ErrorRule,
    FailIf,
    Gather,
    JoinRule,
    LoopStep,
    MapSpec,
    PipelineSpec,
    SignalWait,
    StepRetry,
    StepSpec,
    Transform,
    engine_task,
    parse_spec,
)
from pipeweave.spec.joins import SETTLED
from pipeweave.spec.rules import ITEM_FAILURES
from support.branch_values import FAILED, NEVER, WEAK, Answer, Branches, Fits, Inner

# Pipelines that steps run, also when something has happened, and what a run of each comes to.
REMEDIES: tuple[dict[str, Any], ...] = (
    {"id": "cured", "steps": [{"id": "cure", "task": "act"}]},
    {"id": "worse", "steps": [{"id": "worsen", "task": "act"}]},
    {
        "id": "saved",
        "steps": [
            {"id": "risk", "task": "act", "onError": {"pipeline": "cured"}},
            {"id": "rest", "task": "act", "params": {}},
        ],
        "finally": {"pipeline": "cured"},
    },
    {"id": "untidy", "steps": [{"id": "neat", "task": "act"}], "finally": {"pipeline": "worse"}},
)
ALWAYS_FAIL = frozenset({"worsen", "risk"})
_INNER = {
    "cured": Inner(("cure",), {"of": "cure"}),
    "worse": Inner(("worsen",), None, is_fine=False),
    "untidy": Inner(("neat", "worsen"), None, is_fine=False),
    "saved": Inner(("risk", "cure", "rest", "cure"), {"of": "rest"}),
}
_ONCE_MORE = StepRetry(attempts=2, delay_ms=1, backoff="fixed")
_KINDS = {
    "task": 10,
    "map": 2,
    "choice": 2,
    "transform": 3,
    "gather": 1.5,
    "pipeline": 1.5,
    "loop": 1,
    "inner_map": 1.5,
    "signal": 0.7,
    "approval": 0.7,
    "suspended": 1,
}
# The codes of errors that are not of the kind STEP_EXECUTION.
_OTHER_KINDS = {
    "WAIT_TIMEOUT": "TIMEOUT",
    "EXPRESSION_FAILED": "EXPRESSION",
    "INVALID_REFERENCE": "EXPRESSION",
    "PARALLEL_FAILED": "PARALLEL",
    "ASYNC_FAILED": "ASYNC",
    WEAK: "MAX_RETRIES_EXCEEDED",
}


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: list[StepSpec] = []
        self.input: dict[str, Any] = {"flags": {}, "lists": {}}
        self.answers: dict[str, Answer] = {}
        self.fails: set[Any] = set()
        self.tries: dict[str, int] = {}
        self.chooses: dict[str, list[str]] = {}
        self.fits: dict[str, Fits] = {}
        self.inner: dict[str, Inner] = {}
        self.rounds: dict[str, int] = {}
        self.decisions: dict[str, Any] = {}
        self.reports: dict[str, Any] = {}
        self.signals: dict[str, Any] = {}
        self.how_often_failing = chance.choice([0.0, 0.1, 0.25])
        self.how_often_handled = chance.choice([0.0, 0.3, 0.6])
        self.how_often_taken_back = chance.choice([0.0, 0.4])
        self.width = chance.choice([1, 2, 3, 12])

    def make(self, id: str, sizes: Sequence[int]) -> Branches:
        chance = self.chance
        for number in range(chance.randint(2, chance.choice(sizes))):
            self._add(f"s{number}")
        self._wire_choices()
        ending: dict[str, Any] = {}
        if chance.random() < 0.3:
            ending["finally_call"] = self._call("finally", "last", "${run.outcome}")
        spec = PipelineSpec(id, tuple(self.steps), error_rules=self._error_rules(), **ending)
        outside = self.decisions, self.reports, self.signals
        wishes = self.answers, self.fits, self.fails | ALWAYS_FAIL, self.tries, self.chooses
        return Branches(spec, self.input, *wishes, self.inner, self.rounds, *outside)

    def _add(self, id: str) -> None:
        chance, names = self.chance, [each.id for each in self.steps]
        count = min(len(names), chance.randint(0 if len(names) > 2 else 1, self.width))
        needs = tuple(sorted(chance.sample(names, count), key=names.index))
        rules: dict[str, Any] = {"join": self._join(len(needs)), "continue_on_error": chance.random() < 0.15}
        if chance.random() < 0.35:
            rules["condition"] = self._condition(id, needs, is_early=rules["join"].is_early)
        kind = chance.choices([*_KINDS], [*_KINDS.values()])[0]
        if kind == "gather" and len(needs) < 2:
            kind = "transform"
        self.steps.append(self._with_calls(getattr(self, f"_{kind}")(id, needs, rules)))

    def _join(self, needs: int) -> JoinRule:
        if needs < 2 or self.chance.random() < 0.6:
            return ALL
        return self.chance.choice([ALL_DONE, JoinRule(at_least=self.chance.randint(1, needs)), JoinRule(1)])

    # --- conditions ---------------------------------------------------------------------------------------

    def _condition(self, id: str, needs: tuple[str, ...], *, is_early: bool = False) -> str:
        if not needs or is_early or self.chance.random() < 0.5:
            return self._flag(id)
        before = self.chance.choice(needs)
        ended_well = f"status.{before} == 'completed'"
        shapes: list[tuple[str, Answer]] = [
            (ended_well, lambda ends: ends[before].status == "completed"),
            (f"errors.{before} == null", lambda ends: ends[before].status not in FAILED),
            (f"steps.{before} == null", lambda ends: ends[before].output is None),
        ]
        if self._is_task(before):
            shapes.append(
                (f"steps.{before}.of == '{before}'", lambda ends: _is_of(before, ends[before].output))
            )
        text, answer = self.chance.choice(shapes)
        self.answers[text] = answer
        return text

    def _is_task(self, id: str) -> bool:
        [step] = [each for each in self.steps if each.id == id]
        return step.is_called and id not in self.reports

    def _flag(self, id: str) -> str:
        flag = f"f{len(self.input['flags'])}"
        value = self.chance.choices([True, False, None, "no truth"], [6, 4, 1, 0.5])[0]
        self.input["flags"][flag] = value
        text = f"input.flags.{flag}"
        self.answers[text] = lambda ends: value
        return text

    # --- kinds of steps -----------------------------------------------------------------------------------

    def _task(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        if self.chance.random() < self.how_often_failing:
            self.tries[id] = self.chance.randint(1, 2)
            return StepSpec(id, "act", needs, retry=_ONCE_MORE, **rules)
        if self.chance.random() < self.how_often_failing:
            self.fails.add(id)
        return StepSpec(id, self.chance.choice(["act", "act", "act_limited"]), needs, **rules)

    def _map(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        count = self.chance.choice([0, 1, 3, 9])
        self.input["lists"][id] = list(range(count))
        if self.chance.random() < self.how_often_failing:
            self.fails |= {(id, each) for each in range(count) if self.chance.random() < 0.4}
        over = MapSpec(f"${{input.lists.{id}}}", failure=self.chance.choice(ITEM_FAILURES))
        return StepSpec(id, "act", needs, map=over, **rules)

    def _transform(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        fail_if: tuple[FailIf, ...] = ()
        if self.chance.random() < self.how_often_failing:
            fail_if = (FailIf(self._flag(id), "WRONG", "it is ${input.flags.f0}"),)
        decides = Transform({"made": 1}, fail_if)
        return StepSpec(id, engine_task(decides), needs, decides=decides, **rules)

    def _choice(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        decides = Choice(())
        return StepSpec(id, engine_task(decides), needs, decides=decides, join=rules["join"])

    def _gather(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        decides = Gather(needs)
        return StepSpec(
            id,
            engine_task(decides),
            needs,
            decides=decides,
            join=SETTLED,
            continue_on_error=rules["continue_on_error"],
        )

    # --- runs inside of the run ---------------------------------------------------------------------------

    def _pipeline(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        decides = ChildPipeline(self._remedy(id))
        retry = _ONCE_MORE if self.chance.random() < 0.3 else None
        return StepSpec(id, engine_task(decides), needs, decides=decides, retry=retry, **rules)

    def _loop(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        chance, most = self.chance, self.chance.randint(1, 3)
        self.rounds[id] = chance.randint(1, 4)
        until = f"loop.index == {self.rounds[id] - 1}" if chance.random() < 0.7 else None
        self.rounds[id] = self.rounds[id] if until is not None else most
        body: ChildPipeline | Body
        body = ChildPipeline(self._remedy(id)) if chance.random() < 0.5 else self._body(id, f"{id}_round")
        decides = LoopStep(body, most, until, collect=chance.random() < 0.3)
        return StepSpec(id, engine_task(decides), needs, decides=decides, **rules)

    def _inner_map(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        chance, count = self.chance, self.chance.choice([0, 1, 3, 5])
        self.input["lists"][id] = list(range(count))
        over = MapSpec(
            f"${{input.lists.{id}}}", None, chance.choice([None, 1, 2]), failure=chance.choice(ITEM_FAILURES)
        )
        decides: ChildPipeline | Body
        if chance.random() < 0.4:
            decides = ChildPipeline(self._remedy(id))
        else:
            failing = [each for each in range(count) if chance.random() < self.how_often_failing]
            self.fails |= {(id, each) for each in failing}
            fail_if = FailIf(f"mapIndex in {failing}", "ITEM", "it was to fail")
            made = Transform({"of": f"${{len(input.lists.{id})}}"}, (fail_if,))
            decides = Body((StepSpec(f"{id}_each", engine_task(made), decides=made),))
            self.inner[id] = Inner((), {"of": count})
        return StepSpec(id, engine_task(decides), needs, decides=decides, map=over, **rules)

    def _remedy(self, place: str) -> str:
        """A pipeline that is run at a place."""
        names = ["cured", "saved", *(["worse", "untidy"] if self.how_often_failing else [])]
        name = self.chance.choice(names)
        self.inner[place] = _INNER[name]
        return name

    def _body(self, place: str, id: str) -> Body:
        """A body of one step, which is called."""
        is_fine = self.chance.random() >= self.how_often_failing
        self.inner[place] = Inner((id,), {"of": id} if is_fine else None, is_fine)
        self.fails |= set() if is_fine else {id}
        return Body((StepSpec(id, "act"),))

    def _call(self, place: str, id: str, seen: str) -> ChildCall:
        """What runs when something has happened.

        Args:
            id: of the step, if it is a body.
            seen: an expression that it may see.
        """
        match self.chance.choice(["pipeline", "body", "telling body"]):
            case "pipeline":
                return ChildCall(ChildPipeline(self._remedy(place)))
            case "body":
                return ChildCall(self._body(place, id))
        self.inner[place] = Inner(tells=True)
        told = Transform({"told": seen})
        return ChildCall(Body((StepSpec(id, engine_task(told), decides=told),)))

    def _with_calls(self, step: StepSpec) -> StepSpec:
        """The step with what takes care of its error, and with what takes it back."""
        calls: dict[str, Any] = {}
        if self.chance.random() < self.how_often_handled / 2:
            call = self._call(f"{step.id}.onError", f"{step.id}_mend", "${error.code}")
            calls["on_error"] = ErrorRule(call, is_handled=self.chance.random() < 0.8)
        if self.chance.random() < self.how_often_taken_back:
            seen = f"${{status.{step.id}}}"
            calls["compensate"] = self._call(f"{step.id}.compensate", f"{step.id}_back", seen)
        return replace(step, **calls)

    def _error_rules(self) -> tuple[ErrorRule, ...]:
        rules = []
        for number in range(3):
            if self.chance.random() < self.how_often_handled:
                call = self._call(f"errorHandlers[{len(rules)}]", f"rule{number}", "${error.code}")
                condition = self._condition_of_rule()
                rules.append(ErrorRule(call, condition, is_handled=self.chance.random() < 0.8))
        return tuple(rules)

    def _condition_of_rule(self) -> str | None:
        step = self.chance.choice(self.steps).id
        shapes: list[tuple[str, Fits]] = [
            (f"error.step == '{step}'", lambda id, code: id == step),
            ("error.code == 'BOOM'", lambda id, code: code == "BOOM"),
            ("${error.kind} == 'STEP_EXECUTION'", lambda id, code: code not in _OTHER_KINDS),
            (
                "error.kind in ['EXPRESSION', 'PARALLEL']",
                lambda id, code: _OTHER_KINDS.get(code) in ("EXPRESSION", "PARALLEL"),
            ),
            ("error.attempts > 1", lambda id, code: code == WEAK),
            # What cannot be evaluated is false.
            ("error.attempts / 0 == 1", lambda id, code: False),
        ]
        if self.chance.random() < 0.3:
            return None
        text, self.fits[text] = self.chance.choice(shapes)
        return text

    # --- steps that wait ----------------------------------------------------------------------------------

    def _signal(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        default = {} if self.chance.random() < 0.5 else {"default": {"of": "nobody"}}
        decides = SignalWait((f"go_{id}",), **default)
        if self.chance.random() < 0.6:
            self.signals[f"go_{id}"] = self.chance.randint(0, 9)
        return StepSpec(id, engine_task(decides), needs, decides=decides, **rules)

    def _approval(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        default = {} if self.chance.random() < 0.5 else {"default": {"comment": "nobody"}}
        fails = self.chance.random() < 0.5
        decides = Approval(f"Is {id} right?", fails_when_rejected=fails, **default)
        self.decisions[id] = self.chance.choice([True, False, NEVER])
        return StepSpec(id, engine_task(decides), needs, decides=decides, **rules)

    def _suspended(self, id: str, needs: tuple[str, ...], rules: dict[str, Any]) -> StepSpec:
        failed = {"status": "failed", "error": "it broke elsewhere"}
        self.reports[id] = self.chance.choice([{"of": id}, {"of": id}, failed, NEVER])
        return StepSpec(id, "act", needs, suspends=AsyncDefaults(), **rules)

    # --- choices ------------------------------------------------------------------------------------------

    def _wire_choices(self) -> None:
        """Choices get cases, and tasks choose: all of them among the steps that directly follow."""
        for at, step in enumerate(self.steps):
            after = [each.id for each in self.steps if step.id in each.needs]
            if isinstance(step.decides, Choice):
                cases = self._cases(step, after)
                self.steps[at] = replace(step, decides=Choice(cases))
            elif self._is_task(step.id) and self.chance.random() < 0.2:
                self.chooses[step.id] = [each for each in after if self.chance.random() < 0.5]

    def _cases(self, step: StepSpec, after: list[str]) -> tuple[Case, ...]:
        count = self.chance.randint(1, 3)
        branches: list[list[str]] = [[] for _ in range(count + 1)]
        for each in after:
            self.chance.choice(branches).append(each)
        # What is in the last list is in no branch.
        cases = [Case(self._flag(step.id), tuple(each)) for each in branches[:count]]
        if count > 1 and self.chance.random() < 0.4:
            cases[-1] = Case(None, cases[-1].next)
        return tuple(cases)


def _is_of(id: str, output: Any) -> Any:
    """Whether `output.of == id`; of a missing output it is false."""
    if output is None:
        return False
    return output["of"] == id if "of" in output else "missing"


# Mostly small ones: they are many in the same time, and reach most of what there is.
SIZES = (5, 8, 8, 26)


def random_branches(chance: random.Random, id: str, sizes: Sequence[int] = SIZES) -> Branches:
    """A random pipeline with its input, as its document is read: edges may be added to what was made.

    Args:
        sizes: one of them is how many steps it has at most.
    """
    while True:
        made = _Maker(chance).make(id, sizes)
        try:
            made.spec = parse_spec(made.spec.to_json())
        except InvalidSpec:
            continue
        for step, chosen in made.chooses.items():
            made.chooses[step] = [each for each in chosen if step in made.spec.by_id[each].needs]
        return made
