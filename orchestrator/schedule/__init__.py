"""Schedules: stores them, and starts the runs of those that are due.

Called by registrations, the tick and `api`. This room must never read an HTTP request or build its answer,
and never ask any clock but that of PostgreSQL.
"""

from pipeweave.orchestrator.schedule import by_hand, declaring, firing, storing
from pipeweave.orchestrator.schedule.row import MISSED, OVERLAP, SOURCES
from pipeweave.orchestrator.schedule.storing import ScheduleSpec

__all__ = [
    "MISSED",
    "OVERLAP",
    "SOURCES",
    "ScheduleSpec",
    "by_hand",
    "declaring",
    "firing",
    "storing",
]
