"""Faults of processes: they are killed, frozen, or told to end."""

from __future__ import annotations

import signal
import time

from chaos.aim import Aim, Hit, beat_of, freeze, one_of, send, whole_or_first
from chaos.plan import Fault

# A request takes about this long (s).
REQUEST_S = 0.015


def kill_child(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill one of a worker's children, a busy one if there is one."""
    children = aim.busy_worker(fault)[1:]
    busy = [each for each in children if each in aim.reading.open]
    hit.pids = [one_of(busy or children, fault.chance)]
    send(hit.pids, signal.SIGKILL)


def kill_worker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill a worker with its children, or alone."""
    hit.pids = aim.busy_worker(fault)
    send(whole_or_first(hit.pids, fault), signal.SIGKILL)


def stop_worker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Freeze a worker until it counts as lost, with its children or without."""
    hit.pids = aim.busy_worker(fault)
    freeze(whole_or_first(hit.pids, fault), fault.seconds)


def ask_worker_to_end(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Send TERM to a worker, as an operator does."""
    hit.pids = aim.busy_worker(fault)
    send(hit.pids[:1], signal.SIGTERM)


def kill_beat(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.pids = aim.family(beat_of(fault))
    send(hit.pids, signal.SIGKILL)


def stop_beat(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Freeze a beat, perhaps the one that holds the lease."""
    hit.pids = aim.family(beat_of(fault))
    freeze(hit.pids, fault.seconds)


def kill_api(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill the API, in the middle of a request if one is open soon."""
    hit.pids = aim.family("api", children=1)
    aim.wait_for_request()
    time.sleep(fault.chance * REQUEST_S)
    send(whole_or_first(hit.pids, fault), signal.SIGKILL)
