"""Schedules: stores them, and starts the runs of those that are due."""

from pipeweave.orchestrator.starts.schedules import by_hand, declaring, firing, storing
from pipeweave.orchestrator.starts.schedules.row import MISSED, OVERLAP, SOURCES
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec

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
