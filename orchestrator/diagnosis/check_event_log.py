"""Doctor's check of the event log: nothing was dropped before it was read."""

from __future__ import annotations

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.settings import Settings

_MISSED = """
SELECT c.name, c.missed_months FROM feed_consumers AS c
WHERE c.missed_at > now() - interval '7 days' ORDER BY c.name
"""


def is_read(settings: Settings) -> Verdict:
    """In the last 7 days, no month was dropped before triggers, statistics and traces had read its events."""
    with read_transaction(settings) as tx:
        missed = tx.execute(_MISSED).all()
    if not missed:
        return fine("everything was read before it was dropped")
    return warning(
        "; ".join(f"{each.name} missed events of {', '.join(each.missed_months)}" for each in missed),
        "months were dropped before a tick had read them: let beat run all the time",
    )


CHECK = Check("event log", is_read, needs=("schema",))
