"""Reads all metrics of a deployment, part by part.

A part that fails or takes too long is left out, and the metrics say so. The others still tell what is wrong,
and say 0 where there is nothing to count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipeweave.errors import Busy, SchemaOutdated, Unavailable
from pipeweave.orchestrator.metrics import ended_work, machine, open_waits, open_work, queues, zeros
from pipeweave.orchestrator.metrics.catalogue import DATABASE_UP, PART_UP, READ_SECONDS
from pipeweave.orchestrator.metrics.samples import Samples
from pipeweave.orchestrator.store.database import Database, Transaction

log = logging.getLogger(__name__)

# A part that would begin later (s) is left out: whoever scrapes does not wait for ever.
BUDGET_S = 8.0

PARTS: tuple[tuple[str, Callable[[Transaction], Samples]], ...] = (
    ("tenants", machine.tenants),
    ("tick", machine.tick),
    ("queues", queues.read),
    ("task_runs", open_work.task_runs),
    ("runs", open_work.runs),
    ("dead_letters", open_work.dead_letters),
    ("ended_work", ended_work.read),
    ("enqueued", open_work.enqueued),
    ("waits", open_waits.read),
    ("schedules", machine.schedules),
    ("services", machine.services),
    ("connections", machine.connections),
)
"""The parts of the metrics by name, each with its function."""


def read(database: Database) -> Samples:
    """All metrics of the deployment now; if PostgreSQL cannot be used, only that."""
    began = time.monotonic()
    made = Samples()
    names: list[str] = []
    try:
        for name, part in PARTS:
            if time.monotonic() - began > BUDGET_S:
                made.add(PART_UP, 0, name)
            elif _read_part(database, name, part, made):
                names.append(name)
    except Unavailable as error:
        log.warning("metrics.unavailable", extra={"reason": error.detail})
        made = Samples()
        made.add(DATABASE_UP, 0)
        return made
    zeros.fill(made, names)
    made.add(DATABASE_UP, 1)
    made.add(READ_SECONDS, time.monotonic() - began)
    return made


def _read_part(database: Database, name: str, part: Callable[[Transaction], Samples], made: Samples) -> bool:
    is_up = True
    try:
        with database.reading() as tx:
            samples = part(tx)
        made.merge(samples)
    except Unavailable as error:
        # A slow statement, or a newer part of the schema, says nothing about the other parts.
        if not isinstance(error, Busy | SchemaOutdated):
            raise
        log.warning("metrics.part_failed", extra={"part": name, "reason": error.detail})
        is_up = False
    except Exception as error:
        log.warning("metrics.part_failed", extra={"part": name}, exc_info=error)
        is_up = False
    made.add(PART_UP, float(is_up), name)
    return is_up
