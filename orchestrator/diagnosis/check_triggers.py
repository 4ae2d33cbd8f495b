"""Doctor's check of triggers and hooks: the last fire of each trigger started a run, no hook was given up."""

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

# Within a day: those before are seen at their runs.
_GIVEN_UP = """
SELECT f.tenant_id, f.pipeline_id, f.hook, f.error FROM hook_fires AS f
WHERE f.outcome = 'failed' AND f.fired_at > now() - interval '1 day' ORDER BY f.fired_at DESC LIMIT :most
"""


def started(settings: Settings) -> Verdict:
    """No trigger failed to start its last run, and no hook was given up."""
    with read_transaction(settings) as tx:
        triggers = tx.execute(_FAILED, {"most": MOST}).all()
        hooks = tx.execute(_GIVEN_UP, {"most": MOST}).all()
    failures = [f"{each.id} ({each.tenant_id}): {each.last_error}" for each in triggers]
    failures += [f"{each.hook} of {each.pipeline_id} ({each.tenant_id}): {each.error}" for each in hooks]
    if not failures:
        return fine("every trigger could start its last run, and no hook was given up")
    more = f" and {len(failures) - SHOWN} more" if failures[SHOWN:] else ""
    return warning(
        f"could not start their last run, or were given up: {'; '.join(failures[:SHOWN])}{more}",
        "mend the pipeline, the trigger or the receiver; `pipeweave triggers show`, `pipeweave status`",
    )


CHECK = Check("triggers", started, needs=("schema",))
