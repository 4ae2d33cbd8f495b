"""Run one dispatched attempt: read its input, call the task's function, store the result, report it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from pipeweave.attempt import (
    AsyncCall,
    Files,
    LoggedAttempt,
    StoredLogs,
    mask_assets,
    masked_result,
    printed_lines,
)
from pipeweave.authoring import PENDING, Context, Suspend, Task, bind, describe, outcome_of
from pipeweave.authoring.calling import CallResult
from pipeweave.errors import (
    AttemptCancelled,
    AttemptTimedOut,
    InvalidSetting,
    PipeWeaveError,
    SecretDenied,
    Unavailable,
)
from pipeweave.http_worker.access import ObjectAccess, load_json, logs_path, open_access
from pipeweave.http_worker.dispatch import Dispatch
from pipeweave.http_worker.link import OrchestratorLink
from pipeweave.http_worker.reports import ReportSender
from pipeweave.http_worker.upstream import DispatchedUpstream, Means, UpstreamRefs
from pipeweave.masking import Masking
from pipeweave.secrets import AttemptSecrets
from pipeweave.size_limits import INLINE_BYTES, INLINE_WHILE_AWAY_BYTES

log = logging.getLogger(__name__)

# Progress is sent at most this often (s) per attempt; the last value of a burst may be lost.
PROGRESS_EVERY_S = 0.5

# The attempt that this thread works on.
_current: ContextVar[AttemptUnderWay | None] = ContextVar("current attempt", default=None)


@dataclass(frozen=True, slots=True)
class Equipment:
    """What all attempts of a worker use.

    Args:
        secret: decrypts storage tokens; None if the worker takes dispatches with URLs alone.
        temp_dir: the folder in which attempts make theirs; the system's by default.
    """

    link: OrchestratorLink
    reports: ReportSender
    logs: StoredLogs
    secret: str | None
    temp_dir: Path | None


class AttemptUnderWay:
    """One attempt, from its dispatch to its report. `run` is called in a thread of its own."""

    def __init__(self, task: Task[..., Any], dispatch: Dispatch, equipment: Equipment) -> None:
        self.task = task
        self.dispatch = dispatch
        self.run_id = dispatch.run_id
        self.has_ended = False
        self._equipment = equipment
        self._access: ObjectAccess | None = None
        self._reason: PipeWeaveError | None = None
        self._is_reported = False
        self._lock = threading.Lock()
        self._next_progress = 0.0
        self._async_call: AsyncCall | None = None
        self._secrets = AttemptSecrets(self._secret)
        for value in dispatch.secrets.values():
            self._secrets.masks.add(value)

    @property
    def access(self) -> ObjectAccess | None:
        """Reads and writes its objects; None until its storage token is read."""
        return self._access

    def run(self) -> None:
        """Run the attempt to its end, and report it."""
        _current.set(self)
        with Masking(self._secrets.masks):
            try:
                body = self._body()
            except BaseException as error:
                # SystemExit would end this thread without a report.
                body = self._failed(error)
            finally:
                printed_lines.end_lines()
        self._report(body)
        self.has_ended = True
        self._equipment.logs.end(self)

    def beat(self) -> None:
        """Send a heartbeat; take a cancellation that it answers."""
        if self._equipment.reports.beat(self.run_id, {}):
            self.cancel(AttemptCancelled("the orchestrator cancelled the attempt"))

    def cancel(self, reason: PipeWeaveError) -> None:
        """Ask the function to end: `ctx.is_cancelled` is true from now on, `ctx.progress` raises `reason`, an
        `async def` function gets CancelledError.
        """
        if self._reason is None:
            log.info("attempt.cancelled", extra={"reason": reason.detail, **self.names()})
            self._reason = reason
            if self._async_call is not None:
                self._async_call.cancel()

    def give_up(self, reason: PipeWeaveError) -> None:
        """Cancel the attempt and report that it failed, without waiting for the function."""
        self.cancel(reason)
        self._report(self._failed(reason))

    def time_out(self) -> None:
        """Give the attempt up, because its time limit is over."""
        # Who calls this has waited for as long.
        assert self.dispatch.timeout_s is not None
        self.give_up(AttemptTimedOut.after(self.dispatch.timeout_s))

    def names(self) -> Mapping[str, Any]:
        """Its ids, for lines of the log."""
        dispatch = self.dispatch
        return {
            "tenant": dispatch.tenant,
            "pipeline_id": dispatch.pipeline_id,
            "run_id": dispatch.pipeline_run_id,
            "task_run_id": dispatch.run_id.partition(".")[0],
            "task_id": self.task.id,
            "step_id": dispatch.step_id,
            "attempt": dispatch.attempt,
            "trace_id": dispatch.trace_id,
        }

    def _body(self) -> dict[str, Any]:
        equipment = self._equipment
        access = self._access = open_access(self.dispatch, equipment.link, equipment.secret)
        refs = UpstreamRefs(self.dispatch, equipment.link)
        files = Files(Means(self.dispatch, refs, access), equipment.temp_dir)
        try:
            try:
                value = self._with_secrets(
                    load_json(access, self.dispatch.input_path, self.dispatch.input_url)
                )
                arguments = bind(self.task.fn, self._context(value, DispatchedUpstream(refs, access), files))
            except Unavailable as error:
                return {**self._failed(error), "begun": False}
            outcome = self._masked(outcome_of(self._call(arguments)), files)
            assets = files.store(lambda key, each: {"path": access.put_asset(key, each)})
            body = self._succeeded(outcome, access) if outcome.suspend is None else _pending(outcome.suspend)
            return {**body, **({"assets": assets} if assets else {})}
        finally:
            files.close()

    def _with_secrets(self, value: Any) -> Any:
        """The input with the params that are secrets: they came apart from it."""
        params = {name: self._secrets.get(each) for name, each in self.dispatch.secret_params.items()}
        return {**value, **params} if params and isinstance(value, dict) else value

    def _secret(self, name: str) -> str:
        if name not in self.dispatch.secrets:
            raise SecretDenied(
                f"the dispatch has no secret {name[:200]!r}",
                hint="an HTTP worker is given the secrets that the params of its step name: ${secret.NAME}",
            )
        return self.dispatch.secrets[name]

    def _masked(self, outcome: CallResult, files: Files) -> CallResult:
        """The result without the values of secrets; the log says that it held one."""
        masks = self._secrets.masks
        masked, held = masked_result(outcome, masks), mask_assets(files, masks)
        if masked is not outcome or held:
            log.warning("attempt.secret_masked", extra={"assets": list(held), **self.names()})
        return masked

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        if not self.task.is_async:
            return self.task.fn(**arguments)
        call = self._async_call = AsyncCall(self.task.fn(**arguments))
        if self._reason is not None:
            call.cancel()
        try:
            return call.run()
        except asyncio.CancelledError:
            raise self._reason or AttemptCancelled("the task has cancelled itself") from None

    def _context(self, value: Any, upstream: DispatchedUpstream, files: Files) -> Context:
        dispatch = self.dispatch
        named = value if isinstance(value, dict) else {}
        is_bare = dispatch.map_index is not None and dispatch.map_name is None
        return Context(
            run_id=dispatch.pipeline_run_id or "",
            task_run_id=dispatch.run_id.partition(".")[0],
            task_id=self.task.id,
            pipeline_id=dispatch.pipeline_id,
            step_id=dispatch.step_id,
            attempt=dispatch.attempt,
            input=value,
            # An item alone fills the first parameter, whatever members it has.
            params={} if is_bare else None,
            upstream=upstream,
            previous_attempts=dispatch.previous_attempts,
            item=value if is_bare else named.get(dispatch.map_name),
            map_index=dispatch.map_index,
            map_name=dispatch.map_name,
            code_version=dispatch.code_version,
            code_hash=dispatch.code_hash,
            tenant=dispatch.tenant,
            triggered_by=dispatch.triggered_by,
            trace_id=dispatch.trace_id,
            on_progress=self._progress,
            files=files,
            cancelled=lambda: self._reason is not None,
            make_callback_url=self._callback_url,
            secrets=self._secrets,
        )

    def _callback_url(self) -> str:
        url = self.dispatch.callback_url
        if url is None:
            raise InvalidSetting("the dispatch has no callback URL", hint="update the orchestrator")
        return self._equipment.link.open_url(url)

    def _progress(self, percent: float, message: str | None) -> None:
        if self._reason is None and (now := time.monotonic()) >= self._next_progress:
            self._next_progress = now + PROGRESS_EVERY_S
            said = {"progress": percent, "message": message}
            body = {name: each for name, each in said.items() if each is not None}
            if self._equipment.reports.beat(self.run_id, body):
                self.cancel(AttemptCancelled("the orchestrator cancelled the attempt"))
        if self._reason is not None:
            raise self._reason

    def _succeeded(self, outcome: CallResult, access: ObjectAccess) -> dict[str, Any]:
        body: dict[str, Any] = {"status": "success", "outputSize": len(outcome.encoded)}
        if len(outcome.encoded) <= INLINE_BYTES:
            body["output"] = orjson.Fragment(outcome.encoded)
        else:
            body |= self._stored(outcome.encoded, access)
        if outcome.run_next is not None:
            body["selectedNext"] = list(outcome.run_next)
        return body

    def _stored(self, encoded: bytes, access: ObjectAccess) -> dict[str, Any]:
        try:
            return {"outputPath": access.put_output(encoded)}
        except Unavailable:
            # The function was called: its result goes with the report, and the orchestrator keeps it.
            if len(encoded) > INLINE_WHILE_AWAY_BYTES:
                raise
            return {"output": orjson.Fragment(encoded)}

    def _failed(self, error: BaseException) -> dict[str, Any]:
        failure = describe(error)
        log.warning("attempt.failed", extra={"code": failure.code, "reason": failure.message, **self.names()})
        said = {"details": failure.details, "stack": failure.traceback}
        return {
            "status": "failed",
            "error": failure.message,
            "errorCode": failure.code,
            "retryable": failure.retryable,
            **{name: each for name, each in said.items() if each is not None},
        }

    def _report(self, body: dict[str, Any]) -> None:
        with self._lock:
            if self._is_reported:
                return
            self._is_reported = True
        if self._equipment.logs.has(self):
            body["logsPath"] = logs_path(self.run_id)
        self._equipment.reports.complete(self.run_id, body)


def _pending(suspend: Suspend) -> dict[str, Any]:
    """The report of an attempt whose work goes on elsewhere."""
    said = {
        "pollUrl": suspend.url,
        # Its value says nothing: the URL of the dispatch is the one that counts.
        "callbackUrl": True if suspend.url is None else None,
        "intervalMs": suspend.interval_ms,
        "maxAttempts": suspend.tries,
        "timeoutMs": suspend.timeout_ms,
    }
    return {"status": PENDING, **{name: each for name, each in said.items() if each is not None}}


def current_names() -> Mapping[str, Any]:
    """The ids of the attempt that this thread works on; empty if there is none."""
    attempt = _current.get()
    return {} if attempt is None else attempt.names()


def current_log() -> LoggedAttempt | None:
    """Where the lines of this thread are stored; None outside an attempt."""
    attempt = _current.get()
    if attempt is None or attempt.has_ended or attempt.access is None:
        return None
    return LoggedAttempt(attempt, attempt.run_id)


def store_log(attempt: Any, content: bytes) -> None:
    """Store the log of an attempt so far."""
    attempt.access.put_log(content)
