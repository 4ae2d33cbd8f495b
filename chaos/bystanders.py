"""Watch those whom a fault does not concern: who reads through the API, and what the tick does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2

from chaos.aim import PATIENCE_S, Aim, Hit, Missed
from chaos.waiting import waited

# Between two looks (s).
EVERY_S = 0.2
# A tick as recent as this (s) says that the faults before are over.
RECENT_S = 2.0
# The names of what is counted, in ms.
LONGEST_READ, LONGEST_WITHOUT_TICK = "ms for the longest read", "ms without a tick"
_SINCE_TICK = "SELECT extract(epoch FROM clock_timestamp() - last_tick_at) FROM orchestrator_state"


@contextmanager
def watched(aim: Aim, hit: Hit) -> Iterator[None]:
    """Note in the hit how long the longest read and the longest time without a tick of the block took.

    Raises:
        Missed: API or tick were not well before, so nothing could be told.
    """
    if not waited(lambda: _read(aim) is not None and _since_tick(aim) < RECENT_S, PATIENCE_S):
        raise Missed("API or tick were not well before")
    is_over = threading.Event()
    longest = {LONGEST_READ: 0.0, LONGEST_WITHOUT_TICK: 0.0}

    def watch() -> None:
        while not is_over.wait(EVERY_S):
            began = time.monotonic()
            _read(aim)
            longest[LONGEST_READ] = max(longest[LONGEST_READ], time.monotonic() - began)
            longest[LONGEST_WITHOUT_TICK] = max(longest[LONGEST_WITHOUT_TICK], _since_tick(aim))

    thread = threading.Thread(target=watch, name="bystanders", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        hit.more = {**hit.more, **{name: round(seconds * 1000) for name, seconds in longest.items()}}


def _read(aim: Aim) -> int | None:
    """Read a list by HTTP; None: it was not answered."""
    answer = aim.up.ask("GET", "/api/runs?limit=1")
    return answer.status if answer.status == 200 else None


def _since_tick(aim: Aim) -> float:
    try:
        return float(aim.up.rows(_SINCE_TICK)[0][0])
    except psycopg2.Error:
        return 0.0
