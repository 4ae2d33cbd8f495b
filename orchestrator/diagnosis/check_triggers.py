"""Doctor's check of triggers: the last fire of each one started a run."""

from __future__ import annotations

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.settings import Settings

MOST = 100
SHOWN = 5

_FAILED = """
SELECT t.tenant_id, t.id, t.last_error FROM triggers AS t
WHERE t.last_error_code IS NOT NULL ORDER BY t.tenant_id, t.id LIMIT :most
"""


def started(settings: Settings) -> Verdict:
    """No trigger failed to start its last run."""
    with read_transaction(settings) as tx:
        found = tx.execute(_FAILED, {"most": MOST}).all()
    if not found:
        return fine("every trigger could start its last run")
    shown = "; ".join(f"{each.id} ({each.tenant_id}): {each.last_error}" for each in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if found[SHOWN:] else ""
    return warning(
        f"could not start their last run: {shown}{more}",
        "mend the pipeline, or the filter and the input of the trigger; `pipeweave triggers show TRIGGER`",
    )


CHECK = Check("triggers", started, needs=("schema",))
