"""Starts runs: a form made from the pipeline's input schema, with the plan of the run beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeweave.api.ui import forms, run_plan
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.errors import NotFound

FAILURE_MODES = [
    ("", "that of the pipeline"),
    ("fail-fast", "fail-fast"),
    ("continue", "continue"),
    ("partial-merge", "partial-merge"),
]
_FURTHER = (
    Field(
        "priority",
        "Priority",
        "number",
        about="Lower runs first. Empty: that of the pipeline.",
        is_further=True,
    ),
    Field("failureMode", "When a step fails", "choice", choices=FAILURE_MODES, is_further=True),
    Field(
        "runToken",
        "Run token",
        about="A second trigger with the same token and input starts nothing.",
        is_further=True,
    ),
)
# Warnings and mistakes that are listed.
_MOST = 10


def input_of(view: View, pipeline_id: str) -> Any:
    """The input that the form shows at first: that of the run that the address names, if any."""
    run_id = view.parameters.get("from")
    if not run_id:
        return None
    try:
        run = view.ask("runs.get_run", {"load": "true", "taskRuns": "0"}, id=run_id)
    except NotFound:
        return None
    return run["input"] if run["pipelineId"] == pipeline_id else None


def schema_of(view: View, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pipeline's own input schema, else the fields of those entry tasks that read the run's input."""
    own = spec.get("inputSchema")
    if own is not None:
        return own  # type: ignore[no-any-return]
    fields: dict[str, Any] = {}
    for task_id in dict.fromkeys(map(_reads_input, spec["steps"])):
        if task_id is None:
            continue
        try:
            schema = view.ask("tasks.input_schema", id=task_id)["schema"]
        except NotFound:
            continue
        for each in (schema or {}).get("fields", ()):
            fields.setdefault(each["name"], each)
    return {"fields": list(fields.values())} if fields else None


def _reads_input(step: Mapping[str, Any]) -> str | None:
    """The task of an entry step whose parameters are the run's input; None of any other step."""
    has_own = "params" in step or step.get("map") is not None
    return None if step["needs"] or has_own else step.get("task")


def _fields(view: View) -> list[Field]:
    pipeline_id = view.parameters.get("id", "")
    spec = view.ask("pipelines.get_pipeline", id=pipeline_id)["pipeline"]["spec"]
    schema, value = schema_of(view, spec), input_of(view, pipeline_id)
    if view.parameters.get("mode") == "json":
        fields = forms.as_json(schema, value)
    else:
        fields = forms.fields_of(schema, value, defaults=spec.get("defaults"))
    return [
        *fields,
        *_FURTHER,
        Field("mode", "", "hidden"),
        Field("from", "", "hidden"),
    ]


def _plan(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    """What the run would be: its levels, what holds it, how long it takes, what is wrong with its input."""
    asked = {"input": body["input"]} if "input" in body and view.parameters.keys() & _names(body) else None
    plan, _ = view.inside.ask(view.caller, "pipelines.dry_run", ids, None, asked)
    pipeline = view.ask("pipelines.get_pipeline", id=ids["id"])["pipeline"]
    sentences, title = list(_effects(plan))[:_MOST], f"Start {ids['id']}"
    return Effects(sentences, 1, plan=run_plan.plan_of(view, pipeline, plan), title=title)


def _names(body: Any) -> set[str]:
    value = body["input"]
    return {"input", *(f"input.{name}" for name in value)} if isinstance(value, dict) else {"input"}


def _effects(plan: Mapping[str, Any]) -> Iterator[str]:
    levels = plan["executionPlan"]
    steps = sum(len(each["tasks"]) for each in levels)
    wide = max((len(each["tasks"]) for each in levels), default=0)
    shape = f"{_number(steps, 'step')} in {_number(len(levels), 'level')}, up to {wide:,} at once"
    yield f"Starts 1 run: {shape}."
    for faults in plan.get("validationErrors", {}).values():
        for each in faults:
            name = f"input.{each['field']}" if each["field"] else "input"
            yield f"`{name}` {each['message']}"


def _number(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _options(body: Any) -> Sequence[str]:
    flags = {"priority": "--priority", "failureMode": "--failure-mode", "runToken": "--run-token"}
    options = ["-i", json.dumps(body["input"], ensure_ascii=False)] if "input" in body else []
    for name, flag in flags.items():
        if name in body:
            options += [flag, str(body[name])]
    return options


class _Trigger(Verb):
    """A trigger sends neither where its form began, nor how it was shown."""

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        body = super().read(texts)
        for name in ("mode", "from"):
            body.pop(name, None)
        return body


VERBS.add(
    _Trigger(
        "pipelines.trigger",
        "Start run",
        "Start a run",
        "The run has started.",
        command="pipeweave trigger {id}",
        effects=_plan,
        after="/runs/{pipelineRunId}",
        fields_of=_fields,
        options=_options,
    )
)


def _task_fields(view: View) -> list[Field]:
    task_id = view.parameters.get("taskId", "")
    schema = view.ask("tasks.input_schema", id=task_id)["schema"]
    return [
        Field("taskId", "Task", "hidden"),
        *forms.fields_of(schema, None),
        Field("priority", "Priority", "number", about="Lower runs first. Empty: that of the task."),
        Field("idempotencyKey", "Idempotency key", about="A second one with this key starts nothing."),
    ]


VERBS.add(
    Verb(
        "queue.queue_task",
        "Queue one",
        "Queue one task run",
        "The task run is queued.",
        after="/task-runs/{runId}",
        fields_of=_task_fields,
    )
)
