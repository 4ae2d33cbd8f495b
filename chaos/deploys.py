"""Rolling deploys: a worker is restarted with other code, and later with its own again."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

from chaos.aim import PATIENCE_S, Aim, Hit, Missed, send, worker_of
from chaos.catalogue import other
from chaos.plan import Fault
from chaos.waiting import waited

_IS_THERE = "SELECT count(*) FROM workers WHERE pid = %s AND stopped_at IS NULL AND started_at > %s"


def deploy(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Deploy other code to a worker for a while: a task is added, one is removed, one is changed."""
    name = worker_of(fault)
    hit.pids = aim.busy_worker(fault)
    with _deployed(aim, name, fault, hit):
        time.sleep(fault.seconds)
    _restart(aim, name, fault, hit)


@contextmanager
def _deployed(aim: Aim, name: str, fault: Fault, hit: Hit) -> Iterator[None]:
    own = aim.up.deployed[name]
    aim.up.deployed[name] = other(own)
    try:
        _restart(aim, name, fault, hit)
        yield
    finally:
        aim.up.deployed[name] = own


def _restart(aim: Aim, name: str, fault: Fault, hit: Hit) -> None:
    """Restart a worker, in order or by SIGKILL, and wait until it is there again."""
    process = aim.up.processes[name]
    family, starts, now = aim.family(name, children=1), process.starts, _now(aim)
    hit.pids = [*hit.pids, *family]
    send(
        family if fault.options["kill"] else family[:1],
        signal.SIGKILL if fault.options["kill"] else signal.SIGTERM,
    )

    def is_there() -> bool:
        try:
            return process.starts > starts and bool(aim.up.rows(_IS_THERE, process.pid, now)[0][0])
        except psycopg2.Error:
            return False

    if not waited(is_there, PATIENCE_S):
        raise Missed(f"{name} did not come back")


def _now(aim: Aim) -> object:
    return aim.up.rows("SELECT now()")[0][0]
