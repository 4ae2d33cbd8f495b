"""Doctor's check of HTTP services: each has an instance that takes dispatches, and can be dispatched to."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine, warning
from pipeweave.settings import Settings

MOST = 100
SHOWN = 5

_SERVICES = """
SELECT s.tenant_id, s.id, s.status, s.disabled_at IS NOT NULL AS is_disabled,
    count(i.base_url) AS instances, count(i.base_url) FILTER (WHERE i.set_aside_at IS NULL) AS ready,
    (array_agg(i.last_error ORDER BY i.set_aside_at DESC) FILTER (WHERE i.last_error IS NOT NULL))[1] AS error
FROM services AS s LEFT JOIN service_instances AS i ON i.tenant_id = s.tenant_id AND i.service_id = s.id
WHERE s.kind = 'http' GROUP BY s.tenant_id, s.id, s.status, s.disabled_at
ORDER BY s.status = 'disconnected' DESC, s.tenant_id, s.id LIMIT :most
"""


def services(settings: Settings) -> Verdict:
    """Every HTTP service that did not stop in order has an instance that takes dispatches."""
    with read_transaction(settings) as tx:
        rows: list[Any] = tx.execute(_SERVICES, {"most": MOST}).all()
    if not rows:
        return fine("no HTTP service is registered")
    if settings.secret_key is None:
        return error(
            f"{len(rows)} HTTP services are registered, and PIPEWEAVE_SECRET_KEY is not set",
            "set it to the same text in every process of the deployment",
        )
    away = [row for row in rows if row.status == "disconnected" and not row.is_disabled]
    if away:
        shown = "; ".join(_away(row) for row in away[:SHOWN])
        more = f" and {len(away) - SHOWN} more" if away[SHOWN:] else ""
        return warning(
            f"no instance answers: {shown}{more}",
            "start it again, or switch it off (`pipeweave services set SERVICE --disable`)",
        )
    off = [f"{row.id} ({row.tenant_id})" for row in rows if row.is_disabled]
    if off:
        return fine(f"{len(rows)} HTTP services; switched off: {', '.join(off[:SHOWN])}")
    return fine(f"{len(rows)} HTTP services, instances that take dispatches: {sum(r.ready for r in rows)}")


def _away(row: Any) -> str:
    because = f": {row.error}" if row.error else ""
    return f"{row.id} ({row.tenant_id}), {row.instances:,} set aside{because}"


CHECKS = (Check("http services", services, needs=("schema",)),)
