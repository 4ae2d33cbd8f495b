"""How long data is kept: monthly partitions, archives, dropped months, and rows that expire one by one.

Also what of a tenant is deleted, and exported before.

Called by the tick, beat's retention thread, `api`, `deployment.migrate`, diagnosis and the command line. This
room must never drop a month in which a run is active."""

from pipeweave.orchestrator.retention.policy import Policy

__all__ = [
    "Policy",
]
