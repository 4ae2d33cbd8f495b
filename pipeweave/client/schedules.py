"""Store, read and start schedules over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.paging import Methods


def _path(schedule_id: str, verb: str = "") -> str:
    return f"/api/schedules/{checked_id(schedule_id)}{verb}"


def _time(moment: datetime | str | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment


class ScheduleMethods(Methods):
    """The methods of the client about schedules."""

    def schedules(
        self, pipeline_id: str | None = None, state: str | None = None, *, recent: int | None = None
    ) -> list[Document]:
        """List all schedules, or those of one pipeline or state (`on`, `failed`, `paused`, `over`).

        Args:
            recent: so many of the last fires of each come with it, as `lastFires`, at most 20.
        """
        query = {"pipelineId": pipeline_id, "state": state, "recent": recent}
        return list(self._all("/api/schedules", "schedules", query))

    def schedule_calendar(
        self,
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        pipeline_id: str | None = None,
    ) -> Document:
        """Read what the schedules did in a stretch of time, and when they are due in it: {fires, often, …}.

        Args:
            begin: the first moment; None for now.
            end: the moment after the last, at most 35 days later; None for 7 days later.
            pipeline_id: only schedules of this pipeline.
        """
        query = {"from": _time(begin), "to": _time(end), "pipelineId": pipeline_id}
        return document_of(self._http.get("/api/schedule-calendar", query))

    def schedule(self, schedule_id: str) -> Document:
        """Read a schedule with `nextFires` and `lastFires`.

        Raises:
            NotFound: there is no such schedule.
        """
        return document_of(self._http.get(_path(schedule_id)))

    def put_schedule(self, schedule_id: str, schedule: Mapping[str, Any]) -> Document:
        """Store a schedule, or replace all of it: {pipelineId, cron | everyMs | at, timeZone, input, …}.

        Raises:
            InvalidInput: one FieldError per mistake. Nothing is stored. NotFound: there is no such pipeline.
        """
        return document_of(self._http.send("PUT", _path(schedule_id), dict(schedule)))

    def delete_schedule(self, schedule_id: str) -> Document:
        """Delete a schedule; its runs go on.

        Raises:
            NotFound: there is no such schedule.
        """
        return document_of(self._http.send("DELETE", _path(schedule_id)))

    def pause_schedule(self, schedule_id: str) -> Document:
        """Let a schedule start nothing until it is resumed; return it.

        Raises:
            NotFound: there is no such schedule.
        """
        return document_of(self._http.send("POST", _path(schedule_id, "/pause"), {}))

    def resume_schedule(self, schedule_id: str) -> Document:
        """End a pause; return the schedule. The times during the pause are not made up for.

        Raises:
            NotFound: there is no such schedule.
        """
        return document_of(self._http.send("POST", _path(schedule_id, "/resume"), {}))

    def fire_schedule(self, schedule_id: str) -> Document:
        """Start a run of a schedule now: {scheduleId, scheduledAt, pipelineRunId, status}.

        Raises:
            NotFound: there is no such schedule.
        """
        return document_of(self._http.send("POST", _path(schedule_id, "/fire"), {}))

    def backfill_schedule(
        self,
        schedule_id: str,
        begin: datetime | str,
        end: datetime | str,
        *,
        dry_run: bool = False,
        limit: int | None = None,
    ) -> Document:
        """Start a run for each due time of the past that nothing was decided about.

        Args:
            schedule_id: the schedule.
            begin: the first time that counts.
            end: times from here on do not count; not after now.
            dry_run: only show the times.
            limit: the largest number of due times, at most 1,000.

        Returns:
            {times, created, known, runIds, nextFrom}; `nextFrom` is where the next call begins, or None.

        Raises:
            NotFound: there is no such schedule.
        """
        body = without_none(**{"from": _time(begin), "to": _time(end)}, dryRun=dry_run, limit=limit)
        return document_of(self._http.send("POST", _path(schedule_id, "/backfill"), body))

    def preview_schedule(self, times: Mapping[str, Any]) -> Document:
        """Show when a schedule would be due: {nextFires, text}.

        Args:
            times: {cron | everyMs | at, timeZone, startAt, endAt}.
        """
        return document_of(self._http.send("POST", "/api/schedules/preview", dict(times)))
