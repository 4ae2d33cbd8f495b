"""Starts a worker process or a beat process, from settings to exit code."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import billiard.pool
from billiard.process import current_process
from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown, worker_shutting_down
from celery.worker import state

from pipeweave.attempt import printed_lines, remove_left_behind
from pipeweave.authoring.task_loading import Loaded, load
from pipeweave.errors import InvalidSetting
from pipeweave.labels import Labels, read_labels
from pipeweave.orchestrator.bundles import SERVICE as BUNDLES
from pipeweave.orchestrator.deployment import (
    Deployment,
    json_logs,
    process_memory,
    schema_check,
    shared_settings,
)
from pipeweave.orchestrator.messaging import make_celery
from pipeweave.orchestrator.registry import (
    MAX_VERSION,
    WorkerStart,
    pipelines,
    registration,
    require_tenant,
    worker_processes,
)
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.starts.schedules import declaring, firing
from pipeweave.orchestrator.store import Transaction
from pipeweave.settings import Settings
from pipeweave.spec import PipelineSpec, time_limits
from pipeweave.workers.consumer.calls import Calls
from pipeweave.workers.consumer.celery_tasks import define
from pipeweave.workers.consumer.child_slots import Slot, Slots
from pipeweave.workers.consumer.runner import ChildProcess, Runner
from pipeweave.workers.consumer.storage_seats import seats_of_child
from pipeweave.workers.process import (
    celery_lines,
    parent_death,
    remote_control,
    tracing,
    users_apps,
)
from pipeweave.workers.process.confinable import confinable
from pipeweave.workers.process.health_reports import SILENT_AFTER, HealthReport, LastStored
from pipeweave.workers.process.health_server import HealthAddress, HealthServer, ProcessHealth
from pipeweave.workers.process.liveness import WorkerLiveness
from pipeweave.workers.process.memory_watch import RESTART_CODE, MemoryWatch
from pipeweave.workers.process.pool import ChildPool
from pipeweave.workers.process.served_queues import ServedQueues
from pipeweave.workers.process.sigterm import DeferredSigterm

log = logging.getLogger(__name__)

# A child runs one call at a time. Its threads take turns: nobody holds a connection while a function runs.
CHILD_CONNECTIONS = 1

# Tenths of a second for which a stopping child waits until its parent has counted its results. The parent
# does not count a message that it gave up; the child would wait half a minute, and nothing needs results.
TRIES_TO_BE_COUNTED = 10

# The pool of children that Celery is to use.
POOL = "pipeweave.workers.process.pool:TaskPool"

# A new child that is not ready after so many seconds is killed, and another one is started.
READY_WITHIN_S = 30.0

MEGABYTE = 10**6

# Seconds that task runs under way may take after a TERM.
GRACE_S = 30.0

# Seconds between two events by which Flower sees that a worker lives; it waits for twice as long. PipeWeave
# goes by the heartbeats in PostgreSQL.
EVENT_EVERY_S = 10.0

# What a worker without an app registers as; it is no service.
DISPATCHER = "dispatcher"


def run_worker(
    settings: Settings,
    apps: Sequence[str],
    *,
    service: str = "python",
    name: str | None = None,
    concurrency: int | None = None,
    grace_s: float = GRACE_S,
    queues: Sequence[str] = (),
    labels: Labels | None = None,
    with_adapters: bool = False,
    with_bundles: bool = False,
    health: HealthAddress | None = None,
) -> None:
    """Register an app's tasks and pipelines, then run task runs until told to stop.

    Without an app, it only dispatches task runs to HTTP services.

    Args:
        settings: database and broker are needed.
        apps: modules, files or folders; none for a worker that only dispatches.
        service: the service these tasks belong to. Its workers may load different tasks and code.
        name: of this worker; `worker@host` with the process id by default.
        concurrency: task runs at once; MAX_CONCURRENCY by default.
        grace_s: seconds that task runs under way may take after a TERM; then other workers start them anew.
        queues: names of the queues to serve; by default `default` and those of all loaded tasks.
        labels: of its machine; None for WORKER_LABELS.
        with_adapters: whether it runs the adapters that PipeWeave brings beside the tasks of its apps.
        with_bundles: whether it runs the bundles that are installed for its tenant, instead of an app. When
            others are installed, it starts again in this process.
        health: where `GET /health` is answered; None for nowhere.

    Raises:
        PipeWeaveError: nothing to load, a definition is wrong, or database or broker cannot be used.
    """
    json_logs.configure(settings)
    loaded = Loaded({}, [])
    if apps:
        loaded = load(apps, with_adapters=with_adapters, requires_pipelines=settings.require_pipelines)
    printed_lines.enable_loggers()
    concurrency = concurrency or settings.max_concurrency
    deployment = Deployment.open(settings, pool_size=1)
    schema_check.require_current(deployment.database)
    hosted = watch = None
    if with_bundles:
        # Here: to read bundles and check their signatures is in the memory of those workers alone.
        from pipeweave.workers.bundles import BundleWatch, HostedBundles

        hosted = HostedBundles(deployment.database, deployment.values, settings.tenant)
        watch = BundleWatch(deployment.database, settings.tenant, hosted)
        loaded, service = hosted.loaded, BUNDLES
    elif not apps:
        service = DISPATCHER
    loaded = confinable(loaded)
    # A dispatcher calls nothing that could require a label.
    labels = {} if service == DISPATCHER else labels or read_labels(settings.worker_labels)
    served = ServedQueues.of(settings.tenant, service, loaded, queues, labels)
    start = _start(service, name, concurrency, loaded, served, labels)
    shared_settings.require_same(deployment.database, settings, start.name)
    # Before it registers: who is refused its port must not be listed as a worker that crashed.
    answering = _answering(health, lambda: alive.health())
    worker_id = register(deployment, service, loaded, start)
    app = make_celery(settings, queues=served.all, is_worker=True)
    app.conf.update(worker_pool=POOL, worker_proc_alive_timeout=READY_WITHIN_S)
    celery_lines.install()
    users_apps.keep()
    parent_death.ask_directly()
    remote_control.restrict_to_questions()
    remove_left_behind()
    slots = Slots(concurrency)
    _make_runners(app, settings, loaded, slots, worker_id, served.all)
    memory = ChildPool.memory = MemoryWatch(settings.worker_max_memory * MEGABYTE)
    alive = WorkerLiveness(
        deployment.database,
        settings.tenant,
        start,
        worker_id,
        slots,
        memory,
        grace_s=grace_s,
        # Celery's cold shutdown, on QUIT or a second Ctrl-C: it waits for children that leave its TERM to us.
        is_cut_short=lambda: bool(state.should_terminate),
        is_outdated=lambda: watch is not None and watch.is_outdated,
        log_every_s=settings.worker_heartbeat_interval / 1000,
        max_retry_delay_ms=settings.max_retry_delay_ms,
    )
    worker_shutting_down.connect(lambda **_: alive.stop(), weak=False)
    billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = TRIES_TO_BE_COUNTED
    process_memory.freeze_loaded_objects()
    names = {"worker": worker_id, "service": service, "tenant": settings.tenant}
    log.info("worker.started", extra={**names, "tasks": len(loaded.tasks), "concurrency": concurrency})
    try:
        with answering, alive, watch or nullcontext():
            exit_code = _run(app, start, settings.log_level)
    finally:
        done = slots.tally()
        log.info("worker.stopped", extra={**names, "runs": done.calls, "failed": done.failed})
        if hosted is not None:
            hosted.close()
    if watch is not None and watch.is_outdated and alive.ended_itself:
        # Its parent sees the same process; what it loads, it verifies anew.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if exit_code or memory.wants_restart:
        raise SystemExit(exit_code or RESTART_CODE)


def _answering(
    health: HealthAddress | None, look: Callable[[], ProcessHealth]
) -> AbstractContextManager[Any]:
    """Answer probes while the block runs, if there is an address for it; the port is taken at once."""
    return nullcontext() if health is None else HealthServer(health, look)


def _start(
    service: str, name: str | None, concurrency: int, loaded: Loaded, served: ServedQueues, labels: Labels
) -> WorkerStart:
    """What this process registers of itself."""
    host = socket.gethostname()
    return WorkerStart(
        service,
        f"{name or f'worker-{os.getpid()}'}@{host}",
        host,
        concurrency,
        len(loaded.tasks),
        loaded=served.loaded,
        queues=served.all,
        own_queue=served.own,
        version=loaded.version[:MAX_VERSION],
        labels=labels,
    )


def _run(app: Celery, start: WorkerStart, log_level: str) -> int:
    """Run Celery's worker until it is told to stop; its exit code, 0 unless it ended by an error."""
    # Not `worker_main`: Celery's command line exports BROKER_URL to every app as CELERY_BROKER_URL.
    worker = app.Worker(
        hostname=start.name,
        concurrency=start.concurrency,
        without_gossip=True,
        without_mingle=True,
        heartbeat_interval=EVENT_EVERY_S,
        loglevel=json_logs.celery_level(log_level),
        quiet=True,
    )
    worker.start()
    return worker.exitcode or 0


