"""Notes on a trigger how its last fire went."""

from __future__ import annotations

from datetime import datetime

from pipeweave.errors import DeliveryIdReused, PipeWeaveError
from pipeweave.orchestrator.starts import failures
from pipeweave.orchestrator.store.database import Transaction

_NOTE = """
UPDATE triggers SET last_fire_at = :now, last_error_code = :error_code, last_error = :error,
    last_error_at = CASE WHEN :has_failed THEN CAST(:now AS timestamptz) END,
    on_time = coalesce(CAST(:on_time AS timestamptz), on_time),
    reused_ids = reused_ids + CASE WHEN :is_reused THEN 1 ELSE 0 END
WHERE tenant_id = :tenant AND id = :id AND (enabled OR NOT :has_failed)
"""


def record(
    tx: Transaction,
    tenant: str,
    trigger_id: str,
    failure: PipeWeaveError | None = None,
    on_time: datetime | None = None,
) -> None:
    """Note on a trigger that a run of it began, or could not. A paused one starts none, which is no failure.

    Args:
        on_time: of a webhook: when its next delivery would be on time.
    """
    parameters = {
        "tenant": tenant,
        "id": trigger_id,
        "has_failed": failure is not None,
        "is_reused": isinstance(failure, DeliveryIdReused),
        "on_time": on_time,
        "now": tx.now,
    }
    tx.execute(_NOTE, parameters | failures.columns(failure))
