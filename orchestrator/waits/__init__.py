"""Waits: sleeps, signals, approvals and child runs. One verb, `looking.look`, ends each, whoever noticed.

Called by `api`, by reactions, by a loop and by the tick. This room must never read or write storage inside a
transaction, nor wait for a signal that another wait takes.
"""

from pipeweave.orchestrator.waits.approvals import MAX_COMMENT_CHARS

__all__ = ["MAX_COMMENT_CHARS"]
