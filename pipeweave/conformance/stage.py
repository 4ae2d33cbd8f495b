"""What every check has at hand: the worker, the kit's orchestrator, and verbs to dispatch and to wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave import callback_tokens, dispatch_ids, ids
from pipeweave.conformance.dispatching import Door, WorkerReply, encoded
from pipeweave.conformance.journal import ReceivedRequest, RequestKind
from pipeweave.conformance.objects import Objects
from pipeweave.conformance.options import SessionOptions, Trial
from pipeweave.conformance.registration import flattened
from pipeweave.conformance.stand_in import TENANT, DispatchedRun, StandIn
from pipeweave.conformance.verdicts import ContractVerdict, failed
from pipeweave.conformance.worker_process import WorkerProcess

TOKEN_SECONDS = 3600
DEFAULT_INTERVAL_MS = 60_000
_LOOK_EVERY_S = 0.05
_CHECK_MENDS = "see docs/http-workers.md, and what the worker prints"


@dataclass(frozen=True, slots=True)
class DispatchOutcome:
    """How a dispatch went.

    Args:
        answer: to the dispatch.
        report: the first completion report; None where none came in time.
    """

    answer: WorkerReply
    report: Any

    @property
    def is_success(self) -> bool:
        """Whether the run was reported as completed."""
        return isinstance(self.report, dict) and self.report.get("status") == "success"

    @property
    def error_code(self) -> str | None:
        """The code of a failure."""
        return self.report.get("errorCode") if isinstance(self.report, dict) else None

    def said(self) -> str:
        """What was reported, in a few words."""
        if not self.answer.is_taken:
            return f"the dispatch was answered: {self.answer.said()}"
        if self.report is None:
            return "no report came"
        if self.is_success:
            return "reported a success"
        document = self.report if isinstance(self.report, dict) else {}
        code = f"{document['errorCode']}: " if document.get("errorCode") else ""
        return f"reported {document.get('status')!r}: {code}{str(document.get('error'))[:200]}"

    def trouble(self, expecting: str = "a success") -> ContractVerdict | None:
        """The failure of a check whose run did not come to any report, or to no success."""
        if self.answer.is_taken and self.report is not None and (self.is_success or expecting != "a success"):
            return None
        return failed(self.said(), f"{expecting} should be reported; {_CHECK_MENDS}")


class Stage:
    """One session with one worker.

    Args:
        process: the worker, if the kit starts it.
    """

    def __init__(
        self, options: SessionOptions, stand_in: StandIn, objects: Objects, process: WorkerProcess | None
    ) -> None:
        self.options = options
        self.stand_in = stand_in
        self.journal = stand_in.journal
        self.objects = objects
        self.process = process
        self.registration: Mapping[str, Any] = {}
        self.door = Door(options.url or "http://127.0.0.1", options.secret)
        # A run that completed, and its report, for the checks that need a task that completes.
        self.sample: tuple[DispatchedRun, Mapping[str, Any]] | None = None

    # --- the worker -------------------------------------------------------------------------------------

    def await_registration(self, after: int = 0) -> ReceivedRequest | None:
        """Wait for a registration, beyond so many earlier ones; None if none comes, or the worker ends."""
        registrations = self.journal.wait(
            RequestKind.REGISTRATION,
            seconds=self.options.wait_s,
            count=after + 1,
            until=lambda: self.has_ended,
        )
        if len(registrations) <= after:
            return None
        if isinstance(registrations[-1].body, dict):
            self.registration = registrations[-1].body
        base_url = self.options.url or str(self.registration.get("baseUrl"))
        self.door = Door(base_url, self.options.secret)
        return registrations[-1]

    def start_again(self) -> ReceivedRequest | None:
        """Start the worker's process again, and wait for its registration; None where it does not come."""
        if self.process is None:
            return None
        self.process.kill()
        before = len(self.journal.of(RequestKind.REGISTRATION))
        self.process.start()
        return self.await_registration(before)

    @property
    def has_ended(self) -> bool:
        """Whether the process that the kit started is gone."""
        return self.process is not None and self.process.exit_code is not None

    def wait_for_object(self, path: str) -> bytes | None:
        """Read an object that may come a moment later; None if it does not come."""
        deadline = time.monotonic() + self.options.quiet_s
        while (content := self.objects.get(path)) is None and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        return content

    def is_alive(self) -> bool:
        """Whether the worker answers requests."""
        return not self.has_ended and self.door.health().status is not None

    def survives(self) -> bool:
        """Whether the worker still answers requests after a while: it may take a moment to end."""
        self.journal.wait(
            RequestKind.DEPARTURE,
            seconds=self.options.quiet_s,
            count=sys.maxsize,
            until=lambda: self.has_ended,
        )
        return self.is_alive()

    # --- what the worker registered -----------------------------------------------------------------------

    @property
    def tasks(self) -> dict[str, Mapping[str, Any]]:
        """The registered tasks by id."""
        listed = self.registration.get("tasks")
        flat = map(flattened, listed if isinstance(listed, list) else ())
        entries = [each for each in flat if isinstance(each, dict)]
        return {each["id"]: each for each in entries if isinstance(each.get("id"), str)}

    @property
    def uses_urls(self) -> bool:
        """Whether the worker reads and writes by URLs instead of a storage token."""
        return self.registration.get("storageAccess") == "urls"

    @property
    def task_id(self) -> str:
        """The task that most checks call."""
        return self.options.task.task_id or next(iter(self.tasks))

    def interval_s(self, task_id: str) -> float:
        """The heartbeat interval that a task registered (s)."""
        interval_ms = self.tasks.get(task_id, {}).get("heartbeatIntervalMs", DEFAULT_INTERVAL_MS)
        return (interval_ms if isinstance(interval_ms, int | float) else DEFAULT_INTERVAL_MS) / 1000

    # --- dispatches -------------------------------------------------------------------------------------

    def new_run(self, task_id: str | None = None, *, attempt: int = 1) -> DispatchedRun:
        """Make a run that the worker has not seen; reports of it are known from now on."""
        made = ids.task_run_id(ids.new_id(), 1)
        run = DispatchedRun(dispatch_ids.make(self.stand_in.token, made, attempt), task_id or self.task_id)
        self.stand_in.add(run)
        return run

    def body(self, run: DispatchedRun, trial: Trial | None = None, **changes: Any) -> dict[str, Any]:
        """The dispatch of a run; its input is stored.

        Args:
            changes: fields with other values; None leaves one out.
        """
        dispatched_attempt = dispatch_ids.read(self.stand_in.token, run.run_id)
        assert dispatched_attempt is not None
        run_name = ids.show(ids.RUN, ids.run_id_of(dispatched_attempt.task_run_id))
        trial_input = (trial or self.options.task).input
        input_path = changes.get("inputPath", f"pipelines/{run_name}/input.json")
        if "inputPath" not in changes:
            self.objects.put_json(input_path, trial_input)
        task = self.tasks.get(run.task_id, {})
        document = {
            "runId": run.run_id,
            "taskId": run.task_id,
            "pipelineRunId": run_name,
            "pipelineId": "worker-check",
            "stepId": run.task_id,
            "attempt": dispatched_attempt.attempt,
            "codeVersion": 1,
            "codeHash": task.get("codeHash"),
            "inputPath": input_path,
            "upstreamRefs": {},
            "previousAttempts": [],
            "heartbeatIntervalMs": task.get("heartbeatIntervalMs", DEFAULT_INTERVAL_MS),
            "timeout": task.get("timeout", 300),
            "tenant": TENANT,
            "callbackUrl": f"{callback_tokens.PATH}{run.run_id}",
            **self._access(run, input_path),
            **changes,
        }
        return {name: value for name, value in document.items() if value is not None}

    def _access(self, run: DispatchedRun, input_path: str) -> dict[str, Any]:
        if not self.uses_urls:
            return {"storageToken": self.token()}
        written = f"runs/{run.run_id}"
        return {
            "inputUrl": self.objects.url(input_path, "GET"),
            "upload": {
                "output": self.objects.url(f"{written}/output.json", "PUT"),
                "logs": self.objects.url(f"{written}/logs.jsonl", "PUT"),
            },
        }

    def token(self, *, secret: str | None = None, seconds: int = TOKEN_SECONDS) -> str:
        """A storage token in the format that the worker reads.

        Args:
            secret: to seal it with; the worker secret by default.
            seconds: how long it is valid, from now; negative for one that has expired.
        """
        from pipeweave.storage import tokens

        issued = time.time() + min(seconds, 0) * 2
        return tokens.seal(
            self.objects.backend(),
            secret or self.options.secret,
            format="pbkdf2" if self.registration.get("tokenFormat") == "pbkdf2" else "sdk",
            now=issued,
            seconds=abs(seconds),
        )

    def reference(self, path: str) -> dict[str, Any]:
        """What `upstreamRefs` says of an output at a path."""
        entry: dict[str, Any] = {"outputPath": path, "assets": {}}
        return {**entry, "outputUrl": self.objects.url(path, "GET")} if self.uses_urls else entry

    def send(self, run: DispatchedRun, trial: Trial | None = None, **changes: Any) -> WorkerReply:
        """Dispatch a run, signed."""
        return self.door.signed(run.task_id, encoded(self.body(run, trial, **changes)))

    def carry_out(
        self, run: DispatchedRun, trial: Trial | None = None, *, patience: int = 1, **changes: Any
    ) -> DispatchOutcome:
        """Dispatch a run and wait for its report.

        Args:
            patience: how many times longer than usual the report may take.
        """
        answer = self.send(run, trial, **changes)
        seconds = self.options.patience_s * patience
        return DispatchOutcome(answer, self.report_of(run, seconds) if answer.is_taken else None)

    # --- what the worker does ---------------------------------------------------------------------------

    def report_of(self, run: DispatchedRun, seconds: float | None = None) -> Any:
        """Wait for the first report of a run; None if none comes."""
        reports = self.reports(run, 1, seconds)
        return reports[0].body if reports else None

    def reports(self, run: DispatchedRun, count: int, seconds: float | None = None) -> list[ReceivedRequest]:
        """Wait for so many reports of a run, as long as the worker lives; return those that came."""
        patience = self.options.patience_s if seconds is None else seconds
        return self.journal.wait(
            RequestKind.REPORT, run.run_id, seconds=patience, count=count, until=lambda: self.has_ended
        )
