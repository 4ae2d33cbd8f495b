"""Faults of the servers and of what is in them."""

from __future__ import annotations

import shutil
import signal
import time

from chaos import messages
from chaos.aim import Aim, Hit, freeze, gone, send
from chaos.plan import Fault


def wipe_broker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill the broker and delete its data."""
    hit.pids = aim.family("valkey")
    process = aim.up.processes["valkey"]
    with process.down():
        send(hit.pids, signal.SIGKILL)
        gone(process)
        shutil.rmtree(aim.up.broker.folder)
        aim.up.broker.prepare()
        time.sleep(fault.seconds)


def hang_broker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Freeze the broker: it accepts connections and does not answer."""
    hit.pids = aim.family("valkey")
    freeze(hit.pids, fault.seconds)


def make_broker_read_only(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Make the broker a replica, as a failover does with the old primary, and then a primary again."""
    redis = aim.up.redis()
    redis.replicaof("127.0.0.1", "1")
    time.sleep(fault.seconds)
    redis.replicaof("NO", "ONE")


def fill_broker(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Let the broker store nothing more: it answers OOM."""
    redis = aim.up.redis()
    redis.config_set("maxmemory", "1")
    time.sleep(fault.seconds)
    redis.config_set("maxmemory", "0")


def kill_postgres(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill the server with all its sessions."""
    hit.pids = aim.family(aim.up.databases.process.name)[:1]
    send(hit.pids, signal.SIGKILL)


def restart_postgres(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Restart the server as `pg_ctl restart -m immediate` does: sessions are cut, nothing is flushed."""
    hit.pids = aim.family(aim.up.databases.process.name)[:1]
    send(hit.pids, signal.SIGQUIT)


def take_postgres_away(aim: Aim, fault: Fault, hit: Hit) -> None:
    process = aim.up.databases.process
    hit.pids = aim.family(process.name)[:1]
    with process.down():
        send(hit.pids, signal.SIGQUIT)
        gone(process)
        time.sleep(fault.seconds)


def double_messages(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.more = messages.double(aim.up, fault.seconds)


def delay_messages(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.more = messages.delay(aim.up, fault.seconds, fault.options["by"])


def lose_messages(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.more = messages.lose(aim.up, fault.seconds)


def replay_messages(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.more = messages.replay(aim.up, fault.seconds)


def add_junk(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.more = messages.add_junk(aim.up, fault.options["count"])


def forget_chords(aim: Aim, fault: Fault, hit: Hit) -> None:
    hit.more = messages.forget_chords(aim.up, fault.seconds)
