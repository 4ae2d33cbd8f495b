"""Doctor's check of enqueued runs: none waits for long, and none was refused."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.orchestrator.domain.json_shapes import run_id
from pipeweave.settings import Settings

MOST = 1_000
SHOWN = 3

# What was tried in vain, and what nobody has tried for a while.
_WAITING = """
SELECT e.id, e.tenant_id, e.pipeline_id, e.error_code, e.error FROM enqueued_runs AS e
WHERE e.settled_at IS NULL AND e.due_at <= now() + interval '1 minute'
  AND (e.tries > 0 OR e.due_at <= now() - interval '10 seconds')
ORDER BY e.due_at LIMIT :most
"""
_REFUSED = """
SELECT e.id, e.tenant_id, e.pipeline_id, e.error_code, e.error FROM enqueued_runs AS e
WHERE e.settled_at > now() - interval '7 days' AND e.first_run_id IS NULL
ORDER BY e.settled_at DESC LIMIT :most
"""


def started(settings: Settings) -> Verdict:
    """Every enqueued run started, or is about to."""
    with read_transaction(settings) as tx:
        waiting = tx.execute(_WAITING, {"most": MOST}).all()
        refused = tx.execute(_REFUSED, {"most": MOST}).all()
    if waiting:
        return warning(
            f"waiting to start: {_number(waiting)}: {_shown(waiting)}",
            "is a beat running, and is new work accepted? Otherwise mend what it says; they are tried again",
        )
    if refused:
        return warning(
            f"refused in the last 7 days: {_number(refused)}: {_shown(refused)}",
            "mend what it says, and enqueue them again",
        )
    return fine("every enqueued run could start")


def _number(runs: list[Any]) -> str:
    more = " or more" if len(runs) == MOST else ""
    return f"{len(runs):,}{more} enqueued runs" if len(runs) > 1 else "an enqueued run"


def _shown(runs: list[Any]) -> str:
    shown = "; ".join(_line(each) for each in runs[:SHOWN])
    return shown + (f" and {len(runs) - SHOWN} more" if runs[SHOWN:] else "")


def _line(row: Any) -> str:
    error = "not tried yet" if row.error_code is None else f"{row.error_code}: {row.error}"
    return f"{run_id(row.id)} of {row.pipeline_id} ({row.tenant_id}): {error}"


CHECK = Check("enqueued runs", started, needs=("schema",))
