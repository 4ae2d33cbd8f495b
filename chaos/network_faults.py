"""Faults of networks and hosts: connections go silent, hosts vanish with their connections open."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from chaos.aim import Aim, Hit, Missed, beat_of, gone, worker_of
from chaos.plan import Fault
from chaos.proxies import Proxies
from chaos.proxy import Proxy


def silence_postgres(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Silence a process's connections to PostgreSQL."""
    _silence([aim.up.lines[fault.options["process"]].postgres], fault)


def silence_broker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Silence a process's connections to the broker."""
    broker = aim.up.lines[fault.options["process"]].broker
    if broker is None:
        raise Missed("processes reach sentinels, and what they name, without a proxy")
    _silence([broker], fault)


def silence_network(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Silence all connections of a process to servers."""
    _silence(aim.up.lines[fault.options["process"]].all, fault)


def _silence(proxies: Sequence[Proxies | Proxy], fault: Fault) -> None:
    """In one of three ways: a firewall forgets the connections, and new ones work at once; or nothing passes
    for a while, and then what was sent meanwhile arrives, or only new connections work.
    """
    if (way := fault.options["way"]) == "forgotten":
        for each in proxies:
            each.silence()
        return
    for each in proxies:
        each.cut()
    time.sleep(fault.seconds)
    for each in proxies:
        each.mend(delivers=way == "late")


def lose_worker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Let the host of a worker vanish while it is busy."""
    hit.pids = aim.busy_worker(fault)
    _vanish(aim, worker_of(fault), fault, hit)


def lose_beat(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Let the host of a beat vanish, perhaps the one that ticks."""
    hit.pids = aim.family(beat_of(fault))
    _vanish(aim, beat_of(fault), fault, hit)


def lose_api(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Let the host of the API vanish, in the middle of a request if one is open soon."""
    hit.pids = aim.family("api", children=1)
    aim.wait_for_request()
    _vanish(aim, "api", fault, hit)


def _vanish(aim: Aim, name: str, fault: Fault, hit: Hit) -> None:
    """Silence all connections of a process, kill it, and start it again on another host: with new ones."""
    process = aim.up.processes[name]
    with process.down():
        came = aim.up.lines[name].vanish(fault.options["moment"])
        # Its children are of its group, those that it started just now, too.
        if (pid := process.pid) is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        gone(process)
        hit.more = {f"in {fault.options['moment']}": 1} if came else {"at any moment": 1}
        time.sleep(fault.seconds)
