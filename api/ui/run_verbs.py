"""The verbs of a run: pause, resume, run again, retry what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from pipeweave.api.ui.verbs import REASON, VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.domain import RunStatus, TaskStatus

VERSIONS = (("same", "the same version"), ("latest", "the newest version"))
_ENDED = ("completed", "failed", "timeout", "cancelled", "skipped")
_FAILED = {TaskStatus.FAILED.value, TaskStatus.TIMEOUT.value}


def _run(view: View, ids: Mapping[str, str]) -> Mapping[str, Any]:
    run: Mapping[str, Any] = view.ask("runs.get_run", {"taskRuns": "0"}, id=ids["id"])
    return run


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {status}" for status, number in counts.items()) or "nothing"


def _cancel_effects(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    """What the end of a run ends, and what stays."""
    run = _run(view, ids)
    if run["ending"] is not None:
        status = run["ending"]["endsAs"] if run["ending"]["error"] else RunStatus.CANCELLED.value
        return Effects([f"Cuts its ending off: no further part of it runs. The run is {status} then."])
    counts = run["counts"]
    opened = {status: number for status, number in counts.items() if status not in _ENDED}
    ended = {status: number for status, number in counts.items() if status in _ENDED}
    return Effects(
        [f"Ends 1 run. Task runs that end with it: {_listed(opened)}.", f"What stays: {_listed(ended)}."]
    )


def _pause_effects(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    counts = _run(view, ids)["counts"]
    running = counts.get("running", 0)
    waiting = sum(counts.get(each, 0) for each in ("pending", "ready", "queued"))
    return Effects([f"{running:,} task runs run and finish; {waiting:,} wait until the run is resumed."])


def _retry_effects(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    query = {"pipelineRunId": body.get("pipelineRunId"), "limit": "5"}
    listing = view.ask("dead_letters.list_dead_letters", query)
    number = listing["total"]
    what = "1 dead letter" if number == 1 else f"{number:,} dead letters"
    sample = [f"{each['stepId']} {each['errorCode']}" for each in listing["items"]]
    return Effects([f"Retries {what} of this run, which goes on from there."], number, sample)


def _rerun_effects(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    step = body.get("fromStep")
    if not step:
        return Effects(["Starts 1 new run, in which every step runs."])
    sentences = [f"Starts 1 new run. `{step}` and all steps behind it run; others keep their results."]
    if "input" in body:
        sentences.append("Steps that keep their results have not read this input; the new run names them.")
    if "params" in body:
        sentences.append(f"The parameters of `{step}` hold for the new run alone: no version is stored.")
    return Effects(sentences)


_PARAMS = Field(
    "params",
    "Parameters of that step",
    "json",
    about="Empty: those of the run. They hold for the new run alone, and may have ${…}.",
    flag="--params",
)
_RERUN_FIELDS = (
    Field("fromStep", "From step", about="Empty: every step runs.", flag="--from"),
    Field("version", "Version", "choice", choices=VERSIONS, default="same", flag="--version"),
    Field("input", "Another input", "json", about="Empty: that of the run.", flag="--input"),
    _PARAMS,
)


def _rerun_fields(view: View) -> Sequence[Field]:
    """The fields of a rerun; where its step is known, with the parameters that this has."""
    params = _params_of(view, view.parameters.get("id", ""), view.parameters.get("fromStep", ""))
    shown = "" if params is None else orjson.dumps(params, option=orjson.OPT_INDENT_2).decode()
    return [*_RERUN_FIELDS[:-1], replace(_PARAMS, default=shown)]


def _params_of(view: View, run_id: str, step: str) -> Mapping[str, Any] | None:
    """The parameters of a step of a run; None if it has none, or there is no such step."""
    if not step:
        return None
    try:
        steps = view.ask("runs.get_run", {"taskRuns": "0"}, id=run_id)["steps"]
    except (InvalidInput, NotFound):
        return None
    for each in steps:
        if each["id"] == step:
            params: Mapping[str, Any] | None = view.ask("runs.get_task_run", id=each["taskRunId"])["params"]
            return params
    return None


VERBS.add(
    Verb(
        "runs.pause",
        "Pause run",
        "Pause this run?",
        "The run is paused.",
        command="pipeweave pause {id}",
        fields=(REASON,),
        effects=_pause_effects,
    )
)
VERBS.add(
    Verb(
        "runs.cancel",
        "Cancel run",
        "Cancel this run?",
        "The run is cancelled.",
        command="pipeweave cancel {id}",
        fields=(REASON,),
        effects=_cancel_effects,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "runs.resume",
        "Resume run",
        "Resume this run?",
        "The run goes on.",
        command="pipeweave resume {id}",
    )
)
VERBS.add(
    Verb(
        "dead_letters.retry_all",
        "Retry failed",
        "Retry what failed in this run?",
        "The retry has started.",
        command="pipeweave dlq retry-all",
        fields=(Field("pipelineRunId", "Run", "hidden", flag="--run"),),
        effects=_retry_effects,
    ),
    "run",
)
VERBS.add(
    Verb(
        "dead_letters.retry",
        "Retry",
        "Retry this task run?",
        "The task run is tried again.",
        command="pipeweave dlq retry {id}",
    ),
    "step",
)
VERBS.add(
    Verb(
        "reruns.rerun",
        "Run again",
        "Run this run again?",
        "The new run has started.",
        command="pipeweave rerun {id}",
        fields=_RERUN_FIELDS,
        fields_of=_rerun_fields,
        effects=_rerun_effects,
        after="/runs/{pipelineRunId}",
    )
)


# Verb -> the key that opens its question.
_KEYS = {
    "runs.cancel": "c",
    "runs.pause": "u",
    "runs.resume": "u",
    "reruns.rerun": "r",
    "dead_letters.retry_all:run": "r",
}


@dataclass(frozen=True, slots=True)
class Offered:
    """A verb that fits a run as it is.

    Args:
        parameters: its parameters.
        key: opens its question.
    """

    name: str
    parameters: Mapping[str, str]
    key: str


def offered(view: View, run: Mapping[str, Any]) -> list[Offered]:
    """The verbs that fit a run as it is and that the caller may do; those first that people want most."""
    id = run["id"]
    names: list[str] = []
    is_ending = run["status"] == RunStatus.ERROR_HANDLING
    if _FAILED & set(run["counts"]) and not is_ending:
        names.append("dead_letters.retry_all:run")
    if RunStatus(run["status"]).is_final:
        # A body is not run alone.
        names += ["reruns.rerun"] if run["body"] is None else []
    elif is_ending:
        names.append("runs.cancel")
    else:
        names += ["runs.resume" if run["pausedAt"] else "runs.pause", "runs.cancel"]
    keys: set[str] = set()
    offers = []
    for name in names:
        if view.may(VERBS.rows[name].operation):
            key = "" if _KEYS[name] in keys else _KEYS[name]
            keys.add(key)
            parameters = {"pipelineRunId" if name.endswith(":run") else "id": id}
            offers.append(Offered(name, parameters, key))
    return offers
