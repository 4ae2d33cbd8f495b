"""Checks joins, as a join message asks: steps 5 and 7 of a turn (turn.py), without outcomes.

A step that refers to a value in storage, such as a map that runs over it, takes two transactions. The first
one finds the paths that the step needs and leaves the step pending; the objects are loaded while no
connection is held; the second one lays out the map, or decides about the step. While storage is away the step
stays pending, and the tick sends another check of its join.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import InvalidSetting, Unavailable
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.referred_values import NOTHING_LOADED, Loaded
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Args:
        run: the run; None when it does not exist.
        claimed: task runs that the caller has claimed now and must start.
        unloaded: paths in storage that the step needs, if it was left pending for them.
    """

    run: RunHeader | None
    claimed: list[TaskRun]
    unloaded: Sequence[str] = ()


def check(
    database: Database,
    values: Values,
    run_id: UUID,
    join: int,
    *,
    queue: str = "",
    claimant: Claimant | None = None,
    tenant: str | None = None,
) -> Checked:
    """Release a join, finish a map or end the run, if all its predecessors or items are final.

    Args:
        values: loads the values that a step refers to from storage.
        join: the ordinal of the step or map; `plan.END` for the end of the run.
        queue, claimant: as for `Turn`.
        tenant: whose run it must be; a run of another tenant is left alone, as if there were none. None for
            any tenant.

    Raises:
        Unavailable: PostgreSQL did not answer.
    """

    def check_with(loaded: Loaded) -> Checked:
        return database.run(lambda tx: _check(tx, run_id, join, loaded, queue, claimant, tenant))

    checked = check_with(NOTHING_LOADED)
    if not checked.unloaded:
        return checked
    try:
        loaded = values.load_all(checked.unloaded)
    except (Unavailable, InvalidSetting) as error:
        log.warning("join.delayed", extra={"run_id": ids.show(ids.RUN, run_id), "reason": error.detail})
        return checked
    return check_with(loaded)


def _check(
    tx: Transaction,
    run_id: UUID,
    join: int,
    loaded: Loaded,
    queue: str,
    claimant: Claimant | None,
    tenant: str | None,
) -> Checked:
    run = run_headers.load(tx, run_id)
    if run is None or (tenant is not None and run.tenant != tenant):
        return Checked(None, [])
    advance = Advance(tx, run, claimant, queue=queue, loaded=loaded, loads_for=join)
    advance.check(join)
    return Checked(run, advance.close(), advance.unloaded)
