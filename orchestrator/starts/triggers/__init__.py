"""Triggers: stores them, and starts runs when a webhook is delivered or something has ended."""

from pipeweave.orchestrator.starts.triggers import storing, webhooks
from pipeweave.orchestrator.starts.triggers.row import KINDS
from pipeweave.orchestrator.starts.triggers.spec import TriggerSpec

__all__ = ["KINDS", "TriggerSpec", "storing", "webhooks"]
