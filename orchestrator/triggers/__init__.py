"""Triggers: stores them, and starts runs when something happens.

Called by the tick and `api`. This room must never read an HTTP request or build its answer, and never ask any
clock but that of PostgreSQL.
"""

from pipeweave.orchestrator.triggers import storing, webhooks
from pipeweave.orchestrator.triggers.row import KINDS
from pipeweave.orchestrator.triggers.spec import TriggerSpec

__all__ = ["KINDS", "TriggerSpec", "storing", "webhooks"]
