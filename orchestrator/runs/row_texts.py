"""Writes the rows of new runs and their first events as JSON text, which one statement stores.

Most runs of a batch differ in little but their ids and inputs: what a run has in common with the one before
it is written once. A column without a value is left out: PostgreSQL reads it as NULL, and reads less.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.orchestrator.domain.run import Parent, RunHeader
from pipeweave.orchestrator.domain.run_edits import NO_EDITS
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.triggered_by import API
from pipeweave.orchestrator.runs.new_run import NewRun
from pipeweave.orchestrator.runs.prepared_starts import PreparedStart


class RunTexts:
    """The rows of runs that are written together.

    Args:
        now: when they are written.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._last: tuple[NewRun, RunStatus] | None = None
        # The members that the last run has in common with those like it, of its row and of its event.
        self._row = self._data = ""

    def of(self, new: NewRun, status: RunStatus, run_id: str) -> tuple[str, str]:
        """The row of a run, and that of its event `run.created`.

        Args:
            run_id: its id, as PostgreSQL reads it.
        """
        if self._last is None or self._last[1] is not status or not _are_alike(self._last[0], new):
            self._last = new, status
            self._row = _members(_common_columns(new, status, self._now))
            self._data = _text(_common_data(new, status))[1:]
        kept = new.input
        more = _own_columns(new)
        # The input is JSON text already: it is inserted as it is.
        row = (
            f'{{"id":"{run_id}","size":{kept.size},"hash":"{kept.hash}","input":{kept.inline or "null"},'
            f"{more}{self._row}}}"
        )
        data = f'{{"inputsHash":"{kept.hash}",{self._data}'
        return row, f'{{"run_id":"{run_id}","type":"run.created","data":{data}}}'


def alike(
    new_runs: Sequence[NewRun], starts: Sequence[PreparedStart | None], now: datetime
) -> dict[str, Any] | None:
    """The rows of runs that differ in ids and inputs alone, as parameters of `run_sql.write_alike_sql`.

    None for a single run, whose own rows are as short, and where a run has something else for itself.

    Args:
        starts: how each of them begins.
    """
    first, start = new_runs[0], starts[0]
    if len(new_runs) == 1 or start is None or any([each is not start for each in starts]):
        return None
    if any([_own_columns(new) or not _are_alike(first, new) for new in new_runs]):
        return None
    kept = [new.input for new in new_runs]
    # Those of the first run stand for all: the statement takes the endings of their ids alone.
    task_runs, moved = start.rows(str(first.header.id))
    data = _text(_common_data(first, RunStatus.RUNNING))
    return {
        "ids": f"{{{','.join([str(new.header.id) for new in new_runs])}}}",
        "hashes": f"{{{','.join([each.hash for each in kept])}}}",
        "sizes": f"{{{','.join([str(each.size) for each in kept])}}}",
        "inputs": f"[{','.join([each.inline or 'null' for each in kept])}]",
        "runs": _text(_common_columns(first, RunStatus.RUNNING, now)),
        "task_runs": f"[{task_runs}]",
        "events": f'[{{"type":"run.created","data":{data}}},{moved}]',
    }


def _without(fields: Sequence[str], own: Collection[str]) -> Callable[[Any], Any]:
    """Gives the other values of a tuple with these fields."""
    return operator.itemgetter(*(place for place, name in enumerate(fields) if name not in own))


# All but what each run has for itself, and what is in neither row.
_OF_HEADER = _without(RunHeader._fields, {"id", "input", "input_path"})
_OF_RUN = _without(
    NewRun._fields,
    {"header", "input", "value", "run_token", "metadata", "key", "tasks", "idempotency_key"},
)


def _are_alike(one: NewRun, other: NewRun) -> bool:
    """Whether `_common_columns` and `_common_data` are the same for both: a field that is new counts, too."""
    of_run: bool = _OF_RUN(one) == _OF_RUN(other)
    return of_run and bool(_OF_HEADER(one.header) == _OF_HEADER(other.header))


def _own_columns(new: NewRun) -> str:
    """What few runs have, and each has for itself, with a comma behind it."""
    path, token, metadata, key = new.input.path, new.run_token, new.metadata, new.key
    if path is None and token is None and metadata is None and key is None:
        return ""
    own = {"path": path, "run_token": token, "metadata": metadata, **({} if key is None else key.to_row())}
    return _members(own) + ","


def _common_columns(new: NewRun, status: RunStatus, now: datetime) -> dict[str, Any]:
    run = new.header
    return {
        "pipeline_id": run.pipeline_id,
        "version": run.pipeline_version,
        "status": status.value,
        "started_at": now if status is RunStatus.RUNNING else None,
        "failure_mode": run.failure_mode,
        "priority": run.priority,
        "steps": len(run.plan.steps) + (0 if new.reused is None else new.reused.items),
        "timeout_ms": new.timeout_ms,
        "idle_timeout_ms": new.idle_timeout_ms,
        "rerun_of": new.rerun_of,
        "rerun_from": run.rerun_from,
        "queue_name": run.queue,
        "requires": run.requires,
        "edits": None if new.edits is NO_EDITS else new.edits.to_json(),
        **({} if run.triggered_by is None else run.triggered_by.to_row()),
        **({} if run.parent is None else _columns_of_child(run, run.parent)),
    }


def _columns_of_child(run: RunHeader, parent: Parent) -> dict[str, Any]:
    return {
        "body": run.body,
        "scope": None if run.scope is None else run.scope.to_json(),
        "parent_run_id": parent.run_id,
        "parent_task_run_id": parent.task_run_id,
        "root_run_id": parent.root_run_id,
        "depth": parent.depth,
    }


def _common_data(new: NewRun, status: RunStatus) -> dict[str, Any]:
    run = new.header
    data: dict[str, Any] = {
        "pipelineId": run.pipeline_id,
        "pipelineVersion": run.pipeline_version,
        "failureMode": run.failure_mode,
        "steps": len(run.plan.steps),
    }
    if run.body is not None:
        data["body"] = run.body
    data |= _cause(run)
    if new.rerun_of is not None:
        data |= {"rerunOf": ids.show(ids.RUN, new.rerun_of), "rerunFrom": run.rerun_from} | new.edits.names
    if status is not RunStatus.RUNNING:
        data["status"] = status.value
    return data


def _cause(run: RunHeader) -> dict[str, Any]:
    """Who and what began the run. A request is not named: it is what begins most runs."""
    cause = run.triggered_by
    if cause is None:
        return {}
    named = {} if cause.kind == API else {"triggeredBy": cause.kind, "triggeredById": cause.id}
    return {name: each for name, each in {**named, "by": cause.actor}.items() if each is not None}


def _members(columns: dict[str, Any]) -> str:
    """The columns that have a value, as members of a JSON object without its braces."""
    return _text({name: each for name, each in columns.items() if each is not None})[1:-1]


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
