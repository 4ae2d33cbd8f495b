"""What the ends of runs and task runs cause: reads the event feed, and starts the runs of triggers of events.

Called by the tick. This room must never be called by what runs a step: the engine does not know that anything
follows the end of a run.
"""

from pipeweave.orchestrator.hooks import firing, reader

__all__ = ["firing", "reader"]
