"""Run the whole stack on one machine: start it in order, keep it running, stop it in reverse order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeweave.authoring.task_loading import BUILT_IN_APP
from pipeweave.errors import PortInUse
from pipeweave.up import database, environment, http_workers, leftovers, requests
from pipeweave.up.changes import FileWatch
from pipeweave.up.folder import DataFolder, Secrets, StackAddress
from pipeweave.up.launch import server_account
from pipeweave.up.options import HOW_TO_ADD_TASKS, MOST_WORKERS, UpOptions
from pipeweave.up.output import Console
from pipeweave.up.ports import free_port, is_free, take
from pipeweave.up.processes import ProcessSpec, write_rows
from pipeweave.up.programs import FLOWER_USER, Programs
from pipeweave.up.requests import RequestFolder
from pipeweave.up.supervisor import StoppedWhileStarting, Supervisor

# Time limits for servers and for PipeWeave's processes to become ready, even at a first start on a busy
# machine.
_SERVERS_DEADLINE_S = 60.0
_PROCESSES_DEADLINE_S = 120.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Announcement:
    """The report that the stack is ready: its connection, and notes for the user."""

    connection: StackAddress
    notes: tuple[str, ...]


def run(options: UpOptions, console: Console, on_ready: Callable[[Announcement], Any]) -> None:
    """Run the stack until SIGINT, SIGTERM or SIGHUP; return when every process has ended.

    Args:
        options: the stack's options.
        console: prints the lines of all processes.
        on_ready: called once, when tasks can run.

    Raises:
        AlreadyUp: another stack runs on the same folder.
        PortInUse: another process listens on the API's port.
        StartFailed: a process ended before it was ready.
        Unavailable: a program is missing, or a process was not ready in time.
    """
    folder = DataFolder(options.data_dir)
    folder.make()
    with folder.held(), folder.failure_kept():
        swept = leftovers.sweep(folder.processes, folder.connection)
        folder.connection.unlink(missing_ok=True)
        options, secrets = with_ports(options, folder.secrets())
        supervisor = Supervisor(folder.logs, console, partial(write_rows, folder.processes))
        if swept:
            supervisor.say(f"ended processes that an earlier stack left behind: {', '.join(swept)}")
        asked = RequestFolder(folder)
        supervisor.take_requests = asked.take
        with _signals_go_to(supervisor):
            try:
                announcement = _start(options, folder, secrets, supervisor)
                asked.open()
                with _reloading(options, supervisor):
                    on_ready(announcement)
                    supervisor.watch()
            except StoppedWhileStarting:
                pass
            finally:
                asked.close()
                folder.connection.unlink(missing_ok=True)
                supervisor.stop()
                folder.processes.unlink(missing_ok=True)


def _start(options: UpOptions, folder: DataFolder, secrets: Secrets, supervisor: Supervisor) -> Announcement:
    # Also a key that the user gave: `pipeweave services secret` reads it, and the next `up` has the same.
    secrets.secret_key = options.secret_key or secrets.secret_key
    folder.keep(secrets)
    programs = Programs(options, folder, secrets)
    supervisor.start(programs.watchdog())
    _start_servers(programs, supervisor)
    url = programs.postgres_server.url
    database.migrate(url)
    secrets.token = database.issue_token(url, options.tenant, secrets.token)
    folder.keep(secrets)
    _start_processes(options, programs, supervisor)
    connection = StackAddress(
        options.url,
        options.tenant,
        secrets.token,
        url,
        programs.valkey_server.url,
        environment.settings_of(options),
    )
    folder.announce(connection)
    return Announcement(connection, tuple(_notes(options, folder, programs, supervisor)))


def _start_servers(programs: Programs, supervisor: Supervisor) -> None:
    programs.valkey_server.prepare()
    supervisor.start(programs.valkey())
    programs.postgres_server.prepare()
    supervisor.start(programs.postgres())
    supervisor.wait_ready(["postgres", "valkey"], _SERVERS_DEADLINE_S)


def _start_processes(options: UpOptions, programs: Programs, supervisor: Supervisor) -> None:
    alive = database.LiveWorkers(programs.postgres_server.url)
    workers = [programs.worker(number, alive) for number in range(1, options.workers + 1)]
    needed = [programs.api(), *workers]
    if options.has_dispatcher:
        needed.append(programs.dispatcher(alive))
    if options.mode == "standalone":
        needed.append(programs.beat(database.Ticks(programs.postgres_server.url)))
    for spec in needed:
        supervisor.start(spec)
    supervisor.wait_ready([spec.name for spec in needed], _PROCESSES_DEADLINE_S)
    if options.workers:
        supervisor.spec_of = lambda name: _further_worker(name, programs, alive)


def _further_worker(name: str, programs: Programs, alive: database.LiveWorkers) -> ProcessSpec | None:
    kind, _, number = name.rpartition("-")
    is_worker = kind == "worker" and number.isdigit() and 0 < int(number) <= MOST_WORKERS
    return programs.worker(int(number), alive) if is_worker else None


def _notes(
    options: UpOptions, folder: DataFolder, programs: Programs, supervisor: Supervisor
) -> Iterator[str]:
    flower = programs.flower()
    if flower:
        # Started last, because tasks do not need it.
        supervisor.start(flower)
        yield f"Flower: {programs.flower_url} (user {FLOWER_USER}, password in {folder.secrets_file})"
    server = programs.postgres_server
    installed = server.installed(server_account(server.folder))
    if not installed.is_shipped:
        which = f"PostgreSQL {installed.major} of this machine"
        yield f"{which} runs, not that of pipeweave[up]: {installed.folder}"
    if not options.workers:
        yield f"No worker runs, because there are no tasks to load: {HOW_TO_ADD_TASKS}"
        yield f"To run the adapters of PipeWeave without tasks of yours: --app {BUILT_IN_APP}"
        yield from http_workers.how_to_join(options)
    elif options.is_reloading:
        yield f"Workers restart when code below {Path.cwd()} changes"
    if options.mode == "serverless":
        yield "No beat runs, because MODE is serverless: POST /api/tick (`pipeweave tick`) runs the tick"
    ignored = environment.without_effect()
    if ignored:
        yield f"{', '.join(ignored)} ignored: `up` runs its own PostgreSQL and Valkey"


def with_ports(options: UpOptions, secrets: Secrets) -> tuple[UpOptions, Secrets]:
    """Choose the ports of a stack: no two are the same, and none is that of a stack which starts beside it.

    The API's comes first, because the user may have named it. The servers keep those of the last start if
    they can, so that noted addresses stay valid.

    Raises:
        PortInUse: another process listens on the port that the user named.
    """
    options = replace(options, port=_api_port(options))
    return options, replace(
        secrets,
        postgres_port=free_port(secrets.postgres_port),
        valkey_port=free_port(secrets.valkey_port),
        flower_port=free_port(secrets.flower_port),
    )


def _api_port(options: UpOptions) -> int:
    if options.port == 0:
        return free_port()
    if not is_free(options.port, options.host):
        raise PortInUse(
            f"port {options.port} on {options.host} is in use", hint="choose another port with --port"
        )
    take(options.port)
    return options.port


@contextmanager
def _reloading(options: UpOptions, supervisor: Supervisor) -> Iterator[None]:
    if not options.is_reloading or not options.workers:
        yield
        return
    watch = FileWatch(options.apps, Path.cwd(), supervisor.files_changed)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


@contextmanager
def _signals_go_to(supervisor: Supervisor) -> Iterator[None]:
    def stop(*_: object) -> None:
        supervisor.request_stop()

    def look(*_: object) -> None:
        supervisor.look_for_requests()

    before = {each: signal.signal(each, stop) for each in _STOP_SIGNALS}
    before[requests.SIGNAL] = signal.signal(requests.SIGNAL, look)
    try:
        yield
    finally:
        for each, action in before.items():
            signal.signal(each, action)
