"""Read the steps of a pipeline document into StepSpecs: what each does, its rules, and its predecessors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeweave.labels import Labels
from pipeweave.size_limits import MAX_MAP_ITEMS, MAX_STEPS
from pipeweave.spec.async_defaults import NO_ASYNC_DEFAULTS
from pipeweave.spec.child_steps import Body, LoopStep
from pipeweave.spec.document_async import read_async
from pipeweave.spec.document_blocks import BlockReader, Entry
from pipeweave.spec.document_calls import CallReader
from pipeweave.spec.document_children import IN_MAP, ChildReader
from pipeweave.spec.document_durations import read_duration
from pipeweave.spec.document_edges import EdgeReader
from pipeweave.spec.document_engine_steps import EngineStepReader
from pipeweave.spec.document_expressions import ExpressionReader
from pipeweave.spec.document_graph import GraphMistakes, StepDraft
from pipeweave.spec.document_rules import (
    read_flag,
    read_join,
    read_on_exhausted,
    read_queue,
    read_requires,
    read_retry,
    read_sandbox,
    renamed,
)
from pipeweave.spec.document_waits import WaitReader
from pipeweave.spec.engine_steps import ENGINE_TASK_PREFIX, Choice, EngineStep, Gather, engine_task
from pipeweave.spec.joins import MAX_EARLY_PREDECESSORS, SETTLED
from pipeweave.spec.pipeline_spec import MapSpec, StepSpec
from pipeweave.spec.references import json_type
from pipeweave.spec.rules import FAILS_RUN, ITEM_FAILURES, ItemFailure
from pipeweave.spec.words_of_others import WORDS

# What a step does: it has exactly one of these.
_DEEDS = (
    *("task", "adapter", "choice", "transform", "gather"),
    *("sleep", "sleepMs", "sleepUntil", "signal", "approval", "pipeline", "loop"),
)
_STEP_KEYS = (
    *("id", *_DEEDS, "action", "needs", "params", "map", "parallel"),
    *("condition", "join", "retry", "timeout", "timeoutMs", "continueOnError", "onExhausted", "async"),
    *("onError", "compensate", "sandbox", "queue", "requires"),
)
# The same keys as another notation writes them.
_STEP_NAMES = {
    "continue_on_error": "continueOnError",
    "on_error": "onError",
    "on_exhausted": "onExhausted",
}
# Options of `@task` that a step does not have, but that an author may look for there.
_TASK_OPTIONS = ("retries", "retry_on", "concurrency", "rate_limit", "priority")
_MAP_KEYS = ("over", "as", "maxParallel", "failure", "steps")
MAX_PARALLEL = 1_000
# What only a step with a task has, and what a step of the engine does not have besides.
_OF_TASKS = (
    *("params", "map", "retry", "timeout", "timeoutMs", "onExhausted", "action", "async", "sandbox"),
    *("queue", "requires"),
)
# What a step with child runs has all the same.
_OF_CHILDREN = {
    "pipeline": ("params", "retry", "map"),
    "loop": ("params", "retry"),
    "map.steps": ("retry", "map"),
}
_NOT_OF = {
    "choice": ("condition", "continueOnError"),
    "gather": ("condition", "join"),
    "map.steps": ("params",),
}
_HINTS = {
    "choice": "its cases say what runs",
    "map.steps": "its steps may refer to whatever the step may",
    "gather": "the members of its block have conditions of their own",
}
# The time limit of an attempt of an adapter's action, where the document names none (ms).
ADAPTER_TIMEOUT_MS = 30_000


class StepReader(GraphMistakes):
    """Reads the steps of one document, or of a body in it, and collects their mistakes."""

    def __init__(self, outer: GraphMistakes | None = None, roots: frozenset[str] = frozenset()) -> None:
        super().__init__(outer, roots)
        self.expressions = ExpressionReader(self)
        self._engine_steps = EngineStepReader(self, self.expressions)
        self._waits = WaitReader(self, self.expressions)
        self._children = ChildReader(self, self.expressions, self.body)
        self.calls = CallReader(self, self.expressions, self._children)
        # The time limit of an attempt of steps that name none (ms), if the pipeline says it for all of them.
        self.step_timeout_ms: int | None = outer.step_timeout_ms if isinstance(outer, StepReader) else None

    def body(self, listed: Any, path: str, roots: frozenset[str]) -> Body:
        """Read the steps of a body.

        Its expressions become expressions of the step that is being read: what they name around the body
        precedes that step.

        Args:
            path: where they are in the document.
            roots: what they may name beside what the step may.
        """
        inner = StepReader(self, roots)
        steps = inner.steps(listed, path)
        self.expressions.take(inner.expressions)
        return Body(steps)

    def steps(self, listed: Any, path: str) -> tuple[StepSpec, ...]:
        """Read a list of steps; none if there are too many."""
        if not isinstance(listed, (list, tuple)):
            problem = "is required" if listed is None else f"must be a list, not {json_type(listed)}"
            self.wrong(path, problem, "missing" if listed is None else "invalid_type", "array")
            return ()
        blocks = BlockReader(self)
        before = len(self.errors)
        blocks.sequence(listed, path)
        entries = blocks.entries
        if not entries:
            if len(self.errors) == before:
                self.wrong(path, "must hold at least one step", "no_entry")
            return ()
        count = len(self.fields) + len(entries)
        if count > MAX_STEPS:
            why = f"are {count}, at most {MAX_STEPS} are allowed"
            self.wrong_graph("steps", why, "TOO_MANY_STEPS", ())
            return ()
        self.give_ids(entries)
        drafts = [self.draft(entry, entries) for entry in entries]
        EdgeReader(self, self.expressions, drafts).read()
        return tuple(self.step(each) for each in drafts)

    def give_ids(self, entries: list[Entry]) -> None:
        """Check the ids in the document; a step without one gets that of its task, or what it does.

        If another step has that id already, `_2`, `_3` … is appended.
        """
        for place, entry in enumerate(entries):
            if entry.members.get("id") is not None:
                entry.id = self.name(entry.members["id"], f"{entry.field}.id")
                if entry.id and entry.id in self.fields:
                    why = f"{entry.id!r} is the id of {self.fields[entry.id]}, too"
                    self.wrong_graph(f"{entry.field}.id", why, "DUPLICATE_STEP", (entry.id,))
                elif entry.id:
                    self.known[entry.id], self.fields[entry.id] = place, entry.field
        numbers: dict[str, int] = {}
        for place, entry in enumerate(entries):
            word = _word(entry.members) if entry.members.get("id") is None else None
            if word is not None:
                entry.id = word
                while entry.id in self.fields:
                    numbers[word] = numbers.get(word, 1) + 1
                    entry.id = f"{word}_{numbers[word]}"
                self.known[entry.id], self.fields[entry.id] = place, entry.field

    def draft(self, entry: Entry, entries: list[Entry]) -> StepDraft:
        """Read one step, but for the predecessors that its references add."""
        for key in entry.members:
            if key in _TASK_OPTIONS:
                self.wrong(
                    f"{entry.field}.{key}",
                    f"is an option of the task, not of a step; set it at the task: @task({key}=…)",
                    "unknown_key",
                )
        members = renamed(self, entry.members, _STEP_NAMES, entry.field)
        unchecked = [each for each in members if each not in _TASK_OPTIONS]
        self.unknown_keys(unchecked, _STEP_KEYS, entry.field, WORDS)
        compensate = self.calls.compensate(members.get("compensate"), f"{entry.field}.compensate")
        first = len(self.expressions.written)
        deed = self.deed(members, entry)
        decides = self.decision(deed, members, entry, entries)
        task = self.task(deed, members, entry)
        params, map_spec = self.params(members, entry), self.map(members, entry, deed)
        if params is not None:
            before = len(self.expressions.written)
            self.expressions.value(params, f"{entry.field}.params", has_item=map_spec is not None)
            if isinstance(decides, LoopStep):
                self.expressions.give_loop(before)
            if decides is None:
                self.expressions.allow_secrets(before)
        if map_spec is not None and map_spec.name is not None and map_spec.name in (params or {}):
            self.wrong(f"{entry.field}.map.as", f"{map_spec.name!r} is in `params`, too", "duplicate")
        timeout_ms = read_duration(self, members, "timeout", entry.field) or self.usual_timeout_ms(deed)
        suspends = read_async(self, members.get("async"), f"{entry.field}.async")
        step = StepSpec(
            id=entry.id,
            task=task if decides is None else engine_task(decides),
            params=params,
            map=map_spec,
            decides=decides,
            condition=self.expressions.condition(members.get("condition"), f"{entry.field}.condition"),
            join=read_join(self, members.get("join"), f"{entry.field}.join"),
            retry=read_retry(self, members.get("retry"), f"{entry.field}.retry"),
            timeout_ms=timeout_ms,
            continue_on_error=read_flag(self, members, "continueOnError", entry.field),
            on_exhausted=read_on_exhausted(self, members, entry.field),
            queue=read_queue(self, members.get("queue"), entry.field),
            requires=self.requires(members, entry),
            # The action of an adapter may always say that its work goes on elsewhere.
            suspends=suspends or (NO_ASYNC_DEFAULTS if deed == "adapter" else None),
            on_error=self.calls.on_error(members.get("onError"), f"{entry.field}.onError"),
            compensate=compensate,
            sandbox=read_sandbox(self, members, entry.field),
        )
        if isinstance(decides, Gather):
            step = replace(step, join=SETTLED)
        needs, is_written = self.needs(entry, entries, decides)
        self.count(len(needs), entry)
        return StepDraft(entry, step, needs, is_written, self.expressions.written[first:])

    def requires(self, members: Mapping[str, Any], entry: Entry) -> Labels | None:
        """The labels that a step requires, with the expressions of their values. None of them sees an item: a
        map requires the same for all of its items.
        """
        labels = read_requires(self, members.get("requires"), entry.field)
        if labels is not None:
            self.expressions.value(dict(labels), f"{entry.field}.requires")
        return labels

    def usual_timeout_ms(self, deed: str) -> int | None:
        """The time limit of an attempt of a step that names none (ms); None for what its task says.

        Args:
            deed: the key that says what the step does.
        """
        if deed not in ("task", "adapter"):
            return None
        return self.step_timeout_ms or (ADAPTER_TIMEOUT_MS if deed == "adapter" else None)

    def deed(self, members: Mapping[str, Any], entry: Entry) -> str:
        """The key that says what the step does; `task` where none does."""
        deeds = _deeds(members)
        if not deeds:
            self.wrong(f"{entry.field}.task", "is required", "missing")
            return "task"
        first, *others = deeds
        for each in others:
            problem = f"cannot be given together with `{first}`: a step does one thing"
            self.wrong(f"{entry.field}.{each}", problem, "conflict")
        is_of_task = first in ("task", "adapter")
        refused = _NOT_OF.get(first, ()) if is_of_task else (*_OF_TASKS, *_NOT_OF.get(first, ()))
        if first in _OF_CHILDREN:
            refused = tuple(each for each in refused if each not in _OF_CHILDREN[first])
        for key in refused:
            if members.get(key) is not None:
                hint = _HINTS[first] if key in _NOT_OF.get(first, ()) else "it runs no task"
                self.wrong(f"{entry.field}.{key}", f"is not allowed next to `{first}`: {hint}", "conflict")
        if first == "task" and members.get("action") is not None:
            self.wrong(f"{entry.field}.action", "is not allowed next to `task`: write `adapter`", "conflict")
        return first

    def task(self, deed: str, members: Mapping[str, Any], entry: Entry) -> str:
        """The id of the task that a step runs; empty if it runs none, or a wrong one."""
        if deed == "adapter":
            if members.get("action") is None:
                self.wrong(f"{entry.field}.action", "is required next to `adapter`", "missing")
                return ""
            adapter = self.name(members["adapter"], f"{entry.field}.adapter")
            action = self.name(members["action"], f"{entry.field}.action")
            return self.name(f"{adapter}.{action}", f"{entry.field}.action") if adapter and action else ""
        task = members.get("task")
        if deed != "task" or task is None:
            return ""
        if isinstance(task, str) and task.startswith(ENGINE_TASK_PREFIX):
            problem = f"{task[:80]!r} is reserved: no task of yours may begin with {ENGINE_TASK_PREFIX}"
            self.wrong(f"{entry.field}.task", problem, "invalid_id")
            return ""
        return self.name(task, f"{entry.field}.task")

    def decision(
        self, deed: str, members: Mapping[str, Any], entry: Entry, entries: list[Entry]
    ) -> EngineStep | None:
        """Read what the engine does for a step; None for a step with a task."""
        written, path = members.get(deed), f"{entry.field}.{deed}"
        match deed:
            case "choice":
                return Choice(self._engine_steps.cases(written, path))
            case "transform":
                return self._engine_steps.transform(written, path)
            case "gather":
                return Gather(self.gathered(entry, entries, written, path))
            case "sleep":
                return self._waits.sleep(written, path)
            case "sleepMs":
                return self._waits.sleep_ms(written, path)
            case "sleepUntil":
                return self._waits.sleep_until(written, path)
            case "signal":
                return self._waits.signal(written, path)
            case "approval":
                return self._waits.approval(written, path)
            case "pipeline":
                return self._children.pipeline(written, path)
            case "loop":
                return self._children.loop(written, path)
            case "map.steps":
                return self.body(members["map"]["steps"], path, IN_MAP)
        return None

    def gathered(self, entry: Entry, entries: list[Entry], written: Any, path: str) -> tuple[str, ...]:
        """The members of a gather: those of its block, or those that a normalised document names."""
        if entry.gathers is not None:
            return tuple(entries[each].id for each in entry.gathers)
        members = self._engine_steps.members(written, path)
        for place, each in enumerate(members):
            if each not in self.known:
                self.unknown_step(entry.id, each, f"{path}[{place}]")
        return members

    def needs(self, entry: Entry, entries: list[Entry], decides: EngineStep | None) -> tuple[set[str], bool]:
        """The predecessors that a step has without its references, and whether the document names them."""
        listed = entry.members.get("needs")
        if listed is None:
            if isinstance(decides, Gather) and entry.gathers is None:
                return {each for each in decides.members if each in self.known}, False
            return {entries[place].id for place in entry.before} - {""}, False
        if not isinstance(listed, (list, tuple)):
            self.wrong(
                f"{entry.field}.needs", f"must be a list of step ids, not {json_type(listed)}", "invalid_type"
            )
            return set(), True
        ids: set[str] = set()
        for place, each in enumerate(listed):
            if isinstance(each, str) and each in self.known:
                ids.add(each)
            else:
                self.unknown_step(entry.id, each, f"{entry.field}.needs[{place}]")
        return ids, True

    def params(self, members: Mapping[str, Any], entry: Entry) -> Mapping[str, Any] | None:
        params = members.get("params")
        if params is not None and not isinstance(params, Mapping):
            problem = f"must be an object of parameters by name, not {json_type(params)}"
            self.wrong(f"{entry.field}.params", problem, "invalid_type", "object")
            return None
        return params

    def map(self, members: Mapping[str, Any], entry: Entry, deed: str) -> MapSpec | None:
        written, path = members.get("map"), f"{entry.field}.map"
        if written is None:
            return None
        if not isinstance(written, Mapping):
            return self.map_over(written, None, path)
        self.unknown_keys(written, _MAP_KEYS, path)
        name = written.get("as")
        if name is not None and (not isinstance(name, str) or not name.isidentifier()):
            self.wrong(f"{path}.as", f"must be the name of a parameter, not {name!r}", "invalid_value")
            name = None
        if name is not None and deed == "map.steps":
            self.wrong(f"{path}.as", "is not allowed next to `steps`: they see it as ${item}", "conflict")
        if written.get("over") is None:
            self.wrong(f"{path}.over", "is required", "missing")
            return None
        spec = self.map_over(written["over"], name, f"{path}.over")
        parallel = self.parallel(written.get("maxParallel"), f"{path}.maxParallel", deed)
        failure = self.item_failure(written.get("failure"), f"{path}.failure")
        return spec if spec is None else replace(spec, max_parallel=parallel, failure=failure)

    def parallel(self, written: Any, path: str, deed: str) -> int | None:
        if written is None:
            return None
        if deed not in ("pipeline", "map.steps"):
            problem = (
                "is only for maps of pipelines or steps: write the task as the only one of `map.steps`, or "
                "give it a `concurrency`, which limits it wherever it runs"
            )
            self.wrong(path, problem, "conflict")
        elif isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MAX_PARALLEL:
            expected = f"a whole number from 1 to {MAX_PARALLEL:,}"
            self.wrong(path, f"must be {expected}, not {written!r}"[:500], "invalid_value", expected)
        else:
            return written
        return None

    def item_failure(self, written: Any, path: str) -> ItemFailure:
        rule = next((each for each in ITEM_FAILURES if each == written), None)
        if rule is None and written is not None:
            expected = ", ".join(ITEM_FAILURES)
            self.wrong(path, f"is {written!r}: use one of {expected}"[:500], "invalid_value", expected)
        return rule or FAILS_RUN

    def map_over(self, over: Any, name: str | None, path: str) -> MapSpec | None:
        if isinstance(over, (list, tuple)) and len(over) > MAX_MAP_ITEMS:
            why = f"has {len(over):,} items, a map takes at most {MAX_MAP_ITEMS:,}"
            self.wrong(path, why, "too_large")
            return None
        if isinstance(over, (list, tuple)) or (isinstance(over, str) and "${" in over):
            self.expressions.value(over, path)
            return MapSpec(list(over) if isinstance(over, tuple) else over, name)
        text = repr(over) if isinstance(over, str) else json_type(over)
        self.wrong(
            path, f"must be a list or a reference to one, like ${{steps.id}}, not {text}", "invalid_type"
        )
        return None

    def step(self, draft: StepDraft) -> StepSpec:
        """The step with its predecessors."""
        self.check_join(draft)
        needs = tuple(sorted(draft.needs, key=self.known.__getitem__))
        if not isinstance(draft.step.decides, Choice):
            return replace(draft.step, needs=needs)
        cases = tuple(
            replace(case, next=tuple(sorted(first, key=self.known.__getitem__)))
            for case, first in zip(draft.step.decides.cases, draft.cases, strict=True)
        )
        return replace(draft.step, needs=needs, decides=Choice(cases))

    def check_join(self, draft: StepDraft) -> None:
        join, path, count = draft.step.join, f"{draft.entry.field}.join", len(draft.needs)
        if join.at_least is None:
            return
        if count > MAX_EARLY_PREDECESSORS:
            problem = f"has {count} predecessors, at most {MAX_EARLY_PREDECESSORS} are allowed for this rule"
            self.wrong(path, problem, "too_large")
        if join.at_least > count:
            problem = f"waits for {join.at_least} of its predecessors, but the step has {count}"
            self.wrong(path, problem, "out_of_range")


def _word(members: Mapping[str, Any]) -> str | None:
    """The id of a step without one; None if it does nothing that could be named."""
    task = members.get("task")
    if task is not None:
        return task if isinstance(task, str) else None
    if members.get("adapter") is not None:
        action = members.get("action")
        return action if isinstance(action, str) else None
    deed = next(iter(_deeds(members)), None)
    return {"sleepMs": "sleep", "sleepUntil": "sleep", "map.steps": "map"}.get(str(deed), deed)


def _deeds(members: Mapping[str, Any]) -> list[str]:
    mapped = members.get("map")
    has_body = isinstance(mapped, Mapping) and mapped.get("steps") is not None
    return [*(each for each in _DEEDS if members.get(each) is not None), *(["map.steps"] if has_body else [])]
