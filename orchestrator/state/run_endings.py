"""Reads the endings of runs: what follows their last steps. `run_transitions.py` begins and ends them.

A run with an ending is in `error_handling`, whichever way it ends, and has a wait of its own, under its own
id in place of a task run's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_ending import RunEnding
from pipeweave.orchestrator.domain.waits import Wait
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.waits import WAIT_COLUMNS, wait_of
from pipeweave.orchestrator.store.database import Transaction

# What a step was not able to do, or another run did for it, is not taken back.
_COMPLETED = f"""
SELECT t.step_id FROM {NAMED} JOIN task_runs AS t ON {by_key()}
WHERE t.status = 'completed' AND t.error_code IS NULL AND t.cached_from IS NULL
ORDER BY t.finished_at DESC, t.id DESC
"""


def to_take_back(tx: Transaction, run: RunHeader) -> list[str]:
    """The ids of the steps that are taken back if the run ends badly, the one that ended last first. The
    caller has ended all its task runs.
    """
    wanted = sorted(ids.task_run_id(run.id, each) for each in run.plan.compensated)
    if not wanted:
        return []
    return list(tx.execute(_COMPLETED, {"run_id": run.id, "ids": wanted}).scalars())


@dataclass(frozen=True, slots=True)
class EndingRun:
    """A run in its ending, with the wait for the part that is under way."""

    ending: RunEnding
    wait: Wait

    @property
    def part(self) -> str:
        """The name of the part that is under way."""
        place: int = self.wait.data["part"]
        return self.ending.parts[place]


_READ = f"""
SELECT {WAIT_COLUMNS}, r.ending FROM unnest(CAST(:ids AS uuid[])) AS n(id)
    JOIN waits AS w ON w.run_id = n.id AND w.task_run_id = n.id
    JOIN runs AS r ON r.id = w.run_id AND r.ending IS NOT NULL AND r.finished_at IS NULL
ORDER BY w.run_id
"""


def find(tx: Transaction, run_ids: Collection[UUID]) -> list[EndingRun]:
    """Those of the runs that are in their ending, in the order of their ids."""
    if not run_ids:
        return []
    rows = tx.execute(_READ, {"ids": sorted(run_ids)})
    return [EndingRun(RunEnding.of_json(row.ending), wait_of(row)) for row in rows]
