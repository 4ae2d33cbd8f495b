"""Queue standalone tasks over HTTP; pause and limit what runs, and ask why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pipeweave.client.models import Document, Page, checked_id, document_of, without_none
from pipeweave.client.paging import PAGE_SIZE, Methods


def _pausable(task_id: str | None) -> str:
    return "/api/queue" if task_id is None else f"/api/tasks/{checked_id(task_id)}"


class QueueMethods(Methods):
    """The methods of the client about standalone tasks, pauses and limits."""

    def queue(
        self,
        task_id: str,
        input: Any = None,
        *,
        priority: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Document:
        """Queue a standalone task; `runId` of the answer is the id of its task run.

        Args:
            task_id: the task.
            input: any JSON value, or what a task may return (a model, a date, …); None sends {}.
            priority: lower runs first; None for the task's priority.
            metadata: stored with the task run, for people and filters.
            idempotency_key: if another task run of the task has this key, the answer is that task run, with
                `created` false.

        Raises:
            NotFound: there is no such task.
        """
        task_input = {} if input is None else input
        body = without_none(
            taskId=task_id,
            input=task_input,
            priority=priority,
            metadata=metadata,
            idempotencyKey=idempotency_key,
        )
        return document_of(self._http.send("POST", "/api/queue/task", body))

    def queue_batch(self, requests: Iterable[Mapping[str, Any]]) -> list[Document]:
        """Queue up to 1,000 standalone tasks, all or none.

        Args:
            requests: for each task {taskId, input, priority?, metadata?, idempotencyKey?}.
        """
        answer = self._http.send("POST", "/api/queue/batch", {"tasks": [dict(each) for each in requests]})
        return list(answer["results"])

    def queue_status(self) -> Document:
        """Count the task runs that are pending, running, waiting, completed and failed."""
        return document_of(self._http.get("/api/queue/status"))

    def cancel_task(self, task_run_id: str, reason: str | None = None) -> Document:
        """Cancel a standalone task and return its task run.

        Raises:
            NotFound: there is no such task run. Conflict: it is already final, or it is a step of a run.
        """
        path = f"/api/task-runs/{checked_id(task_run_id)}/cancel"
        return document_of(self._http.send("POST", path, without_none(reason=reason)))

    def why(self, task_run_id: str) -> Document:
        """Explain why a task run does not run yet: {status, reasons}; the reason to resolve first is first.

        Raises:
            NotFound: there is no such task run.
        """
        return document_of(self._http.get(f"/api/task-runs/{checked_id(task_run_id)}/why"))

    def pause(self, task_id: str | None = None, reason: str | None = None) -> Document:
        """Pause a task, or with None the whole tenant: no task run starts; running attempts continue.

        Raises:
            NotFound: there is no such task.
        """
        return document_of(
            self._http.send("POST", f"{_pausable(task_id)}/pause", without_none(reason=reason))
        )

    def resume(self, task_id: str | None = None) -> Document:
        """End the pause of a task, or with None of the tenant; its waiting task runs may start again.

        Raises:
            NotFound: there is no such task. Conflict: it is not paused.
        """
        return document_of(self._http.send("POST", f"{_pausable(task_id)}/resume", {}))

    def queues(self) -> list[Document]:
        """List the tenant's queues, the longest first."""
        return list(self._all("/api/queues", "queues", {"limit": PAGE_SIZE}))

    def queue_detail(self, name: str) -> Document:
        """Read one queue by its full name: what waits in it by task and priority, and who serves it.

        Raises:
            NotFound: there is no such queue.
        """
        return document_of(self._http.get(f"/api/queues/{quote(name, safe='/')}"))

    def queue_items(
        self,
        *,
        status: str | None = None,
        task_id: str | None = None,
        queue: str | None = None,
        reasons: bool = False,
    ) -> Iterator[Document]:
        """Iterate over the open task runs in the order in which they start.

        Args:
            status: only `pending`, `ready`, `queued`, `running` or `waiting` ones.
            task_id: only those of this task.
            queue: only those in the queue with this full name.
            reasons: say of each what it waits for first.
        """
        filters = {"status": status, "taskId": task_id, "queue": queue}
        return self._all("/api/queue/items", "items", {"limit": PAGE_SIZE, "reasons": reasons, **filters})

    def enqueued_runs(self, /, **filters: Any) -> Page:
        """List one page of the enqueued runs that have not started.

        Args:
            filters: `status` (`waiting`, `refused` or `repeated`), `limit`, `cursor`.
        """
        return self._page("/api/enqueued", "enqueuedRuns", filters)

    def set_task_limits(
        self,
        task_id: str,
        *,
        concurrency: int | None = None,
        rate_limit: str | None = None,
        reason: str | None = None,
    ) -> Document:
        """Let other limits of a task hold than its code declares; return the task.

        They stay across deployments. Needs an administrator's token.

        Args:
            task_id: the task.
            concurrency: task runs at once; 0 for no limit, None for what the code declares.
            rate_limit: starts in a time, as `100/m`; `none` for no limit, None for what the code declares.
            reason: shown with the task.

        Raises:
            NotFound: there is no such task.
        """
        body = without_none(concurrency=concurrency, rateLimit=rate_limit, reason=reason)
        path = f"/api/tasks/{checked_id(task_id)}/limits"
        return document_of(document_of(self._http.send("PUT", path, body))["task"])

    def limits(self) -> Document:
        """Read the limits and their use: {maxActiveRuns, activeRuns, pendingRuns, tasks}."""
        return document_of(self._http.get("/api/queue/limits"))

    def set_limits(self, max_active_runs: int | None) -> Document:
        """Limit how many runs of the tenant may be active; None for no limit.

        Needs an administrator's token.
        """
        return document_of(self._http.send("PUT", "/api/queue/limits", {"maxActiveRuns": max_active_runs}))
