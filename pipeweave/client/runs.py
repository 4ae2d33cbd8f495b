"""Start, follow, list, pause and cancel runs over HTTP, and read their task runs and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeweave.client.following import follow
from pipeweave.client.models import Document, Page, Run, checked_id, document_of, run_of, without_none
from pipeweave.client.paging import PAGE_SIZE, Methods
from pipeweave.client.streaming import Changes
from pipeweave.client.waiting import RunWait

# The input of the run that is run again.
_KEEP: Any = object()

_LOADED = "?load=true"


def run_id_of(run: str | Run) -> str:
    """The id of a run, or the id that was given instead of it."""
    return run.id if isinstance(run, Run) else run


class RunMethods(Methods):
    """The methods of the client about runs."""

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
        version: int | None = None,
        queue: str | None = None,
        requires: Mapping[str, str] | None = None,
    ) -> Run:
        """Start a run of a pipeline.

        Args:
            pipeline_id: the pipeline, or the entry task of a derived pipeline.
            input: any JSON value, or what a task may return (a model, a date, …); None sends {}.
            failure_mode: `fail-fast`, `continue` or `partial-merge`; None for the pipeline's failure mode.
            priority: lower runs first; None for the pipeline's priority.
            metadata: stored with the run, for people and filters.
            run_token: if a run was triggered with the same token and input before, that run is returned.
            validation_mode: `strict`, `warn` or `none`; None refuses what does not fit the pipeline's own
                signature, and warns of what does not fit the entry tasks' input schemas.
            version: of the pipeline; None for the current one, which was promoted or is the newest.
            queue: the queue of all steps without a queue of their own; None for those of their tasks.
            requires: labels of the workers that may call its steps, beside those that the steps and their
                tasks require.

        Raises:
            NotFound: there is no such pipeline or version.
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
                version=version,
                queue=queue,
                requires=None if requires is None else dict(requires),
            ),
        )
        return Run(answer["pipelineRunId"], pipeline_id, answer["status"], answer)

    def trigger_batch(
        self,
        pipeline_id: str,
        runs: Iterable[Mapping[str, Any]],
        *,
        validation_mode: str | None = None,
        version: int | None = None,
    ) -> list[Run]:
        """Start up to 1,000 runs, all or none.

        Args:
            pipeline_id: the pipeline, or the entry task of a derived pipeline.
            runs: for each run {input?, failureMode?, priority?, metadata?, runToken?}.
            validation_mode: `strict`, `warn` or `none`; None refuses what does not fit the pipeline's own
                signature, and warns of what does not fit the entry tasks' input schemas.
            version: of the pipeline; None for the current one.

        Raises:
            NotFound: there is no such pipeline or version.
            InvalidInput: a run is invalid; the fields of its errors name the run: `runs[3].priority`.
        """
        answer = self._http.send(
            "POST",
            f"/api/pipelines/{checked_id(pipeline_id)}/trigger/batch",
            without_none(runs=[dict(each) for each in runs], validationMode=validation_mode, version=version),
        )
        return [Run(each["pipelineRunId"], pipeline_id, each["status"], each) for each in answer["runs"]]

    def debounce(
        self,
        pipeline_id: str,
        input: Any = None,
        *,
        key: str,
        wait_ms: int,
        longest_ms: int | None = None,
        failure_mode: str | None = None,
        priority: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        """Start a run when no other request of its key has come for some time, with the last one's input.

        Args:
            pipeline_id: the pipeline.
            input: any JSON value, or what a task may return; None sends {}.
            key: requests with the same key and pipeline are one run.
            wait_ms: without another request, the run starts after this time (ms).
            longest_ms: it starts at the latest this long after the first request; None for an hour.
            failure_mode: `fail-fast`, `continue` or `partial-merge`; None for the pipeline's failure mode.
            priority: lower runs first; None for the pipeline's priority.
            metadata: stored with the run, for people and filters.

        Returns:
            The `id` of the run to be, `dueAt`, `latestAt`, and for how many `requests` it stands.

        Raises:
            NotFound: there is no such pipeline.
            InputValidationFailed: the input does not fit; one FieldError per wrong field.
        """
        body = without_none(
            key=key,
            waitMs=wait_ms,
            longestMs=longest_ms,
            input={} if input is None else input,
            failureMode=failure_mode,
            priority=priority,
            metadata=metadata,
        )
        return document_of(
            self._http.send("POST", f"/api/pipelines/{checked_id(pipeline_id)}/debounce", body)
        )

    def run(self, run_id: str, *, load: bool = False) -> Run:
        """Read a run, with its counts by status and its first 1,000 task runs.

        Args:
            run_id: the run.
            load: also load large values from storage; otherwise `outputRefs` names their paths.

        Raises:
            NotFound: there is no such run.
        """
        return run_of(self._http.get(f"/api/runs/{checked_id(run_id)}{_LOADED * load}"))

    def state(self, run_id: str) -> Document:
        """Read the state of a run as one document: every step with status, attempts, error and result.

        Its size is bounded: maps are counts, and results beyond 2 MB are by reference.

        Raises:
            NotFound: there is no such run.
        """
        return document_of(self._http.get(f"/api/runs/{checked_id(run_id)}/state"))

    def checkpoints(self, run_id: str) -> Iterator[Document]:
        """Iterate over the checkpoints of a run, oldest first: {checkpointId, createdAt, event, href, …}.

        Raises:
            NotFound: there is no such run.
        """
        path = f"/api/runs/{checked_id(run_id)}/checkpoints"
        return self._all(path, "checkpoints", {"limit": PAGE_SIZE})

    def checkpoint(self, run_id: str, checkpoint_id: str) -> Document:
        """Read a checkpoint of a run with the state that the run had then (`state`).

        Raises:
            NotFound: there is no such run or checkpoint. LimitExceeded: too many events lie before it.
        """
        path = f"/api/runs/{checked_id(run_id)}/checkpoints/{checked_id(checkpoint_id)}"
        return document_of(self._http.get(path))

    def timeline(self, run_id: str) -> Document:
        """Read what each step of a run did when: {totalMs, steps: [{stepId, bars, lane, …}], …}, all steps.

        Raises:
            NotFound: there is no such run.
        """
        path = f"/api/runs/{checked_id(run_id)}/timeline?limit={PAGE_SIZE}"
        timeline = dict(document_of(self._http.get(path)))
        while (cursor := timeline["nextCursor"]) is not None:
            page = self._http.get(f"{path}&cursor={cursor}")
            timeline |= {"steps": timeline["steps"] + page["steps"], "nextCursor": page["nextCursor"]}
        return document_of(timeline)

    def ledger(self, run_id: str) -> Document:
        """Read what the duration of a run was spent on, along its critical path; the sums add up to it.

        Raises:
            NotFound: there is no such run.
        """
        return document_of(self._http.get(f"/api/runs/{checked_id(run_id)}/ledger"))

    def wait(
        self,
        run: str | Run,
        timeout: float | None = None,
        on_change: Callable[[Run], None] | None = None,
        *,
        check: bool = False,
    ) -> Run:
        """Wait until a run is final, on a stream of its changes, or by polling where there is none. A restart
        of the API in between does not end the wait; that the run is paused is logged once, as a warning.

        Args:
            run: the run to wait for, or its id.
            timeout: seconds to wait at most; None waits without limit.
            on_change: called with the run whenever the API's answer differs from the answer before.
            check: raise RunFailed unless the run ends `completed`.

        Raises:
            RunFailed: the run ended `failed`, `partial` or `cancelled` (only with `check`).
            WaitTimeout: the run has not finished yet; it continues to run.
            NotFound: there is no such run. One that is enqueued is waited for.
        """
        run_id = run_id_of(run)
        waiting = RunWait(run_id, timeout, on_change)
        final_run = follow(self, self.run, run_id, waiting, is_shown=on_change is not None)
        return final_run.checked() if check else final_run

    def watch(
        self,
        run: str | Run | None = None,
        *,
        pipeline: str | None = None,
        types: Sequence[str] | None = None,
        cursor: str | None = None,
        tree: bool = False,
    ) -> Changes:
        """Iterate over changes as they come, each once; over an interruption, a restart of the API or of
        PostgreSQL, it goes on where it was. It has no end: leave the loop, or `close` it from another thread.

        Args:
            run: only changes of this run.
            pipeline: only changes of runs of this pipeline.
            types: only changes of these types: `run.completed`, or `run` for all of that kind.
            cursor: `Changes.cursor` of an earlier iteration, to go on after it.
            tree: with `run`: those of the runs inside of it, too.

        Raises:
            NotFound: there is no such run.
            InvalidInput: a type or the cursor is wrong.
            CursorExpired: what came after the cursor cannot be read any more.
        """
        id = None if run is None else run_id_of(run)
        return Changes(self._http, run=id, pipeline=pipeline, types=types, cursor=cursor, tree=tree)

    def runs(
        self,
        /,
        *,
        status: str | Sequence[str] | None = None,
        pipeline_id: str | Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        id_prefix: str | None = None,
        **filters: Any,
    ) -> Page:
        """List one page of runs, newest first.

        A page may have fewer runs than `limit`, or none, and a `next_cursor`: a filter that has no index,
        such as `text`, looks through the newest runs for a bounded time.

        Args:
            status: only runs in this status, or in one of these.
            pipeline_id: only runs of this pipeline, or of one of these.
            limit: rows per page, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
            id_prefix: only runs whose id begins like this, with or without `prun_`.
            filters: further parameters of the API, such as `createdAfter`, `text` or `meta`.
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

    def children(
        self, run_id: str, limit: int | None = None, cursor: str | None = None, task_run_id: str | None = None
    ) -> Page:
        """List one page of the runs that steps of a run have started, newest first.

        Args:
            limit: rows per page, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
            task_run_id: only those of this step, or of this item of a map: its rounds and tries.

        Raises:
            NotFound: there is no such run.
        """
        path = f"/api/runs/{checked_id(run_id)}/children"
        return self._page(path, "runs", {"limit": limit, "cursor": cursor, "taskRunId": task_run_id})

    def cancel(self, run_id: str, reason: str | None = None, *, now: bool = False) -> Run:
        """Cancel a run. What its pipeline says about the end of a run follows, unless that is under way.

        Args:
            now: nothing follows: no step is taken back, and `finally` does not run.

        Raises:
            NotFound: there is no such run. Conflict: the run is already final.
        """
        path = f"/api/runs/{checked_id(run_id)}/cancel"
        return run_of(self._http.send("POST", path, without_none(reason=reason, now=now or None)))

    def rerun(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        input: Any = _KEEP,
        params: Mapping[str, Any] | None = _KEEP,
        version: str | int | None = None,
        run_token: str | None = None,
        validation_mode: str | None = None,
    ) -> Run:
        """Run a run again that has ended, as a new run.

        Args:
            run_id: the run that ended.
            from_step: the step to begin at: it and all behind it run, results of other steps are reused; None
                for the beginning.
            input: another input, any JSON value or what a task may return; by default that of the run. Reused
                steps keep their results; `document["edits"]` names those that have read the other input.
            params: other params of the step `from_step`, for the new run alone; they may hold expressions. By
                default those that it had in the run; None for those of its version.
            version: `same`, `latest` or a number; None for the version of the run.
            run_token: a second rerun with the same token, run, step, input, params and version is the first
                one.
            validation_mode: as for `trigger`, of the input.

        Raises:
            NotFound: there is no such run or version.
            InvalidInput: there is no such step, or it does not take these params.
            Conflict: the run is open, or results that would be reused do not fit the version.
        """
        body = without_none(
            fromStep=from_step, version=version, runToken=run_token, validationMode=validation_mode
        )
        body |= {name: each for name, each in (("input", input), ("params", params)) if each is not _KEEP}
        answer = self._http.send("POST", f"/api/runs/{checked_id(run_id)}/rerun", body)
        return Run(answer["pipelineRunId"], answer["pipelineId"], answer["status"], answer)

    def rerun_all(self, /, *, status: str, **options: Any) -> Document:
        """Run many runs again, at most 100 with one request: {dryRun, runs, nextCursor}.

        Args:
            status: how the runs ended: `completed`, `partial`, `failed` or `cancelled`.
            options: further members as the API names them: `pipelineId`, `createdAfter`, `createdBefore`,
                `fromStep`, `version`, `dryRun`, `limit`, `cursor`, `runToken`.
        """
        return document_of(self._http.send("POST", "/api/runs/rerun-all", {"status": status, **options}))

    def pause_run(self, run_id: str, reason: str | None = None) -> Run:
        """Pause a run: what runs finishes, nothing of it starts. A repeated pause changes nothing.

        Raises:
            NotFound: there is no such run. Conflict: the run is already final.
        """
        path = f"/api/runs/{checked_id(run_id)}/pause"
        return run_of(self._http.send("POST", path, without_none(reason=reason)))

    def resume_run(self, run_id: str) -> Run:
        """Let a paused run go on. Of a run that is not paused it changes nothing.

        Raises:
            NotFound: there is no such run. Conflict: the run is already final.
        """
        return run_of(self._http.send("POST", f"/api/runs/{checked_id(run_id)}/resume", {}))

    def change_runs(
        self,
        action: str,
        *,
        status: str | None = None,
        pipeline_id: str | None = None,
        triggered_by: str | None = None,
        created_after: str | None = None,
        created_before: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        limit: int | None = None,
    ) -> Document:
        """Pause, resume or cancel all runs that match: {matched, changed, runs, isDryRun, isComplete}.

        Args:
            action: `pause`, `resume` or `cancel`.
            status, pipeline_id, triggered_by, created_after, created_before: which runs; at least one of
                them. Times are texts such as `2026-11-22T12:00:00Z`.
            reason: stored with each run that is paused or cancelled.
            dry_run: only count the runs that match.
            limit: change at most this many, 1 to 10,000; None for 1,000. While `isComplete` is false, the
                same call goes on with the rest.

        Raises:
            InvalidInput: no filter was given, or one is wrong.
        """
        chosen = without_none(
            status=status,
            pipelineId=pipeline_id,
            triggeredBy=triggered_by,
            createdAfter=created_after,
            createdBefore=created_before,
        )
        body = without_none(action=action, filter=chosen, reason=reason, dryRun=dry_run, limit=limit)
        return document_of(self._http.send("POST", "/api/runs/bulk", body))

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

    def all_task_runs(self, /, **filters: Any) -> Page:
        """List one page of the task runs of all runs, newest run first, as `runs` lists runs.

        Args:
            filters: `taskId`, `status`, `worker`, `createdAfter`, `createdBefore`, `standalone`, `limit`,
                `cursor`.
        """
        return self._page("/api/task-runs", "taskRuns", filters)

    def search(self, text: str) -> list[Document]:
        """Find things by the beginning of an id, or by a part of a name: {kind, id, name, status}."""
        return list(document_of(self._http.get("/api/search", {"q": text}))["hits"])

    def events(self, /, run_id: str, **filters: Any) -> Iterator[Document]:
        """Iterate over all events of a run in order, page by page."""
        return self._all(f"/api/runs/{checked_id(run_id)}/events", "events", {"limit": PAGE_SIZE, **filters})

    def events_page(self, /, run_id: str, **filters: Any) -> Page:
        """Read one page of the events of a run, oldest first.

        Args:
            run_id: the run.
            filters: parameters of the API: `type`, `limit`, and `cursor`, `next_cursor` of the page before.
                The one that led to the last page can be sent again, to see what has come since.
        """
        return self._page(f"/api/runs/{checked_id(run_id)}/events", "events", filters)
