"""Makes the row of a run that is lost anew: from the event that created it, and from its archived document.

An event has no input, but its hash: an input that another run of the pipeline has, or none at all, is known
by it. What neither has is left out, and named; without what the run could not go on, it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.domain.replay import RebuiltRun
from pipeweave.orchestrator.domain.stored_event import StoredEvent
from pipeweave.orchestrator.state import restoring
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import keep_inline

_EMPTY: tuple[Any, ...] = (None, {})
# What a run has that events have not, and without which it can go on.
UNSET = "without its priority, metadata, token, time limits, queue and labels, which events do not have"
UNSET_IN_ARCHIVES = "without its time limits, queue and labels, which archives do not have"


@dataclass(slots=True)
class LostRun:
    """A row that is made, column by column; and what it lacks."""

    run_id: UUID
    row: dict[str, Any] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    unset: str = UNSET

    def require_whole(self) -> None:
        """Raises Conflict with all that lacks."""
        if self.lacks:
            raise Conflict(
                f"the row of run {ids.show(ids.RUN, self.run_id)} is lost, and cannot be made of its events:"
                f" {'; '.join(self.lacks)}",
                hint="restore the row from a backup of the database",
            )


def made_again(
    tx: Transaction,
    run_id: UUID,
    rebuilt: RebuiltRun,
    created: StoredEvent | None,
    archived: Mapping[str, Any] | None,
) -> LostRun:
    """The row of a lost run, and what it lacks.

    Args:
        rebuilt: from its events.
        created: its first event.
        archived: its document in an archive of its month; None if there is none.

    Raises:
        NotFound: no event tells of such a run.
    """
    if created is None:
        raise NotFound(f"run {ids.show(ids.RUN, run_id)} not found", hint="no event tells of it")
    lost = LostRun(run_id)
    if created.type != "run.created":
        lost.lacks.append("no event created it")
    if rebuilt.faults:
        lost.lacks.append("its events contradict each other")
    if lost.lacks:
        return lost
    lost.row = {"id": run_id, "task_run_count": len(rebuilt.task_runs), "created_at": created.at}
    lost.row |= _of_event(created.data)
    _refuse_parts(lost, rebuilt, created.data)
    if archived is not None:
        _take_archived(lost, archived)
    _take_others(tx, lost, archived)
    return lost


def _of_event(data: Mapping[str, Any]) -> dict[str, Any]:
    rerun = data.get("rerunOf")
    return {
        "pipeline_id": data.get("pipelineId"),
        "pipeline_version": data.get("pipelineVersion"),
        "failure_mode": data.get("failureMode"),
        "inputs_hash": data.get("inputsHash"),
        "triggered_kind": data.get("triggeredBy", "api"),
        "triggered_id": data.get("triggeredById"),
        "triggered_actor": data.get("by"),
        "rerun_of": None if rerun is None else ids.read(ids.RUN, rerun),
        "rerun_from": data.get("rerunFrom"),
    }


def _refuse_parts(lost: LostRun, rebuilt: RebuiltRun, data: Mapping[str, Any]) -> None:
    if data.get("body") is not None or data.get("triggeredBy") == "parent":
        lost.lacks.append("its place in the tree of runs was in the row alone")
    if lost.row["pipeline_id"] is None:
        lost.lacks.append("what a standalone task was called with was in the row alone")
    if rebuilt.other_input:
        lost.lacks.append("the inputs that its reused steps have read were in the row alone")


def _take_archived(lost: LostRun, archived: Mapping[str, Any]) -> None:
    lost.unset = UNSET_IN_ARCHIVES
    lost.row |= {
        "priority": archived.get("priority"),
        "metadata": archived.get("metadata"),
        "run_token": archived.get("runToken"),
        "tenant_id": archived.get("tenant"),
    }


def _take_others(tx: Transaction, lost: LostRun, archived: Mapping[str, Any] | None) -> None:
    row = lost.row
    edits = ((archived or {}).get("edits") or {}).get("params")
    tenant = row.get("tenant_id") or restoring.tenant_of(tx, lost.run_id)
    row |= {"tenant_id": tenant, "edits": None if not edits else {"params": edits}}
    if tenant is None:
        lost.lacks.append("no row is left that names its tenant")
    if tenant is None or row["pipeline_id"] is None:
        return
    if not restoring.has_version(tx, tenant, row["pipeline_id"], row["pipeline_version"]):
        lost.lacks.append(f"version {row['pipeline_version']} of {row['pipeline_id']} is not stored any more")
    kept = _input(tx, lost, archived)
    if kept is None:
        lost.lacks.append("its input was in the row alone")
    else:
        row |= kept


def _input(tx: Transaction, lost: LostRun, archived: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The columns of the input that has the hash of the event; None if it is not known."""
    digest = lost.row["inputs_hash"]
    for value in (*_EMPTY, (archived or {}).get("input")):
        kept = keep_inline(value)
        if kept.hash == digest:
            return {"input": value, "input_path": None, "input_size": kept.size}
    same = restoring.same_input(tx, lost.row["tenant_id"], lost.row["pipeline_id"], digest)
    return None if same is None else dict(zip(("input", "input_path", "input_size"), same, strict=True))
