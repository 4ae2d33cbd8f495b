"""What the ends of runs and task runs cause: reads the event feed, starts the runs of triggers and hooks, and
calls the URLs of hooks.

Called by the tick. This room must never be called by what runs a step: the engine does not know that anything
follows the end of a run.
"""

from pipeweave.orchestrator.hooks import calling, firing, reader, started

__all__ = ["calling", "firing", "reader", "started"]
