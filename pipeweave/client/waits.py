"""Send signals, list what waits, and decide approvals over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from pipeweave.client.models import Document, Page, Run, checked_id, document_of, without_none
from pipeweave.client.paging import Methods
from pipeweave.client.runs import run_id_of


def _path(task_run_id: str, verb: str = "") -> str:
    return f"/api/waits/{checked_id(task_run_id)}{verb}"


def _key(once: str | None) -> dict[str, str]:
    return {} if once is None else {"Idempotency-Key": once}


class WaitMethods(Methods):
    """The methods of the client about waits and signals."""

    def signal(self, run: str | Run, name: str, payload: Any = None, *, once: str | None = None) -> Document:
        """Send a signal to a run: {signalId, taken, isRepeated}. It is kept until a step waits for it.

        Args:
            run: the run, or its id.
            name: what its step waits for.
            payload: any JSON value of at most 262,144 bytes; the step's output has it.
            once: sending again with the same text sends nothing anew.

        Raises:
            NotFound: there is no such run.
            RunHasEnded: the run is final.
            TooManySignals: the run has 1,000 signals that nothing has taken.
        """
        path = f"/api/runs/{checked_id(run_id_of(run))}/signals/{quote(name, safe='')}"
        return document_of(self._http.send("POST", path, payload, _key(once)))

    def signal_by_token(
        self, pipeline_id: str, run_token: str, name: str, payload: Any = None, *, once: str | None = None
    ) -> Document:
        """Send a signal to the run that was triggered with this token, as `signal` does.

        Raises:
            NotFound: the pipeline has no run with this token.
            RunHasEnded, TooManySignals: as `signal`.
        """
        path = f"/api/pipelines/{checked_id(pipeline_id)}/signals/{quote(name, safe='')}"
        query = urlencode({"runToken": run_token})
        return document_of(self._http.send("POST", f"{path}?{query}", payload, _key(once)))

    def signals(self, run: str | Run, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """List one page of the signals of a run, oldest first.

        Raises:
            NotFound: there is no such run.
        """
        path = f"/api/runs/{checked_id(run_id_of(run))}/signals"
        return self._page(path, "signals", {"limit": limit, "cursor": cursor})

    def waits(
        self,
        *,
        kind: str | None = None,
        mine: bool = False,
        pipeline_id: str | None = None,
        run_id: str | None = None,
        older_than: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        """List one page of what waits, the oldest first.

        Args:
            kind: `timer`, `signal` or `approval`; None for all.
            mine: only approvals that the client's token may decide.
            pipeline_id: only waits of this pipeline's runs.
            run_id: only waits of this run.
            older_than: only waits that began so long ago: `2d`.
            limit: rows per page, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
        """
        query = {
            "kind": kind,
            "assignee": "me" if mine else None,
            "pipelineId": pipeline_id,
            "runId": run_id,
            "olderThan": older_than,
            "limit": limit,
            "cursor": cursor,
        }
        return self._page("/api/waits", "waits", query)

    def wait_of(self, task_run_id: str) -> Document:
        """Read what a step waits for: {kind, title, form, assignees, votes, timeoutAt, …}.

        Raises:
            NotFound: no step with this id waits.
            WaitOver: it has ended; the error says how.
        """
        return document_of(self._http.get(_path(task_run_id)))

    def approve(
        self, task_run_id: str, form: Any = None, *, choice: str | None = None, comment: str | None = None
    ) -> Document:
        """Say yes to an approval: {taskRunId, status, attempt}.

        Args:
            task_run_id: the step that waits.
            form: the fields of its form.
            choice: of an approval with options: one of them.
            comment: for people.

        Raises:
            NotFound, WaitOver: as `wait_of`.
            Forbidden: the token is no assignee.
            InputValidationFailed: one FieldError for each field of the form that is wrong.
        """
        body = without_none(form=form, choice=choice, comment=comment)
        return document_of(self._http.send("POST", _path(task_run_id, "/approve"), body))

    def reject(self, task_run_id: str, form: Any = None, *, comment: str | None = None) -> Document:
        """Say no to an approval: {taskRunId, status, attempt}.

        Raises:
            NotFound, WaitOver, Forbidden, InputValidationFailed: as `approve`.
        """
        body = without_none(form=form, comment=comment)
        return document_of(self._http.send("POST", _path(task_run_id, "/reject"), body))

    def resolve_wait(
        self,
        task_run_id: str,
        output: Any = None,
        *,
        error: tuple[str, str] | None = None,
        reason: str | None = None,
    ) -> Document:
        """End a wait with an output or an error, whatever it waits for: {taskRunId, status, attempt}.

        Args:
            task_run_id: the step that waits.
            output: of the step.
            error: its code and message, in place of an output.
            reason: stored in the audit.

        Raises:
            NotFound, WaitOver: as `wait_of`.
        """
        failing = None if error is None else {"code": error[0], "message": error[1]}
        result = {"output": output} if failing is None else {"error": failing}
        body = {**result, **without_none(reason=reason)}
        return document_of(self._http.send("POST", _path(task_run_id, "/resolve"), body))

    def wake(self, task_run_id: str, *, reason: str | None = None) -> Document:
        """End a sleep now: {taskRunId, status, attempt}.

        Raises:
            NotFound, WaitOver: as `wait_of`.
            Conflict: the step does not sleep.
        """
        body = without_none(reason=reason)
        return document_of(self._http.send("POST", _path(task_run_id, "/wake"), body))

    def extend_wait(self, task_run_id: str, timeout_ms: int, *, reason: str | None = None) -> Document:
        """Let a wait end so long from now on (ms), if nothing comes before; return it.

        Raises:
            NotFound, WaitOver: as `wait_of`.
        """
        body = without_none(timeoutMs=timeout_ms, reason=reason)
        return document_of(self._http.send("POST", _path(task_run_id, "/extend"), body))
