"""Triggers: stores them, and starts or signals runs when a webhook is delivered or something has ended."""

from pipeweave.orchestrator.starts.triggers import storing, webhooks
from pipeweave.orchestrator.starts.triggers.row import KINDS
from pipeweave.orchestrator.starts.triggers.spec import TriggerSignal, TriggerSpec

__all__ = ["KINDS", "TriggerSignal", "TriggerSpec", "storing", "webhooks"]
