"""The client of the HTTP API.

    from pipeweave import Client

    client = Client()
    run = client.trigger("stdlib-report", {"limit": 100})
    print(client.wait(run, check=True).output)

Methods return the API's documents unchanged (camelCase). If the API answers with a problem document, the
client raises the class of `pipeweave.errors` that the document's code names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeweave.client.dead_letters import DeadLetters
from pipeweave.client.http import Transport
from pipeweave.client.models import Document, Page, Run, checked_id, document_of, run_of, without_none
from pipeweave.client.waiting import Waiting
from pipeweave.errors import Unavailable
from pipeweave.settings import connecting, load_for_client

# Rows per page when a method reads all pages.
PAGE_SIZE = 500

_LOADED = "?load=true"


def run_id_of(run: str | Run) -> str:
    """The id of a run, or the id that was given instead of it."""
    return run.id if isinstance(run, Run) else run


def _pausable(task_id: str | None) -> str:
    return "/api/queue" if task_id is None else f"/api/tasks/{checked_id(task_id)}"


class Client:
    """A client of one orchestrator for one tenant. Thread safe; reuses its connections.

    What is not given comes from the environment (PIPEWEAVE_ORCHESTRATOR_URL, PIPEWEAVE_API_TOKEN,
    PIPEWEAVE_TENANT), and without a URL there, from the stack that `pipeweave up` runs in this folder or in a
    folder above it. The token of a stack is sent to no other URL.

    Args:
        url: the API's URL, e.g. `http://127.0.0.1:3000`.
        token: bearer token (`pipeweave token create`).
        tenant: the tenant of every request; only needed for a token that is valid for several tenants.
        timeout: seconds without an answer after which a request raises Unavailable.
        data_dir: the data directory of a stack (`pipeweave up --data-dir`) to use instead of a URL.

    Raises:
        InvalidInput: the URL is no http or https URL, or both `url` and `data_dir` are given.
        InvalidSetting: one of the environment variables is invalid.
        Unavailable: nothing names an orchestrator, or no stack runs in `data_dir`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
        *,
        data_dir: str | Path | None = None,
    ) -> None:
        folder = Path(data_dir) if data_dir else None
        found = connecting.orchestrator(
            load_for_client(), url=url, token=token, tenant=tenant, data_dir=folder
        )
        self._http = Transport(found.url, found.token, found.tenant, timeout)
        self._dlq = DeadLetters(self._http)

    @property
    def url(self) -> str:
        return self._http.url

    @property
    def dlq(self) -> DeadLetters:
        """The dead letters: task runs that failed and are not retried any more."""
        return self._dlq

    def close(self) -> None:
        """Close the pooled connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trigger(
        self,
        pipeline_id: str,
        input: Any = None,
        *,
        failure_mode: str | None = None,
        priority: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        run_token: str | None = None,
        validation_mode: str | None = None,
    ) -> Run:
        """Start a run of a pipeline's newest version.

        Args:
            pipeline_id: the pipeline, or the entry task of a derived pipeline.
            input: any JSON value, or what a task may return (a model, a date, …); None sends {}.
            failure_mode: `fail-fast`, `continue` or `partial-merge`; None for the pipeline's failure mode.
            priority: lower runs first; None for the pipeline's priority.
            metadata: stored with the run, for people and filters.
            run_token: if a run was triggered with the same token and input before, that run is returned.
            validation_mode: `strict`, `warn` or `none`; None refuses what does not fit the pipeline's own
                signature, and warns of what does not fit the entry tasks' input schemas.

        Raises:
            NotFound: there is no such pipeline.
            InputValidationFailed: the input does not fit; one FieldError per wrong field.
        """
        answer = self._http.send(
            "POST",
            f"/api/pipelines/{checked_id(pipeline_id)}/trigger",
            without_none(
                input={} if input is None else input,
                failureMode=failure_mode,
                priority=priority,
                metadata=metadata,
                runToken=run_token,
                validationMode=validation_mode,
            ),
        )
        return Run(answer["pipelineRunId"], pipeline_id, answer["status"], answer)

    def trigger_batch(
        self, pipeline_id: str, runs: Iterable[Mapping[str, Any]], *, validation_mode: str | None = None
    ) -> list[Run]:
        """Start up to 1,000 runs, all or none.

        Args:
            pipeline_id: the pipeline, or the entry task of a derived pipeline.
            runs: for each run {input?, failureMode?, priority?, metadata?, runToken?}.
            validation_mode: `strict`, `warn` or `none`; None refuses what does not fit the pipeline's own
                signature, and warns of what does not fit the entry tasks' input schemas.

        Raises:
            NotFound: there is no such pipeline.
            InvalidInput: a run is invalid; the fields of its errors name the run: `runs[3].priority`.
        """
        answer = self._http.send(
            "POST",
            f"/api/pipelines/{checked_id(pipeline_id)}/trigger/batch",
            without_none(runs=[dict(each) for each in runs], validationMode=validation_mode),
        )
        return [Run(each["pipelineRunId"], pipeline_id, each["status"], each) for each in answer["runs"]]

    def run(self, run_id: str, *, load: bool = False) -> Run:
        """Read a run, with its counts by status and its first 1,000 task runs.

        Args:
            run_id: the run.
            load: also load large values from storage; otherwise `outputRefs` names their paths.

        Raises:
            NotFound: there is no such run.
        """
        return run_of(self._http.get(f"/api/runs/{checked_id(run_id)}{_LOADED * load}"))

    def wait(
        self,
        run: str | Run,
        timeout: float | None = None,
        on_change: Callable[[Run], None] | None = None,
        *,
        check: bool = False,
    ) -> Run:
        """Poll a run until it is final. A restart of the API in between does not end the wait.

        Args:
            run: the run to wait for, or its id.
            timeout: seconds to wait at most; None waits without limit.
            on_change: called with the run whenever the API's answer differs from the answer before.
            check: raise RunFailed unless the run ends `completed`.

        Raises:
            RunFailed: the run ended `failed`, `partial` or `cancelled` (only with `check`).
            WaitTimeout: the run has not finished yet; it continues to run.
            NotFound: there is no such run.
        """
        run_id = run_id_of(run)
        waiting = Waiting(run_id, timeout, on_change)
        while True:
            waiting.asks()
            try:
                found = self.run(run_id)
            except Unavailable as error:
                time.sleep(waiting.pause_after_outage(error))
                continue
            waiting.saw(found)
            if found.is_final:
                return found.checked() if check else found
            time.sleep(waiting.pause_after(found))

    def runs(
        self,
        /,
        *,
        status: str | None = None,
        pipeline_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        id_prefix: str | None = None,
        **filters: Any,
    ) -> Page:
        """List one page of runs, newest first.

        Args:
            status: only runs in this status.
            pipeline_id: only runs of this pipeline.
            limit: rows per page, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
            id_prefix: only runs whose id begins like this, with or without `prun_`.
            filters: further parameters of the API, such as `createdAfter`.
        """
        query = {
            "status": status,
            "pipelineId": pipeline_id,
            "limit": limit,
            "cursor": cursor,
            "idPrefix": id_prefix,
            **filters,
        }
        return self._page("/api/runs", "runs", query)

    def cancel(self, run_id: str, reason: str | None = None) -> Run:
        """Cancel a run.

        Raises:
            NotFound: there is no such run. Conflict: the run is already final.
        """
        path = f"/api/runs/{checked_id(run_id)}/cancel"
        return run_of(self._http.send("POST", path, without_none(reason=reason)))

    def cancel_task(self, task_run_id: str, reason: str | None = None) -> Document:
        """Cancel a standalone task and return its task run.

        Raises:
            NotFound: there is no such task run. Conflict: it is already final, or it is a step of a run.
        """
        path = f"/api/task-runs/{checked_id(task_run_id)}/cancel"
        return document_of(self._http.send("POST", path, without_none(reason=reason)))

    def task_run(self, task_run_id: str, *, load: bool = False) -> Document:
        """Read a task run with its attempts, input and output; `load` also loads large values."""
        return document_of(self._http.get(f"/api/task-runs/{checked_id(task_run_id)}{_LOADED * load}"))

    def task_runs(self, /, run_id: str, **filters: Any) -> Iterator[Document]:
        """Iterate over all task runs of a run, page by page."""
        return self._all(
            f"/api/runs/{checked_id(run_id)}/task-runs", "taskRuns", {"limit": PAGE_SIZE, **filters}
        )

    def find_task_runs(self, id_prefix: str, limit: int = 10) -> list[Document]:
        """Find task runs of all runs whose id begins like this, with or without `trun_`.

        Args:
            id_prefix: 8 characters of the id or more.
            limit: how many at most, 1 to 100.
        """
        answer = self._http.get("/api/task-runs", {"idPrefix": id_prefix, "limit": limit})
        return list(document_of(answer)["taskRuns"])

    def events(self, /, run_id: str, **filters: Any) -> Iterator[Document]:
        """Iterate over all events of a run in order, page by page."""
        return self._all(f"/api/runs/{checked_id(run_id)}/events", "events", {"limit": PAGE_SIZE, **filters})

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
        given = {} if input is None else input
        body = without_none(
            taskId=task_id,
            input=given,
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

    def limits(self) -> Document:
        """Read the tenant's limit and its use: {maxActiveRuns, activeRuns, pendingRuns}."""
        return document_of(self._http.get("/api/queue/limits"))

    def set_limits(self, max_active_runs: int | None) -> Document:
        """Limit how many runs of the tenant may be active; None for no limit.

        Needs an administrator's token.
        """
        return document_of(self._http.send("PUT", "/api/queue/limits", {"maxActiveRuns": max_active_runs}))

    def pipelines(self) -> list[Document]:
        """List all pipelines."""
        return list(self._all("/api/pipelines", "pipelines", {}))

    def pipeline(self, pipeline_id: str, version: int | None = None) -> Document:
        """Read a pipeline: its newest version, or the given version."""
        path = f"/api/pipelines/{checked_id(pipeline_id)}"
        answer = document_of(self._http.get(path, {"version": version}))
        return document_of(answer["pipeline"])

    def put_pipeline(self, pipeline_id: str, spec: Mapping[str, Any]) -> Document:
        """Store a spec as the next version; a spec equal to the newest version changes nothing.

        Raises:
            InvalidSpec: the spec is invalid; one FieldError per mistake. Nothing is stored.
        """
        return document_of(self._http.send("PUT", f"/api/pipelines/{checked_id(pipeline_id)}", dict(spec)))

    def versions(self, pipeline_id: str) -> list[Document]:
        """List a pipeline's versions, newest first."""
        return list(self._all(f"/api/pipelines/{checked_id(pipeline_id)}/versions", "versions", {}))

    def dry_run(self, pipeline_id: str, input: Any = None, spec: Mapping[str, Any] | None = None) -> Document:
        """Plan a run without starting it: {valid, errors, warnings, executionPlan}.

        Args:
            pipeline_id: the pipeline.
            input: an input to check against the entry tasks' schemas; None checks no input.
            spec: plan this document instead of the stored version.
        """
        body = without_none(input=input, spec=None if spec is None else dict(spec))
        return document_of(self._http.send("POST", f"/api/pipelines/{checked_id(pipeline_id)}/dry-run", body))

    def services(self) -> list[Document]:
        """List all services that ever registered."""
        return list(self._all("/api/services", "services", {}))

    def tasks(self, service_id: str | None = None) -> list[Document]:
        """List all tasks, or the tasks of one service."""
        path = "/api/tasks" if service_id is None else f"/api/services/{checked_id(service_id)}/tasks"
        return list(self._all(path, "tasks", {}))

    def remove_task(self, task_id: str, reason: str | None = None) -> Document:
        """Remove a task that no live worker has; its task runs that have not started are cancelled.

        Raises:
            NotFound: there is no such task. Conflict: a live worker has it.
        """
        body = without_none(reason=reason)
        return document_of(self._http.send("POST", f"/api/tasks/{checked_id(task_id)}/remove", body))

    def deploys(self) -> list[Document]:
        """List which live worker processes have which tasks in which code versions."""
        return list(self._all("/api/deploys", "deploys", {}))

    def health(self) -> Document:
        """Read `GET /health`.

        Raises:
            Unavailable: the API cannot be reached, or it cannot reach PostgreSQL or the broker.
        """
        return document_of(self._http.get("/health"))

    def info(self) -> Document:
        """Read the version, mode and limits of the orchestrator."""
        return document_of(self._http.get("/api/info"))

    def maintenance(self) -> Document:
        """Read the deployment's mode and its open runs: `blocking` (the oldest 20) and `blockingTotal`."""
        return document_of(self._http.get("/api/maintenance"))

    def request_maintenance(self, reason: str | None = None) -> Document:
        """Stop accepting new work; maintenance begins when the last open run ends. For administrators."""
        return document_of(self._http.send("POST", "/api/maintenance/request", without_none(reason=reason)))

    def enter_maintenance(self, reason: str | None = None) -> Document:
        """Begin maintenance if no run is open, else change nothing. For administrators.

        Raises:
            Conflict: maintenance was not requested.
        """
        return document_of(self._http.send("POST", "/api/maintenance/enter", without_none(reason=reason)))

    def exit_maintenance(self, reason: str | None = None) -> Document:
        """End maintenance and accept new work again. For administrators.

        Raises:
            Conflict: maintenance was not requested.
        """
        return document_of(self._http.send("POST", "/api/maintenance/exit", without_none(reason=reason)))

    def tick(self) -> Document:
        """Run one tick, as beat does every second: {processed, did, message}."""
        return document_of(self._http.send("POST", "/api/tick", {}))

    def _page(self, path: str, name: str, query: Mapping[str, Any]) -> Page:
        answer = document_of(self._http.get(path, query))
        return Page(list(answer[name]), answer.get("nextCursor"))

    def _all(self, path: str, name: str, filters: Mapping[str, Any]) -> Iterator[Document]:
        cursor = None
        while True:
            page = self._page(path, name, {**filters, "cursor": cursor})
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return
