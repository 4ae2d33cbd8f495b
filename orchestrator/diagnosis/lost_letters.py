"""Says which dead letters of a run are gone, and writes them again from its rows and events.

That one is gone is no sign of damage: they are purged without an event. So they are restored where that is
asked for, and open.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.diagnosis.verify import MISSING, Difference
from pipeweave.orchestrator.domain.failure import Failure, fingerprint
from pipeweave.orchestrator.domain.plan import MAP_ITEMS_FAILED, Plan
from pipeweave.orchestrator.domain.replay import RebuiltRun
from pipeweave.orchestrator.domain.states import FAILED_TASK
from pipeweave.orchestrator.state import restoring, run_headers
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec.engine_results import PARALLEL_FAILED

_ENDS = frozenset({"task_run.failed", "task_run.timed_out"})
# A map, or a block, that failed because of its items or members: those have the dead letters.
_OF_OTHERS = frozenset({MAP_ITEMS_FAILED, PARALLEL_FAILED})
LETTER = "dead_letter"


def lost(tx: Transaction, run_id: UUID, rebuilt: RebuiltRun) -> list[Difference]:
    """The dead letters that the failures of a run have had, and that are gone, as differences."""
    known = restoring.letters_of(tx, run_id)
    failed = {
        ids.task_run_id(run_id, ordinal): each.attempt
        for ordinal, each in rebuilt.task_runs.items()
        if each.status in FAILED_TASK and each.moved is not None and each.moved.type in _ENDS
    }
    wanted = [id for id, attempt in failed.items() if (id, attempt) not in known]
    run = run_headers.load(tx, run_id) if wanted else None
    if run is None:
        return []
    dead = (row for row in restoring.failed_rows(tx, run_id, wanted) if _is_dead(run.plan, row))
    return [Difference(run_id, row.id, LETTER, MISSING, "open") for row in dead]


def _is_dead(plan: Plan, row: Any) -> bool:
    """Whether the last failure of such a task run has written a dead letter: see `state/attempts.py`."""
    return row.error_code not in _OF_OTHERS and plan.ordinals[row.step_id] not in plan.tolerated


def write(tx: Transaction, run_id: UUID, rebuilt: RebuiltRun, letters: list[Difference]) -> None:
    """Write these dead letters again, open."""
    wanted = [each.task_run_id for each in letters if each.task_run_id is not None]
    rows = restoring.failed_rows(tx, run_id, wanted)
    restoring.insert_letters(tx, run_id, list(_letters(rows, rebuilt)))


def _letters(rows: Any, rebuilt: RebuiltRun) -> Iterator[tuple[UUID, str, datetime]]:
    for row in rows:
        error = row.error or {}
        code = str(row.error_code or "UNKNOWN")
        failure = Failure(code, str(error.get("message") or ""), str(error.get("type") or code))
        moved = rebuilt.task_runs[ids.ordinal_of(row.id)].moved
        assert moved is not None and moved.at is not None, "an event made it fail"
        yield row.id, fingerprint(row.task_id, failure), moved.at
