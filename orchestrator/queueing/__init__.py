"""What may start now: limits, pauses, priorities, maintenance.

Called by the engine, by verbs and by the tick. It must never decide what a run does next.
"""

from pipeweave.orchestrator.state.deployment_mode import MAINTENANCE, RUNNING, mode

__all__ = ["MAINTENANCE", "RUNNING", "mode"]
