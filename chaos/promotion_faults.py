"""The primary of PostgreSQL dies, and its standby takes over."""

from __future__ import annotations

import signal
import time

from chaos.aim import PATIENCE_S, Aim, Hit, Missed, gone, send
from chaos.plan import Fault
from chaos.waiting import waited


def promote_standby(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill the primary with all its sessions, and promote the standby after a while.

    Raises:
        Missed: there is no standby, or it has not all that was accepted.
    """
    databases = aim.up.databases
    if not waited(databases.is_in_sync, PATIENCE_S):
        raise Missed("the standby is not in sync")
    with databases.promoting() as primary:
        hit.pids = primary.family()[:1]
        send(hit.pids, signal.SIGKILL)
        gone(primary)
        time.sleep(fault.seconds)
    hit.more = {"promotions": 1}
