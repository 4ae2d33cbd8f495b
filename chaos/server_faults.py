"""Faults of PostgreSQL, and of the messages in the broker."""

from __future__ import annotations

import signal
import time

from chaos import messages
from chaos.aim import Aim, Hit, gone, send
from chaos.plan import Fault


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
