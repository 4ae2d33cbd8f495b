"""The client of the HTTP API: trigger runs, wait for them, look at everything. The CLI is built on it.

    from pipeweave import Client

    client = Client("http://127.0.0.1:3000", token="…")
    run = client.trigger("stdlib-report", {"limit": 100})
    print(client.wait(run.id).status)

Documents are given as the API sends them (camelCase). Every refusal is raised as the class of
`pipeweave.errors` that its problem document names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pipeweave.client.dead_letters import DeadLetters
from pipeweave.client.http import Transport
from pipeweave.client.models import Document, Page, Run, checked_id, document_of, run_of, without_none
from pipeweave.errors import Unavailable, WaitTimeout

# How often `wait` looks: soon at first, for runs that take milliseconds, then less and less often.
FIRST_LOOK_S = 0.02
LAST_LOOK_S = 0.5
SLOWER_BY = 1.5
# Looking must not slow running: a large run, whose answer takes long, is looked at less often.
PAUSE_PER_ANSWER = 20
LONGEST_PAUSE_S = 2.0
# Rows a page when everything is wanted.
PAGE_SIZE = 500
# `wait` outlives a restart of the API that takes no longer than this.
OUTAGE_S = 15.0


_LOADED = "?load=true"


def _paused(task_id: str | None) -> str:
    return "/api/queue" if task_id is None else f"/api/tasks/{checked_id(task_id)}"


class Client:
    """One orchestrator, seen as one tenant. Thread safe; keeps its connections.

    Args:
        url: where the API is, e.g. `http://127.0.0.1:3000`.
        token: bearer token (`pipeweave token create`), None to send none.
        tenant: the tenant of every request.
        timeout: seconds without an answer after which a request ends in Unavailable.
    """

    def __init__(
        self, url: str, token: str | None = None, tenant: str = "default", timeout: float = 30.0
    ) -> None:
        self._http = Transport(url, token, tenant, timeout)
        self._dlq = DeadLetters(self._http)

    @property
    def url(self) -> str:
        return self._http.url

    @property
    def dlq(self) -> DeadLetters:
        """Task runs that failed for good."""
        return self._dlq

    def close(self) -> None:
        """Close the kept connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- runs ---------------------------------------------------------------------------------------------

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
            pipeline_id: the pipeline, or a task that stands for the pipeline derived from it.
            input: any JSON value; {} when None.
            failure_mode: `fail-fast`, `continue` or `partial-merge`; None keeps the pipeline's own.
            priority: lower runs first; None keeps the pipeline's own.
            metadata: kept with the run, for people and filters.
            run_token: a second trigger with the same token and input gives the first one's run.
            validation_mode: `strict`, `warn` or `none` for the entry tasks' input schemas.

        Raises:
            NotFound: no such pipeline. InputValidationFailed: with one FieldError per wrong field.
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
        """Start up to 1,000 runs, all or none. Each of `runs` is as `trigger` sends it.

        Raises:
            NotFound: no such pipeline. InvalidInput: its fields say which run, as in `runs[3].priority`.
        """
        answer = self._http.send(
            "POST",
            f"/api/pipelines/{checked_id(pipeline_id)}/trigger/batch",
            without_none(runs=[dict(each) for each in runs], validationMode=validation_mode),
        )
        return [Run(each["pipelineRunId"], pipeline_id, each["status"], each) for each in answer["runs"]]

    def run(self, run_id: str, *, load: bool = False) -> Run:
        """A run with its counts by status and its first 1,000 task runs.

        Args:
            run_id: the run.
            load: fetch large values from storage, too; otherwise `outputRefs` says where they are.

        Raises:
            NotFound: there is no such run.
        """
        return run_of(self._http.get(f"/api/runs/{checked_id(run_id)}{_LOADED * load}"))

    def wait(
        self, run_id: str, timeout: float | None = None, on_change: Callable[[Run], None] | None = None
    ) -> Run:
        """Look at a run until it is final; a restart of the API in between is waited out.

        Args:
            run_id: the run to wait for.
            timeout: seconds to wait at most; None waits as long as it takes.
            on_change: called with the run whenever what the API says of it differs from the last time.

        Raises:
            WaitTimeout: it was not final in time. It goes on all the same.
            NotFound: there is no such run.
        """
        began = time.monotonic()
        pause, last = FIRST_LOOK_S, None
        while True:
            asked = time.monotonic()
            run = self._look(run_id)
            answered = time.monotonic()
            if on_change and run.document != last:
                on_change(run)
                last = run.document
            if run.is_final:
                return run
            left = None if timeout is None else timeout - (answered - began)
            if left is not None and left <= 0:
                raise WaitTimeout(
                    f"run {run_id} is still {run.status} after {timeout:g} s",
                    hint=f"`pipeweave status {run_id} --watch` follows it",
                )
            pause = max(pause, min(PAUSE_PER_ANSWER * (answered - asked), LONGEST_PAUSE_S))
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * SLOWER_BY, LAST_LOOK_S)

    def runs(
        self,
        *,
        status: str | None = None,
        pipeline_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **filters: Any,
    ) -> Page:
        """A page of runs, newest first."""
        query = {"status": status, "pipelineId": pipeline_id, "limit": limit, "cursor": cursor, **filters}
        return self._page("/api/runs", "runs", query)

    def cancel(self, run_id: str, reason: str | None = None) -> Run:
        """Cancel a run.

        Raises:
            NotFound: there is no such run. Conflict: it is final already.
        """
        path = f"/api/runs/{checked_id(run_id)}/cancel"
        return run_of(self._http.send("POST", path, without_none(reason=reason)))

    def cancel_task(self, task_run_id: str, reason: str | None = None) -> Document:
        """Cancel a standalone task; gives its task run.

        Raises:
            NotFound: there is no such task run. Conflict: it is final already, or a step of a run.
        """
        path = f"/api/task-runs/{checked_id(task_run_id)}/cancel"
        return document_of(self._http.send("POST", path, without_none(reason=reason)))

    def task_run(self, task_run_id: str, *, load: bool = False) -> Document:
        """One task run with its attempts, input and output; `load` fetches large values from storage, too."""
        return document_of(self._http.get(f"/api/task-runs/{checked_id(task_run_id)}{_LOADED * load}"))

    def task_runs(self, run_id: str, **filters: Any) -> Iterator[Document]:
        """Every task run of a run, page by page."""
        return self._all(
            f"/api/runs/{checked_id(run_id)}/task-runs", "taskRuns", {"limit": PAGE_SIZE, **filters}
        )

    def events(self, run_id: str, **filters: Any) -> Iterator[Document]:
        """Every event of a run in order, page by page."""
        return self._all(f"/api/runs/{checked_id(run_id)}/events", "events", {"limit": PAGE_SIZE, **filters})

    # --- standalone tasks ---------------------------------------------------------------------------------

    def queue(
        self,
        task_id: str,
        input: Any = None,
        *,
        priority: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Document:
        """Queue one task outside any pipeline; `runId` of the answer is its task run.

        Args:
            idempotency_key: where another task run of the task has it, that one is the answer, with `created`
                false.

        Raises:
            NotFound: no such task.
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
        """Queue up to 1,000 tasks, all or none. Each is {taskId, input, priority?, metadata?,
        idempotencyKey?}.
        """
        answer = self._http.send("POST", "/api/queue/batch", {"tasks": [dict(each) for each in requests]})
        return list(answer["results"])

    def queue_status(self) -> Document:
        """How many task runs are pending, running, waiting, completed and failed."""
        return document_of(self._http.get("/api/queue/status"))

    def why(self, task_run_id: str) -> Document:
        """Why a task run does not run yet: {status, reasons}, in the order in which they must go away.

        Raises:
            NotFound: there is no such task run.
        """
        return document_of(self._http.get(f"/api/task-runs/{checked_id(task_run_id)}/why"))

    def pause(self, task_id: str | None = None, reason: str | None = None) -> Document:
        """Let nothing of a task start, or with None nothing of the tenant; what runs goes on to its end.

        Raises:
            NotFound: no such task.
        """
        return document_of(self._http.send("POST", f"{_paused(task_id)}/pause", without_none(reason=reason)))

    def resume(self, task_id: str | None = None) -> Document:
        """Let go what waited for the end of a pause.

        Raises:
            NotFound: no such task. Conflict: it is not paused.
        """
        return document_of(self._http.send("POST", f"{_paused(task_id)}/resume", {}))

    def limits(self) -> Document:
        """{maxActiveRuns, activeRuns, pendingRuns} of the tenant."""
        return document_of(self._http.get("/api/queue/limits"))

    def set_limits(self, max_active_runs: int | None) -> Document:
        """Let at most so many runs of the tenant be active; None for no limit. For administrators."""
        return document_of(self._http.send("PUT", "/api/queue/limits", {"maxActiveRuns": max_active_runs}))

    # --- what there is ------------------------------------------------------------------------------------

    def pipelines(self) -> list[Document]:
        """Every pipeline."""
        return list(self._all("/api/pipelines", "pipelines", {}))

    def pipeline(self, pipeline_id: str, version: int | None = None) -> Document:
        """A pipeline's newest version, or the one that is named."""
        path = f"/api/pipelines/{checked_id(pipeline_id)}"
        answer = document_of(self._http.get(path, {"version": version}))
        return document_of(answer["pipeline"])

    def put_pipeline(self, pipeline_id: str, spec: Mapping[str, Any]) -> Document:
        """Store a spec; an equal one keeps the version, a different one makes the next.

        Raises:
            InvalidSpec: with one FieldError per thing that is wrong; nothing is stored.
        """
        return document_of(self._http.send("PUT", f"/api/pipelines/{checked_id(pipeline_id)}", dict(spec)))

    def versions(self, pipeline_id: str) -> list[Document]:
        """A pipeline's versions, newest first."""
        return list(self._all(f"/api/pipelines/{checked_id(pipeline_id)}/versions", "versions", {}))

    def dry_run(self, pipeline_id: str, input: Any = None, spec: Mapping[str, Any] | None = None) -> Document:
        """What a run would do, without doing it: {valid, errors, warnings, executionPlan}.

        Args:
            pipeline_id: the pipeline.
            input: checked against the entry tasks' schemas, when given.
            spec: plan this document instead of the stored version.
        """
        body = without_none(input=input, spec=None if spec is None else dict(spec))
        return document_of(self._http.send("POST", f"/api/pipelines/{checked_id(pipeline_id)}/dry-run", body))

    def services(self) -> list[Document]:
        """Every service that ever registered."""
        return list(self._all("/api/services", "services", {}))

    def tasks(self, service_id: str | None = None) -> list[Document]:
        """Every task, or those of one service."""
        path = "/api/tasks" if service_id is None else f"/api/services/{checked_id(service_id)}/tasks"
        return list(self._all(path, "tasks", {}))

    def health(self) -> Document:
        """What `GET /health` says.

        Raises:
            Unavailable: the API answers, but PostgreSQL or the broker does not.
        """
        return document_of(self._http.get("/health"))

    def info(self) -> Document:
        """Version, mode and limits of the orchestrator."""
        return document_of(self._http.get("/api/info"))

    # --- the deployment itself, for administrators --------------------------------------------------------

    def maintenance(self) -> Document:
        """The mode, and the runs that are open: `blocking`, the oldest 20, and `blockingTotal`."""
        return document_of(self._http.get("/api/maintenance"))

    def request_maintenance(self, reason: str | None = None) -> Document:
        """Accept nothing new; with the end of the last open run, maintenance begins."""
        return document_of(self._http.send("POST", "/api/maintenance/request", without_none(reason=reason)))

    def enter_maintenance(self, reason: str | None = None) -> Document:
        """Begin maintenance if no run is open, else change nothing.

        Raises:
            Conflict: it was not requested.
        """
        return document_of(self._http.send("POST", "/api/maintenance/enter", without_none(reason=reason)))

    def exit_maintenance(self, reason: str | None = None) -> Document:
        """Accept everything again.

        Raises:
            Conflict: it was not requested.
        """
        return document_of(self._http.send("POST", "/api/maintenance/exit", without_none(reason=reason)))

    def tick(self) -> Document:
        """Run one tick, as beat does each second: {processed, did, message}."""
        return document_of(self._http.send("POST", "/api/tick", {}))

    # --- pages --------------------------------------------------------------------------------------------

    def _look(self, run_id: str) -> Run:
        deadline = time.monotonic() + OUTAGE_S
        while True:
            try:
                return self.run(run_id)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LAST_LOOK_S)

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
