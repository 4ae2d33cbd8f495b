"""Statistics over HTTP: what runs and attempts came to over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.paging import Methods


class StatisticsMethods(Methods):
    """The methods of the client about statistics."""

    def run_stats(
        self,
        pipeline: str | None = None,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        bucket: str | None = None,
    ) -> Document:
        """Read what runs came to, in at most 300 buckets: {points, summary, asOf, …}.

        Args:
            pipeline: the runs of this pipeline; None for all of the tenant.
            begin: None for a day before the end.
            end: None for now.
            bucket: the length of a bucket such as `5m`; None for the shortest that fits.

        Raises:
            NotFound: there is no such pipeline. InvalidInput: these are too many buckets.
        """
        path = "/api/stats/runs" if pipeline is None else f"/api/stats/pipelines/{checked_id(pipeline)}"
        return document_of(self._http.get(path, _window(begin, end, bucket)))

    def task_stats(
        self,
        task: str | None = None,
        *,
        service: str | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        bucket: str | None = None,
    ) -> Document:
        """Read what attempts came to, in at most 300 buckets: {points, summary, asOf, …}.

        Args:
            task: the attempts of this task; None for all of the service or the tenant.
            service: the attempts of this service's tasks. Not with `task`.
            begin, end, bucket: as of `run_stats`.

        Raises:
            NotFound: there is no such task or service. InvalidInput: these are too many buckets.
        """
        chosen = without_none(taskId=task, serviceId=service)
        return document_of(self._http.get("/api/stats/tasks", {**chosen, **_window(begin, end, bucket)}))

    def stats_by_pipeline(
        self,
        pipelines: Sequence[str] = (),
        *,
        limit: int | None = None,
        recent: int | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
    ) -> Document:
        """Read what the runs of many pipelines came to: {pipelines: [{pipelineId, successRate, …}], …}.

        Args:
            pipelines: at most 200; without any, those of which most runs failed.
            limit: so many of those that fail most; 10 unless given.
            recent: so many of the newest runs of each, at most 20.
            begin, end: as of `run_stats`.
        """
        chosen = without_none(pipelineId=list(pipelines) or None, limit=limit, recent=recent)
        return document_of(self._http.get("/api/stats/by-pipeline", {**chosen, **_window(begin, end)}))

    def stats_by_task(
        self, tasks: Sequence[str], *, begin: datetime | None = None, end: datetime | None = None
    ) -> Document:
        """Read what the attempts of many tasks came to: {tasks: [{taskId, successRate, …}], …}.

        Args:
            tasks: at most 200.
            begin, end: as of `run_stats`.
        """
        chosen = {"taskId": list(tasks)}
        return document_of(self._http.get("/api/stats/by-task", {**chosen, **_window(begin, end)}))

    def stats_by_queue(
        self, queues: Sequence[str], *, begin: datetime | None = None, end: datetime | None = None
    ) -> Document:
        """Read how many attempts of the tasks of queues ended: {queues: [{queue, attempts, ends}], …}.

        Args:
            queues: full names, at most 200.
            begin: None for an hour before the end.
            end: None for now.
        """
        chosen = {"queue": list(queues)}
        return document_of(self._http.get("/api/stats/by-queue", {**chosen, **_window(begin, end)}))


def _window(begin: datetime | None, end: datetime | None, bucket: str | None = None) -> Document:
    times = {"from": begin and begin.isoformat(), "to": end and end.isoformat(), "bucket": bucket}
    return {name: value for name, value in times.items() if value is not None}