def _make_runners(
    app: Celery, settings: Settings, loaded: Loaded, slots: Slots, worker_id: str, queues: tuple[str, ...]
) -> None:
    """Have each child make its runner when it starts, with connections of its own."""
    made: list[tuple[Runner, DeferredSigterm]] = []

    def make_runner(**_: object) -> None:
        # Only who takes over from another child is expected to have work at once.
        is_successor = slots.are_taken
        printed_lines.capture()
        name = worker_processes.child_of(worker_id, os.getpid())
        child = Deployment.open(
            settings,
            pool_size=CHILD_CONNECTIONS,
            app=app,
            session_name=worker_processes.sessions_of(name),
        )
        calls = Calls(child.database, child.values, loaded.tasks, child.settings)
        calls.logs.install()
        tracing.follow(settings)
        worker_process_shutdown.connect(lambda **_: calls.logs.close(), weak=False)
        worker_process_shutdown.connect(lambda **_: calls.boxes.close(), weak=False)
        slot = take_slot(slots)
        child.values.backends.share(seats_of_child(slots, slot))
        sigterm = DeferredSigterm(lambda: slot.is_busy)
        process = ChildProcess(
            name,
            queues,
            slot,
            # Asked several times for each call: a lambda would be one more.
            partial(attrgetter("takes_nothing"), slots),
            partial(attrgetter("is_mixed"), slots),
            sigterm.obey,
            leave=lambda: _leave(calls),
            promotions=lambda: max(slots.promotions, child.database.timeline.promotions),
        )
        runner = Runner(child, calls, process)
        made[:] = [(runner, sigterm)]
        runner.watchdog.start()
        if is_successor:
            runner.warm_up()
        process_memory.freeze_loaded_objects()

    def runner() -> Runner:
        mine, sigterm = made[0]
        sigterm.watch()
        return mine

    define(app, runner)
    worker_process_init.connect(make_runner, weak=False)


