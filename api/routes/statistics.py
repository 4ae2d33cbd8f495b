"""Endpoints of statistics: what runs and attempts came to over time, and what waits now."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.statistics import (
    ByPipelineQuery,
    ByQueueQuery,
    ByTaskQuery,
    RunStatsQuery,
    StatisticsQuery,
    StatsQuery,
    TaskStatsQuery,
)
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import FieldError, InvalidInput, NotFound
from pipeweave.orchestrator.documents.statistics import (
    PipelineStats,
    QueueStatistics,
    RunStats,
    Statistics,
    StatsByPipeline,
    StatsByQueue,
    StatsByTask,
    TaskStats,
)
from pipeweave.orchestrator.telemetry.statistics import answers, open_queue

routes = Routes("statistics")
PIPELINE = {"id": PathId(None, "The pipeline's id.")}
TASK = {"id": PathId(None, "The task's id.")}
SERVICE = {"id": PathId(None, "The service's id.")}


@routes.add(
    "GET",
    "/api/stats/runs",
    "Show what runs came to",
    query=RunStatsQuery,
    answer=RunStats,
    errors=(NotFound,),
)
def runs(call: Call, query: RunStatsQuery) -> dict[str, Any]:
    """The runs of a pipeline or of the tenant in up to 300 buckets: how many there were, how they ended, how
    long they took and waited. Quantiles are approximate. Minutes are kept for 48 hours, hours for 90 days,
    days for ever.
    """
    with call.reading() as tx:
        return answers.runs(tx, call.tenant, query.window(tx.now), query.pipeline_id)


@routes.add(
    "GET",
    "/api/stats/tasks",
    "Show what attempts came to",
    query=TaskStatsQuery,
    answer=TaskStats,
    errors=(NotFound,),
)
def tasks(call: Call, query: TaskStatsQuery) -> dict[str, Any]:
    """The attempts of a task, of a service's tasks or of all tasks in up to 300 buckets, as for runs."""
    if query.task_id is not None and query.service_id is not None:
        message = "cannot be given with taskId"
        raise InvalidInput(f"serviceId {message}", errors=[FieldError("serviceId", message, "excluded")])
    with call.reading() as tx:
        window = query.window(tx.now)
        return answers.tasks(tx, call.tenant, window, task_id=query.task_id, service_id=query.service_id)


@routes.add(
    "GET",
    "/api/stats/pipelines/{id}",
    "Show what a pipeline's runs came to",
    ids=PIPELINE,
    query=StatsQuery,
    answer=PipelineStats,
    errors=(NotFound,),
)
def pipeline(call: Call, id: str, query: StatsQuery) -> dict[str, Any]:
    """A pipeline's runs in up to 300 buckets, its new versions, and how long its tasks took."""
    with call.reading() as tx:
        return answers.pipeline(tx, call.tenant, id, query.window(tx.now))


@routes.add(
    "GET",
    "/api/stats/by-pipeline",
    "Show what the runs of many pipelines came to",
    query=ByPipelineQuery,
    answer=StatsByPipeline,
)
def by_pipeline(call: Call, query: ByPipelineQuery) -> dict[str, Any]:
    """The runs of each of these pipelines, or of those that fail most: sums, rates, and a line of bars.

    A pipeline that nobody knows has zeros. Which ones fail most is found among 1,000 pipelines.
    """
    with call.reading() as tx:
        window = query.window(tx.now)
        most, recent = query.limit, query.recent
        return answers.by_pipeline(tx, call.tenant, window, query.pipeline_id, most=most, recent=recent)


@routes.add(
    "GET",
    "/api/stats/by-task",
    "Show what the attempts of many tasks came to",
    query=ByTaskQuery,
    answer=StatsByTask,
)
def by_task(call: Call, query: ByTaskQuery) -> dict[str, Any]:
    """The attempts of each of these tasks: sums, rates, and a line of bars. A task that nobody knows has
    zeros.
    """
    with call.reading() as tx:
        return answers.by_task(tx, call.tenant, query.window(tx.now), query.task_id)


@routes.add(
    "GET",
    "/api/stats/by-queue",
    "Show what left many queues",
    query=ByQueueQuery,
    answer=StatsByQueue,
)
def by_queue(call: Call, query: ByQueueQuery) -> dict[str, Any]:
    """The attempts that ended of the tasks of each of these queues, as a line of bars. A queue that nobody
    knows has zeros. Of a tenant with more than 1,000 tasks in these queues, those of further ones are left
    out.
    """
    with call.reading() as tx:
        return answers.by_queue(tx, call.tenant, query.window(tx.now), query.queue)


@routes.add(
    "GET",
    "/api/statistics/system",
    "Show a tenant's statistics",
    query=StatisticsQuery,
    answer=Statistics,
)
def system(call: Call, query: StatisticsQuery) -> dict[str, Any]:
    """All task runs and runs of the tenant in up to 1,500 buckets."""
    with call.reading() as tx:
        return answers.system(tx, call.tenant, query.window(tx.now))


@routes.add(
    "GET",
    "/api/statistics/services/{id}",
    "Show a service's statistics",
    ids=SERVICE,
    query=StatisticsQuery,
    answer=Statistics,
    errors=(NotFound,),
)
def service(call: Call, id: str, query: StatisticsQuery) -> dict[str, Any]:
    """The task runs of a service in up to 1,500 buckets."""
    with call.reading() as tx:
        return answers.of_tasks(tx, call.tenant, query.window(tx.now), "service", id)


@routes.add(
    "GET",
    "/api/statistics/tasks/{id}",
    "Show a task's statistics",
    ids=TASK,
    query=StatisticsQuery,
    answer=Statistics,
    errors=(NotFound,),
)
def task(call: Call, id: str, query: StatisticsQuery) -> dict[str, Any]:
    """The task runs of a task in up to 1,500 buckets."""
    with call.reading() as tx:
        return answers.of_tasks(tx, call.tenant, query.window(tx.now), "task", id)


@routes.add(
    "GET",
    "/api/statistics/pipelines/{id}",
    "Show a pipeline's statistics",
    ids=PIPELINE,
    query=StatisticsQuery,
    answer=Statistics,
    errors=(NotFound,),
)
def pipeline_statistics(call: Call, id: str, query: StatisticsQuery) -> dict[str, Any]:
    """The runs of a pipeline in up to 1,500 buckets."""
    with call.reading() as tx:
        return answers.of_pipeline(tx, call.tenant, query.window(tx.now), id)


@routes.add("GET", "/api/statistics/queue", "Show what waits, by task", answer=QueueStatistics)
def queue(call: Call) -> dict[str, Any]:
    """The open task runs of the tenant, by task, and how long they wait."""
    with call.reading() as tx:
        return open_queue.queue(tx, call.tenant)
