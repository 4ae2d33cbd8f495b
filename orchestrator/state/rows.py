"""Makes task runs from rows of `task_runs`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun


def task_run_ids(run_id: UUID, ordinals: Iterable[int]) -> list[UUID]:
    """The ids of a run's task runs with these ordinals, in their order: rows are locked in it."""
    return [ids.task_run_id(run_id, each) for each in sorted(ordinals)]


# The columns of a row `t` that `of_row` reads, in the order of the fields of TaskRun.
COLUMNS = """t.id, t.run_id, t.step_id, t.task_id, t.kind, t.status, t.attempt, t.map_index, t.map_parent,
t.item, t.priority, t.queue, t.is_limited, t.code_version, t.code_hash, t.idempotency_key,
t.worker"""

# The number of an id orders as the id does, and is compared without a call.
_NUMBER = operator.attrgetter("id.int")
_STATUSES = {each.value: each for each in TaskStatus}
# As `TaskRun._make`, without a call: wide runs make many.
_made = functools.partial(tuple.__new__, TaskRun)


def read(rows: Iterable[Any]) -> list[TaskRun]:
    """The task runs of rows that start with COLUMNS, in the order of their ids."""
    return sorted(map(of_row, rows), key=_NUMBER)


def of_row(row: Any) -> TaskRun:
    """The task run of a row that starts with COLUMNS."""
    return _made((*row[:5], _STATUSES[row[5]], *row[6:17]))