def _leave(calls: Calls) -> None:
    """End this process at once."""
    calls.logs.close()
    os._exit(1)


def take_slot(slots: Slots) -> Slot:
    """Take a slot for this child; waits while the parent still has to read the slots of dead children."""
    place = getattr(current_process(), "index", 0)
    while (slot := slots.take(place, os.getpid())) is None:
        time.sleep(0.1)
    return slot


def register(deployment: Deployment, service: str, loaded: Loaded, start: WorkerStart) -> str:
    """Register service, tasks, pipelines with their schedules, and this worker, in one transaction. Returns
    the worker's id.

    Raises:
        InvalidTask, InvalidSpec, TaskOwnedElsewhere: nothing was stored.
        NotFound: a dispatcher is for a tenant that does not exist.
    """
    tenant, ttl = deployment.settings.tenant, deployment.settings.idempotency_ttl_seconds
    shown = {
        "serviceId": service,
        "version": loaded.version,
        "tasks": [each.to_registration() for each in loaded.tasks.values()],
    }
    declaration = registration.parse(shown, kind="python", idempotency_ttl=ttl)

    def store(tx: Transaction) -> str:
        if service == DISPATCHER:
            # It brings nothing: a tenant that is not there yet is most likely another one's name.
            require_tenant(tx, tenant)
        else:
            service_registration.begin(tx, tenant)
            declaring.hold(tx, tenant, {spec.id for spec, _ in loaded.pipelines})
            service_registration.register(tx, tenant, declaration, by_worker=True)
        specs = [spec for spec, _ in loaded.pipelines]
        for spec, source in loaded.pipelines:
            stored = pipelines.store(tx, tenant, spec, source=source, beside=specs)
            declaring.declare(tx, tenant, spec, source=source)
            if stored.is_new:
                names = {"pipeline_id": spec.id, "version": stored.version}
                log.info("pipeline.stored", extra=names)
                _warn_of_unknown_children(tx, tenant, spec, specs)
        return worker_processes.register(tx, tenant, start)

    for spec, _ in loaded.pipelines:
        _warn_of_time_limits(deployment.settings, loaded, spec)
    firing.run_due(deployment.database, deployment.values, tenant, {spec.id for spec, _ in loaded.pipelines})
    return deployment.database.run(store)


