"""Faults of others: a store or a hook that nobody answers, clients that send nothing, rows that nobody can
read, months that are dropped.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from uuid import uuid4

import psycopg2

from chaos.aim import PATIENCE_S, Aim, Hit, Missed
from chaos.bystanders import watched
from chaos.plan import Fault
from chaos.stack import TENANT
from chaos.waiting import waited
from pipeweave.orchestrator.domain import Month
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store import Database
from pipeweave.orchestrator.store.lock_timeout import LockNotAvailable
from pipeweave.settings import environment
from pipeweave.up.ports import LOOPBACK

# What PostgreSQL takes as `json` and no reader of JSON does.
ODD_INPUTS = (
    '{"x": 1e400}',
    '{"x": "\\ud800"}',
    '{"x": ' + "9" * 5_000 + "}",
    "[" * 2_000 + "]" * 2_000,
)
_ODD_ROW = "INSERT INTO enqueued_runs (pipeline_id, input) VALUES ('enqueued', %s) RETURNING id"
# How many clients announce a body at a time, and how they do.
BODIES = 40
_HEAD = (
    "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n"
)
# A month so far back that nothing of the trial is in it.
FIRST_YEAR, YEARS = 1990, 30


def hang_hooks(aim: Aim, fault: Fault, hit: Hit) -> None:
    """The URL of hooks takes calls and never answers, or drips a byte now and then."""
    with watched(aim, hit), aim.up.listener.misbehaving(fault.options["way"]):
        time.sleep(fault.seconds)
    hit.more = {"calls": aim.up.listener.unanswered, **hit.more}


def hang_storage(aim: Aim, fault: Fault, hit: Hit) -> None:
    """The store takes connections and answers nothing, drips its answers, or refuses connections."""
    proxy, way = aim.up.store.proxy, fault.options["way"]
    with watched(aim, hit), ExitStack() as faulty:
        if way == "hang":
            proxy.cut()
            faulty.callback(proxy.mend, delivers=True)
        else:
            faulty.enter_context(proxy.dripping() if way == "drip" else proxy.refusing())
        time.sleep(fault.seconds)


def announce_bodies(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Announce bodies to endpoints that need no token, and send none of them."""
    targets = (f"/api/webhooks/{TENANT}/none", f"/api/task-runs/{uuid4()}/complete", "/api/heartbeat")
    with watched(aim, hit), ExitStack() as opened:
        for number in range(BODIES):
            client = socket.create_connection((LOOPBACK, aim.up.port), timeout=5)
            opened.callback(client.close)
            client.sendall(_HEAD.format(targets[number % len(targets)]).encode())
        time.sleep(fault.seconds)


def write_odd_rows(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Enqueue runs with inputs that nobody can read, as a program in another language may."""
    connection = psycopg2.connect(aim.up.database.url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            ids = []
            for each in ODD_INPUTS:
                cursor.execute(_ODD_ROW, (each,))
                ids += [row[0] for row in cursor.fetchall()]
    finally:
        connection.close()
    aim.up.odd_rows += ids
    hit.more = {"rows": len(ids)}


def drop_month(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Make an old month, and let the product's own command drop it."""
    number = int(fault.chance * YEARS * 12)
    if not waited(lambda: _made(aim, Month(FIRST_YEAR + number // 12, 1 + number % 12)), PATIENCE_S):
        raise Missed("the tables were always in use")
    command = [sys.executable, "-m", "pipeweave.cli", "db", "cleanup", "--older-than", "365d", "--no-archive"]
    done = subprocess.run(
        command,
        env={**environment(), "DATABASE_URL": aim.up.database.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    hit.more = {"months": int(done.returncode == 0)}


def _made(aim: Aim, month: Month) -> bool:
    try:
        partitions.ensure_month(Database(aim.up.database.url, pool_size=0), month)
    except LockNotAvailable:
        return False
    return True
