"""Redrives, a kind of operation: retries of many dead letters.

A redrive retries the dead letters that are open when it is created, so a task run that fails again is not
retried for ever. Those of one run are retried together. A dead letter that cannot be retried (its run was
cancelled, its task is no longer registered) is skipped and stays open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import DeadLetter, Inputs
from pipeweave.orchestrator.deadletters.filters import OPEN, LetterFilter
from pipeweave.orchestrator.domain.triggered_by import REDRIVE, TriggeredBy
from pipeweave.orchestrator.operations import loop, progress, redrive_outcomes
from pipeweave.orchestrator.operations.operation import ChosenObjects, Operation, OperationStopped
from pipeweave.orchestrator.operations.pace import Outcomes, Pace
from pipeweave.orchestrator.operations.progress import COMPLETED, RUNNING, Table
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.store.database import Database, Transaction, to_json
from pipeweave.orchestrator.store.values import Values

TABLE = Table(
    "redrives",
    "redrive",
    ids.REDRIVE,
    columns="retried AS done, canary, canary_ended_at, stop_percent",
    records="""stopped_because = :stops_because,
    canary_ended_at = CASE WHEN :ends_canary THEN CAST(:now AS timestamptz) ELSE canary_ended_at END,""",
)

_AT_ONCE = Pace()
_CREATE = f"""
INSERT INTO redrives (id, tenant_id, filter, status, total, created_at, finished_at, created_by, most, canary,
    per_second, stop_percent)
SELECT :id, :tenant, CAST(:filter AS jsonb), CASE WHEN n.total = 0 THEN '{COMPLETED}' ELSE '{RUNNING}' END,
    n.total, :now, CASE WHEN n.total = 0 THEN CAST(:now AS timestamptz) END, :by, :most, :canary,
    :per_second, :stop_percent
FROM (SELECT count(*) AS total FROM dead_letters AS d WHERE {{where}} AND {OPEN} AND d.id < :id) AS n
"""


def create(
    tx: Transaction,
    tenant: str,
    letter_filter: LetterFilter,
    pace: Pace | None = None,
    *,
    by: str | None = None,
) -> UUID:
    """Create a redrive of every dead letter that is open now and matches the filter; returns its id.

    Args:
        pace: how it proceeds; by default all at once, whatever becomes of them.
        by: who asks for it; the runs that it begins keep that.

    Raises:
        Unavailable: nothing new is accepted during maintenance.
    """
    maintenance_mode.admit(tx)
    redrive_id = tx.new_id()
    where, parameters = letter_filter.sql(tenant)
    columns = {"id": redrive_id, "filter": to_json(letter_filter.to_json()), "now": tx.now, "by": by}
    tx.execute(_CREATE.format(where=where), {**parameters, **columns, **asdict(pace or _AT_ONCE)})
    return redrive_id


def cancel(tx: Transaction, tenant: str, redrive: UUID) -> None:
    """Stop a redrive; see `progress.cancel`."""
    progress.cancel(tx, TABLE, tenant, redrive)


class Redrive(Operation[DeadLetter]):
    """A redrive that is under way."""

    table, name, object_name = TABLE, "redrive", "letter"

    def __init__(self, row: Any) -> None:
        super().__init__(row)
        self._filter = LetterFilter.of_json(row.filter)
        self._cause = TriggeredBy(REDRIVE, ids.show(ids.REDRIVE, row.id), row.created_by)

    def choose(self, tx: Transaction, room: int) -> ChosenObjects[DeadLetter]:
        letters = dead_letters.find_all_open(
            tx, self.tenant, self._filter, before=self.id, after=self.last_id, most=room
        )
        of_run = attrgetter("run_id")
        parts = [(list(each), None) for _, each in groupby(sorted(letters, key=of_run), key=of_run)]
        return ChosenObjects(parts, letters[-1].id if letters else None, is_last=len(letters) < room)

    def change(self, database: Database, values: Values, objects: Sequence[DeadLetter]) -> Iterator[int]:
        inputs = dead_letters.stored_inputs(values, objects)
        yield database.run(lambda tx: self._retry(tx, objects, inputs))

    def _retry(self, tx: Transaction, letters: Sequence[DeadLetter], inputs: Inputs) -> int:
        retried = dead_letters.retry_of_run(tx, letters, inputs, self._cause)
        counted = {"id": self.id, "letters": [each.letter_id for each in retried]}
        if tx.execute(_COUNT, counted).first() is None:
            raise OperationStopped
        return len(retried)

    def skip(self, database: Database, skipped: DeadLetter, code: str, error: str) -> int:
        return 1

    def judge(self, tx: Transaction) -> Outcomes:
        return redrive_outcomes.count(tx, self.id)


# Counted in the transaction of the retry: a crash neither loses a retry nor counts it twice. No row means
# that the redrive was cancelled meanwhile; the retry is then rolled back.
_COUNT = f"""
WITH marked AS (
    UPDATE dead_letters SET redrive_id = :id WHERE id = ANY(CAST(:letters AS uuid[]))
)
UPDATE redrives SET retried = retried + cardinality(CAST(:letters AS uuid[]))
WHERE id = :id AND status = '{RUNNING}' RETURNING id
"""

# Retries dead letters of the redrives that are under way, as `loop.run_once` says.
run_once = partial(loop.run_once, Redrive)
