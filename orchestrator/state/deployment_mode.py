"""Reads the maintenance mode, and gives the SQL with which other statements ask for it."""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Transaction

RUNNING, WAITING, MAINTENANCE = "running", "waiting_for_maintenance", "maintenance"
# SQL for a statement that writes runs: one row, locked, while new work is accepted; else none.
ACCEPTING = f"SELECT 1 FROM orchestrator_state WHERE mode = '{RUNNING}' FOR KEY SHARE"
# The same for runs inside of those that are under way.
GOING_ON = f"SELECT 1 FROM orchestrator_state WHERE mode <> '{MAINTENANCE}' FOR KEY SHARE"
# SQL for a statement that ends a run: whether maintenance waits for the end of the last run.
IS_AWAITED = f"EXISTS (SELECT 1 FROM orchestrator_state WHERE mode = '{WAITING}')"

# SQL: the mode of the deployment.
MODE = "(SELECT mode FROM orchestrator_state)"


def mode(tx: Transaction) -> str:
    """The mode of the deployment: `running`, `waiting_for_maintenance` or `maintenance`."""
    return str(tx.execute(f"SELECT {MODE}").scalar_one())
