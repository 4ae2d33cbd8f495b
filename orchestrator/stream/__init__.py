"""Streams: hands what is new in the feed to whoever watches. It also tells who asks that logs have grown,
and pages that they shall look again.

Called by `api`. This room must never write to PostgreSQL.
"""

from pipeweave.orchestrator.stream import changes
from pipeweave.orchestrator.stream.changes import WantedChanges
from pipeweave.orchestrator.stream.hub import Hub, Sink
from pipeweave.orchestrator.stream.live_clock import LiveClock
from pipeweave.orchestrator.stream.log_watch import LogWatch
from pipeweave.orchestrator.stream.pace import ViewPace
from pipeweave.orchestrator.stream.shares import Holder
from pipeweave.orchestrator.stream.told import Told
from pipeweave.orchestrator.stream.watching import LiveWanted, TaggedView

__all__ = [
    "Holder",
    "Hub",
    "LiveClock",
    "LiveWanted",
    "LogWatch",
    "Sink",
    "TaggedView",
    "Told",
    "ViewPace",
    "WantedChanges",
    "changes",
]
