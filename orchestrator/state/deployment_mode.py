"""Reads the maintenance mode, and gives the SQL with which other statements ask for it."""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Transaction

RUNNING, WAITING, MAINTENANCE = "running", "waiting_for_maintenance", "maintenance"
# SQL for a statement that writes runs: no row while nothing new is accepted.
ACCEPTING = f"SELECT 1 FROM orchestrator_state WHERE mode = '{RUNNING}' FOR KEY SHARE"
# SQL for a statement that ends a run.
IS_AWAITED = f"EXISTS (SELECT 1 FROM orchestrator_state WHERE mode = '{WAITING}')"


def mode(tx: Transaction) -> str:
    """`running`, `waiting_for_maintenance` or `maintenance`."""
    return str(tx.execute("SELECT mode FROM orchestrator_state").scalar_one())
