"""Say in a few words when a schedule is due."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeweave.cli.support.rendering import when

if TYPE_CHECKING:
    from pipeweave.client import Client


def times_of(schedule: Mapping[str, Any]) -> str:
    """When a schedule is due: its cron line, its interval or its only time."""
    if schedule["cron"] is not None:
        return str(schedule["cron"])
    if schedule["everyMs"] is not None:
        return f"every {schedule['everyMs'] / 1_000:g} s"
    return f"at {when(schedule['at'])}"


def schedules_of(client: Client, pipeline: str) -> str | None:
    """The schedules of a pipeline; None if it has none."""
    descriptions = (
        f"{each['id']} ({times_of(each)} {each['timeZone']}{', paused' if each['paused'] else ''})"
        for each in client.schedules(pipeline)
    )
    return ", ".join(descriptions) or None
