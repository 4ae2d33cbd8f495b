"""The time of a run: what it was spent on along the critical path, when each step did what, and its items.

Called by `api`. Dividing, path, sums, density and matrix are pure; only the other modules read PostgreSQL.
This room must never write there.
"""

from pipeweave.orchestrator.timeline.bars import timeline
from pipeweave.orchestrator.timeline.items import items
from pipeweave.orchestrator.timeline.ledger_document import ledger
from pipeweave.orchestrator.timeline.picture import colour_of, svg
from pipeweave.orchestrator.timeline.spans import PhaseKind
from pipeweave.orchestrator.timeline.words import WORDS

__all__ = ["WORDS", "PhaseKind", "colour_of", "items", "ledger", "svg", "timeline"]
