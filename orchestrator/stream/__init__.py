"""Streams: reads what is new in the event log of all runs, and hands it to whoever watches. It also tells who
asks for it that logs have grown, and pages that they shall look again.

Called by `api` and the tick. This room must never write to PostgreSQL, and never take the number of an event
for its place in the order in which events become visible.
"""

from pipeweave.orchestrator.stream import changes, feed, place_text, span
from pipeweave.orchestrator.stream.changes import Wanted
from pipeweave.orchestrator.stream.feed import Batch, FeedEvent
from pipeweave.orchestrator.stream.hub import Hub, Sink
from pipeweave.orchestrator.stream.live_clock import LiveClock
from pipeweave.orchestrator.stream.log_watch import LogWatch
from pipeweave.orchestrator.stream.pace import Pace
from pipeweave.orchestrator.stream.place import Place, Seen
from pipeweave.orchestrator.stream.shares import Holder
from pipeweave.orchestrator.stream.span import Span
from pipeweave.orchestrator.stream.watching import LiveWanted
from pipeweave.orchestrator.stream.watching import View as LiveView

__all__ = [
    "Batch",
    "FeedEvent",
    "Holder",
    "Hub",
    "LiveClock",
    "LiveView",
    "LiveWanted",
    "LogWatch",
    "Pace",
    "Place",
    "Seen",
    "Sink",
    "Span",
    "Wanted",
    "changes",
    "feed",
    "place_text",
    "span",
]
