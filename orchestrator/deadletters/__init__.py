"""Retries, discards and purges dead letters. (`state.attempts` writes them.)

Called by `api` and the tick; `reading` uses its filter. This room must never publish a message itself:
messages go through the outbox."""

from pipeweave.orchestrator.deadletters.filters import LetterFilter

__all__ = [
    "LetterFilter",
]
