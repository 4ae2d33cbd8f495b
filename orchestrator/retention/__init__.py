"""How long data is kept: monthly partitions, archives, dropped months, and rows that expire one by one.

Called by the tick, beat's retention thread, `deployment.migrate`, diagnosis and the command line. This room
must never drop a month in which a run is active."""

from pipeweave.orchestrator.retention.policy import Policy

__all__ = [
    "Policy",
]