def _warn_of_unknown_children(
    tx: Transaction, tenant: str, spec: PipelineSpec, beside: Iterable[PipelineSpec]
) -> None:
    known = pipelines.children_of(tx, tenant, spec, beside)
    for warning in pipelines.unknown_children(tx, tenant, spec, known):
        log.warning("pipeline.child_unknown", extra={"pipeline_id": spec.id, "reason": warning.message})


def _warn_of_time_limits(settings: Settings, loaded: Loaded, spec: PipelineSpec) -> None:
    seconds = {each.spec.id: float(each.spec.timeout) for each in loaded.tasks.values()}
    for warning in time_limits.beyond_run(spec, seconds, settings.max_execution_timeout):
        log.warning("pipeline.timeout_short", extra={"pipeline_id": spec.id, "reason": warning.message})


def run_beat(settings: Settings, health: HealthAddress | None = None) -> None:
    """Run the tick and the other loops until told to stop. Several may run: a lease lets one act at a time.

    Args:
        settings: database and broker are needed.
        health: where `GET /health` is answered; None for nowhere.

    Raises:
        InvalidSetting: with MODE=serverless, requests drive the tick.
    """
    if settings.mode == "serverless":
        raise InvalidSetting(
            "beat does not run with MODE=serverless: requests to POST /api/tick drive the tick there",
            hint="set MODE=standalone to let beat drive it",
        )
    # Here: the documents that archives need would be a tenth of a worker's memory.
    from pipeweave.workers.loops import Loops

    json_logs.configure(settings)
    app = make_celery(settings)
    deployment = Deployment.open(settings, pool_size=1)
    # A beat waits for a PostgreSQL that is away, but nothing it does can mend the schema.
    schema_check.require_current_if_reachable(deployment.database)
    shared_settings.require_same_if_reachable(deployment.database, settings, f"beat@{socket.gethostname()}")
    ticked = LastStored()
    answering = _answering(health, _health_of_beat(settings, ticked))
    loops = Loops(deployment, ticked.record)
    # Celery's part is the process: its signals and its log. This scheduler has no entries and writes no file.
    beat = app.Beat(
        scheduler_cls="celery.beat:Scheduler",
        loglevel=json_logs.celery_level(settings.log_level),
        pidfile=None,
        schedule=os.devnull,
        redirect_stdouts=False,
        quiet=True,
        working_directory=str(Path.cwd()),
    )
    # Else the first full collection comes some seconds later, beside runs.
    process_memory.freeze_loaded_objects()
    with answering, loops:
        beat.run()


# A beat whose ticks fail is as silent as one that misses so many of them.
MISSED_TICKS = 5


def _health_of_beat(settings: Settings, ticked: LastStored) -> Callable[[], ProcessHealth]:
    """What beat answers to a probe: 503 when its ticks fail. One that another beat does counts as its own."""
    interval = timedelta(milliseconds=settings.poll_interval_ms)
    report = HealthReport(ticked, max(SILENT_AFTER, MISSED_TICKS * interval))
    members = {"worker": f"beat-{os.getpid()}@{socket.gethostname()}"}
    return lambda: report.of(members, is_stopping=False, stored_as="lastTick")
