"""The time of a run: what it was spent on along the critical path, and when each step did what.

Called by `api`. Dividing, path and sums are pure; only `reading` and the documents read PostgreSQL. This room
must never write there.
"""

from pipeweave.orchestrator.timeline.ledger_document import ledger

__all__ = ["ledger"]
