"""The feed: what is new in the event log of all runs, each event exactly once, and how far each
consumer has read.

Called by `registry` and later rooms, and by `api`. This room must never take the number of an event for its
place in the order in which events become visible.
"""

from pipeweave.orchestrator.feed.feed import Batch, FeedEvent
from pipeweave.orchestrator.feed.place import Place, SeenTransactions
from pipeweave.orchestrator.feed.stretch import EventStretch

__all__ = [
    "Batch",
    "EventStretch",
    "FeedEvent",
    "Place",
    "SeenTransactions",
]
