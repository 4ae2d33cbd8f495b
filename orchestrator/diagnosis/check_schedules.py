"""Doctor's check of schedules: the last fire of each one started a run."""

from __future__ import annotations

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.settings import Settings

MOST = 100
SHOWN = 5

_FAILED = """
SELECT s.tenant_id, s.id, s.last_error FROM schedules AS s
WHERE s.last_error_code IS NOT NULL ORDER BY s.tenant_id, s.id LIMIT :most
"""


def started(settings: Settings) -> Verdict:
    """No schedule failed to start its last run."""
    with read_transaction(settings) as tx:
        schedules = tx.execute(_FAILED, {"most": MOST}).all()
    if not schedules:
        return fine("every schedule could start its last run")
    shown = "; ".join(f"{each.id} ({each.tenant_id}): {each.last_error}" for each in schedules[:SHOWN])
    more = f" and {len(schedules) - SHOWN} more" if schedules[SHOWN:] else ""
    return warning(
        f"could not start their last run: {shown}{more}",
        "mend the pipeline or the input, then `pipeweave schedule fire SCHEDULE`",
    )


CHECK = Check("schedules", started, needs=("schema",))
