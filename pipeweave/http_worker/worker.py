"""Define HttpWorker, which serves the tasks of an app by HTTP."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

from pipeweave.attempt import StoredLogs, ToStoredLogs, printed_lines, remove_left_behind
from pipeweave.authoring import Task, check_hints, collect, registered_tasks
from pipeweave.errors import FieldError, InvalidInput, InvalidSetting, InvalidTask
from pipeweave.http_worker import worker_log
from pipeweave.http_worker.attempt import Equipment, current_log, store_log
from pipeweave.http_worker.link import OrchestratorLink
from pipeweave.http_worker.listening import Listener, own_address
from pipeweave.http_worker.registrar import Registrar
from pipeweave.http_worker.reports import ReportSender
from pipeweave.http_worker.server import Application
from pipeweave.http_worker.stop_signals import StopSignals
from pipeweave.http_worker.under_way import UnderWay
from pipeweave.ids import check_name
from pipeweave.settings import connecting, load_for_http_worker

log = logging.getLogger(__name__)

PORT = 3001

# Attempts under way get so many seconds when the worker stops.
GRACE_S = 30.0
# What they have logged gets so many seconds to be stored.
LOGS_WITHIN_S = 2.0

StorageAccess = Literal["token", "urls"]


class HttpWorker:
    """Registers tasks with an orchestrator and runs them when it dispatches them, by HTTP.

    `HttpWorker("shop").run()` serves every task that is defined so far, until TERM or Ctrl-C.

    Args:
        service_id: the service that the tasks belong to. Several workers may register as one service.
        orchestrator_url: PIPEWEAVE_ORCHESTRATOR_URL by default, else the stack of this folder.
        secret_key: the worker secret: it verifies dispatches and decrypts storage tokens.
            PIPEWEAVE_SECRET_KEY by default.
        version: of the service; by default a hash of its tasks' code.
        tasks: tasks, or modules that hold tasks; by default every task that this process has defined.
        host: the address to listen on.
        port: the port to listen on; 0 for any that is free.
        base_url: where the orchestrator reaches this worker; by default the address of this machine on the
            way to the orchestrator, and the port.
        concurrency: how many attempts may run at once; each runs in a thread.
        token: a token with scope `orchestrator:worker`; PIPEWEAVE_API_TOKEN by default.
        tenant: PIPEWEAVE_TENANT by default, else the token's only tenant.
        storage_access: `token` to get credentials of the storage, `urls` to get URLs for single objects.
        temp_dir: the folder for temporary files; the system's by default.
        verify: false to take dispatches of anybody who can reach the port.
        grace_s: seconds that attempts under way may take after `stop`.

    Raises:
        InvalidInput, InvalidSetting: an argument or a setting is missing or wrong.
        InvalidTask: a task is defined twice, or a type hint cannot be read.
        PortInUse: another program listens on the port.
        MissingExtra: the packages of the extra `http` are not installed.
    """

    def __init__(
        self,
        service_id: str,
        orchestrator_url: str | None = None,
        secret_key: str | None = None,
        *,
        version: str | None = None,
        tasks: Iterable[Task[..., Any] | ModuleType] | None = None,
        host: str = "0.0.0.0",
        port: int = PORT,
        base_url: str | None = None,
        concurrency: int = 4,
        token: str | None = None,
        tenant: str | None = None,
        storage_access: StorageAccess = "token",
        temp_dir: str | Path | None = None,
        verify: bool = True,
        grace_s: float = GRACE_S,
    ) -> None:
        _check(service_id, storage_access, concurrency)
        settings = load_for_http_worker()
        secret = secret_key or settings.secret_key
        if secret is None and (verify or storage_access == "token"):
            raise _no_secret()
        connection = connecting.orchestrator(settings, url=orchestrator_url, token=token, tenant=tenant)
        self.service_id = service_id
        self.tasks = _tasks_of(tasks)
        _refuse_limits(self.tasks)
        self.version = version or _version_of(self.tasks)
        self._log_options = (settings.log_format, settings.log_level, settings.log_names)
        self._grace_s = grace_s
        self._link = OrchestratorLink(connection.url, connection.token, connection.tenant)
        self._listener = Listener(host, port)
        self.port = self._listener.port
        self.base_url = (base_url or f"http://{_reachable(host, connection.url)}:{self.port}").rstrip("/")
        body = {
            "serviceId": service_id,
            "version": self.version,
            "baseUrl": self.base_url,
            "tokenFormat": "pbkdf2",
            "storageAccess": storage_access,
            "tasks": [_shown(each) for each in self.tasks.values()],
        }
        self._registrar = Registrar(self._link, body)
        self._logs = StoredLogs(store_log)
        self._lines = ToStoredLogs(self._logs, current_log)
        self._temp_dir = Path(temp_dir) if temp_dir is not None else None
        reports = ReportSender(self._link, self._registrar.again)
        equipment = Equipment(self._link, reports, self._logs, secret, self._temp_dir)
        self._under_way = UnderWay(self.tasks, concurrency, equipment)
        shown = {"service": service_id, "version": self.version}
        prefix = urlsplit(self.base_url).path
        self._application = Application(
            shown, self.tasks, self._under_way, secret if verify else None, prefix
        )
        self._is_closed = False

    def run(self) -> None:
        """Serve until TERM or Ctrl-C, then let the attempts under way end.

        What is printed becomes lines of the log. A second signal ends the process at once.

        Raises:
            PipeWeaveError: the orchestrator refused the registration.
        """
        worker_log.configure_unless_configured(*self._log_options)
        with StopSignals() as signals:
            # Before the start: the first dispatch may come while the worker still registers.
            printed_lines.capture()
            try:
                self.start()
                signals.wait()
                log.info("worker.stopping", extra={"running": self._under_way.count})
                self.stop()
            finally:
                printed_lines.release()

    def start(self) -> None:
        """Serve in the background, and register. While the orchestrator cannot be reached, it goes on trying.

        Raises:
            PipeWeaveError: the orchestrator refused the registration; nothing is served then.
        """
        remove_left_behind(self._temp_dir)
        worker_log.store_lines(self._lines)
        self._under_way.start()
        self._listener.start(self._application)
        try:
            self._registrar.start()
        except BaseException:
            self._close()
            raise
        log.info("worker.started", extra={"base_url": self.base_url, "tasks": len(self.tasks)})

    def stop(self) -> None:
        """Take no more dispatches, wait for the attempts under way, and leave the orchestrator.

        A worker cannot be started again.
        """
        if self._is_closed:
            return
        self._under_way.stop_taking()
        self._registrar.leave()
        self._under_way.drain(self._grace_s)
        self._close()
        log.info("worker.stopped")

    def _close(self) -> None:
        self._is_closed = True
        self._listener.stop()
        self._logs.close(LOGS_WITHIN_S)
        worker_log.store_no_lines(self._lines)
        self._link.close()


def _check(service_id: str, storage_access: str, concurrency: int) -> None:
    check_name(service_id, "service id")
    errors = []
    if storage_access not in ("token", "urls"):
        errors.append(FieldError("storage_access", "must be `token` or `urls`", "invalid"))
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        errors.append(FieldError("concurrency", "must be a whole number from 1", "invalid"))
    if errors:
        raise InvalidInput(f"{errors[0].field} {errors[0].message}", errors=errors)


def _no_secret() -> InvalidSetting:
    return InvalidSetting(
        "PIPEWEAVE_SECRET_KEY is not set",
        errors=[FieldError("PIPEWEAVE_SECRET_KEY", "is not set", "required")],
        hint="set it, or give secret_key; `pipeweave services secret SERVICE` prints the secret of a service",
    )


def _refuse_limits(tasks: Mapping[str, Task[..., Any]]) -> None:
    """Refuse tasks whose limits would not hold: the attempts of an HTTP worker are threads of one process."""
    limited = [id for id, each in tasks.items() if each.spec.sandbox is not None or each.spec.has_limits]
    if limited:
        raise InvalidTask(
            f"task {limited[0]!r} limits what its calls may use, which an HTTP worker cannot",
            errors=[FieldError(each, "has a sandbox, memory or cpu", "unsupported") for each in limited],
            hint="run it with `pipeweave worker`, or pass the other tasks: HttpWorker(…, tasks=[…])",
        )


def _tasks_of(tasks: Iterable[Task[..., Any] | ModuleType] | None) -> Mapping[str, Task[..., Any]]:
    if tasks is None:
        by_id = registered_tasks()
    else:
        by_id = {}
        for each in tasks:
            by_id |= collect(each) if isinstance(each, ModuleType) else {each.id: each}
    if not by_id:
        raise InvalidInput("there are no tasks to serve", hint="decorate a function with @task")
    check_hints({id_: each.fn for id_, each in by_id.items()})
    for each in by_id.values():
        if each.spec.idempotency_key is not None:
            # The orchestrator decides before it dispatches whether a task is called.
            extra = {"task_id": each.id, "reason": "give idempotencyKey in requests instead"}
            log.warning("task.key_unused", extra=extra)
    return by_id


def _shown(task: Task[..., Any]) -> dict[str, Any]:
    # The function's name is for workers of this deployment alone.
    return {name: value for name, value in task.to_registration().items() if name != "name"}


def _version_of(tasks: Mapping[str, Task[..., Any]]) -> str:
    code = sorted(f"{each.spec.id}={each.spec.code_hash}" for each in tasks.values())
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:12]


def _reachable(host: str, orchestrator_url: str) -> str:
    if host in ("0.0.0.0", "::", ""):
        return own_address(orchestrator_url)
    return f"[{host}]" if ":" in host else host
