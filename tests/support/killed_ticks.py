"""A process that works operations off and is killed in the middle of a batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from uuid import UUID

from pipeweave.orchestrator.store.database import Database, Transaction
from support.concurrency import BackgroundCall
from support.servers import wait_until

TICK = """
import sys
from pipeweave.orchestrator.operations import loop, {kind}
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.store.database import Database
from support.stored_values import VALUES
loop.MAX_SECONDS_PER_TICK = 600
{kind}.run_once(Database(sys.argv[1], react=reactions_to), VALUES)
"""


DELETION = """
import sys
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.retention import tenant_deletion
from pipeweave.orchestrator.store.database import Database
tenant_deletion.BUDGET_S = 600
tenant_deletion.RUNS = 1
tenant_deletion.run_once(Database(sys.argv[1], react=reactions_to))
"""
"""Deletes tenants, one run after the other."""


def kill_at(database: Database, kind: str, run_id: UUID, program: str = TICK) -> None:
    """Work the operations of a kind off in a process, and kill it when it comes to a run.

    Args:
        kind: the module, `run_changes` or `redrives`.
        program: what the process does instead.
    """
    with database.transaction() as tx:
        tx.execute("SELECT id FROM runs WHERE id = :id FOR UPDATE", {"id": run_id})
        process = subprocess.Popen(
            [sys.executable, "-c", program.format(kind=kind), database.url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with BackgroundCall(process.communicate) as output:
            wait_until(lambda: output.is_done or _is_waiting(tx), what="it does not come to the run")
            assert not output.is_done, output.result
            process.send_signal(signal.SIGKILL)


def _is_waiting(tx: Transaction) -> bool:
    """Whether a transaction waits for a lock, asked by the one that holds it, which may not be idle."""
    tx.execute("SELECT pg_stat_clear_snapshot()")
    here = "SELECT wait_event_type FROM pg_stat_activity WHERE datname = current_database()"
    return "Lock" in tx.execute(here).scalars()
