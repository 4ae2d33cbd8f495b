"""One session with one worker: serve an orchestrator, wait for the registration, make the checks."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from pipeweave.conformance import first_checks
from pipeweave.conformance.catalogue import CHECKS, NAMES
from pipeweave.conformance.check import ContractCheck, ContractFinding, Need
from pipeweave.conformance.http_server import HttpServer
from pipeweave.conformance.objects import Objects
from pipeweave.conformance.options import SessionOptions, Trial
from pipeweave.conformance.stage import Stage
from pipeweave.conformance.stand_in import TENANT, StandIn
from pipeweave.conformance.verdicts import ContractVerdict, failed, skipped
from pipeweave.conformance.worker_process import WorkerProcess
from pipeweave.errors import FieldError, InvalidInput, NotFound
from pipeweave.suggestions import did_you_mean

_NOT_THERE = skipped("the worker does not answer any more")


class Kit:
    """Checks one worker. Use it in a `with`: it serves, and runs the worker's command, until the block ends.

    Raises:
        InvalidInput: a check to leave out, or the command, does not exist.
        PortInUse: the address is taken.
        StartFailed: the command cannot be started.
    """

    def __init__(self, options: SessionOptions) -> None:
        _check_names(options)
        self.has_made_secret = not options.secret
        self.secret = options.secret or secrets.token_hex(32)
        self._options = replace(options, secret=self.secret)
        self._closing = ExitStack()
        with self._closing:
            self._serve()
            self._closing = self._closing.pop_all()

    def __enter__(self) -> Kit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def findings(self) -> Iterator[ContractFinding]:
        """Wait for the worker and make the checks, each when it is asked for.

        Raises:
            NotFound: a chosen task is not registered.
        """
        stage = self._stage
        if stage.process is not None:
            stage.process.start()
        if stage.await_registration() is None:
            yield from self._without_worker()
            return
        self._check_tasks()
        for check in self._chosen():
            yield ContractFinding(check, self._look(check))

    def _serve(self) -> None:
        folder = self._options.storage or self._closing.enter_context(
            tempfile.TemporaryDirectory(prefix="pipeweave-check-", ignore_cleanup_errors=True)
        )
        objects = Objects(Path(folder))
        stand_in = StandIn(objects)
        server = HttpServer(*self._options.listen, stand_in.answer)
        self._closing.callback(server.stop)
        host = self._options.listen[0]
        base = self._options.public_url or f"http://{f'[{host}]' if ':' in host else host}:{server.port}"
        self.orchestrator_url = f"{base.rstrip('/')}/w/{TENANT}/{stand_in.token}"
        self._stage = Stage(self._options, stand_in, objects, self._process())

    def _process(self) -> WorkerProcess | None:
        if self._options.command is None:
            return None
        process = WorkerProcess(
            self._options.command,
            {
                **self._options.environment,
                "ORCHESTRATOR_URL": self.orchestrator_url,
                "PIPEWEAVE_ORCHESTRATOR_URL": self.orchestrator_url,
                "PIPEWEAVE_SECRET_KEY": self.secret,
            },
        )
        self._closing.callback(process.kill)
        return process

    def _chosen(self) -> list[ContractCheck]:
        options = self._options
        return [
            each
            for each in CHECKS
            if (not options.only or each.name in options.only) and each.name not in options.skip
        ]

    def _without_worker(self) -> Iterator[ContractFinding]:
        first, *others = self._chosen()
        ended = self._stage.has_ended
        reason = "the command ended before it registered" if ended else "no registration came"
        yield ContractFinding(
            first,
            failed(
                reason,
                "see what it printed" if ended else f"start the worker with {self.orchestrator_url}",
            ),
        )
        yield from (ContractFinding(each, skipped("no worker registered")) for each in others)

    def _check_tasks(self) -> None:
        options, known = self._options, self._stage.tasks
        others = (options.slow_task, options.failing_task, options.pending_task)
        for trial in (options.task, *(each or Trial() for each in others)):
            if trial.task_id is not None and trial.task_id not in known:
                raise NotFound(
                    f"the worker registered no task {trial.task_id!r}",
                    hint=did_you_mean(trial.task_id, known, f"it registered: {', '.join(known) or 'none'}"),
                )

    def _look(self, check: ContractCheck) -> ContractVerdict:
        stage = self._stage
        if check.need > Need.NOTHING:
            if not stage.tasks:
                return skipped("no task is registered")
            if not stage.is_alive() and stage.start_again() is None:
                return _NOT_THERE
        if check.need is Need.SUCCESS and not self._has_sample():
            return skipped("it needs a task that completes")
        return check.look(stage)

    def _has_sample(self) -> bool:
        """Whether a run completed; asked for once, where the check of the report was left out."""
        if self._stage.sample is None and "report" not in {each.name for each in self._chosen()}:
            first_checks.report(self._stage)
        return self._stage.sample is not None


def _check_names(options: SessionOptions) -> None:
    for name in (*options.only, *options.skip):
        if name not in NAMES:
            raise InvalidInput(
                f"there is no check {name!r}",
                errors=[FieldError("check", f"{name!r} does not exist", "unknown", ", ".join(NAMES))],
                hint=did_you_mean(name, NAMES, f"there are: {', '.join(NAMES)}"),
            )
