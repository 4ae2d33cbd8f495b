"""Faults of the broker and of its sentinels. All but the sentinels' act on the primary of the moment."""

from __future__ import annotations

import shutil
import signal
import time

from chaos.aim import Aim, Hit, Missed, freeze, gone, send
from chaos.plan import Fault

# The sentinels must have agreed on another primary after so long (s).
TAKEN_OVER_WITHIN_S = 30.0


def wipe(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill the broker and delete its data."""
    name = aim.up.broker.primary()
    server, process = aim.up.broker.servers[name], aim.up.processes[name]
    hit.pids = aim.family(name)
    with process.down():
        send(hit.pids, signal.SIGKILL)
        gone(process)
        shutil.rmtree(server.folder)
        server.prepare()
        time.sleep(fault.seconds)


def hang(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Freeze the broker: it accepts connections and does not answer."""
    hit.pids = aim.family(aim.up.broker.primary())
    freeze(hit.pids, fault.seconds)


def make_read_only(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Make the broker a replica, as a failover does with the old primary, and then a primary again."""
    redis = aim.up.redis()
    redis.replicaof("127.0.0.1", "1")
    time.sleep(fault.seconds)
    redis.replicaof("NO", "ONE")


def fill(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Let the broker store nothing more: it answers OOM."""
    redis = aim.up.redis()
    redis.config_set("maxmemory", "1")
    time.sleep(fault.seconds)
    redis.config_set("maxmemory", "0")


def fail_over(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill the primary until the sentinels have named another one, and for a while more; then it is back."""
    name = aim.up.broker.primary()
    process = aim.up.processes[name]
    hit.pids = aim.family(name)
    with process.down():
        send(hit.pids, signal.SIGKILL)
        gone(process)
        until = time.monotonic() + TAKEN_OVER_WITHIN_S
        while not aim.up.broker.is_taken_over(name):
            if time.monotonic() > until:
                raise Missed("the sentinels named no other primary")
            time.sleep(0.05)
        time.sleep(fault.seconds)


def kill_sentinel(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill a sentinel; it is started again with what it had written down."""
    hit.pids = aim.family(_sentinel(fault))
    send(hit.pids, signal.SIGKILL)


def hang_sentinel(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Freeze a sentinel: it takes connections and does not answer."""
    hit.pids = aim.family(_sentinel(fault))
    freeze(hit.pids, fault.seconds)


def _sentinel(fault: Fault) -> str:
    return f"sentinel-{fault.options['sentinel'] + 1}"
