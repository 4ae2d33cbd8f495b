"""Reconciles a child process with PostgreSQL after PostgreSQL did not answer.

A statement whose answer is lost may be durable all the same. A task run that it claimed would then run
nowhere, in the name of a process that is alive. So after each lost answer the process waits until PostgreSQL
answers again, and gives back every task run that is claimed in its name and was not begun.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.engine import losses
from pipeweave.orchestrator.store import Database
from pipeweave.workers.consumer.child_slots import Slot

log = logging.getLogger(__name__)

# Pauses between tries while PostgreSQL is away (s): five minutes in all.
_PAUSES = (0.1, 0.2, 0.5, 1, *[2.0] * 150)

# The failure of a call whose result could not be stored: the function may have done its work.
UNSTORED = failure.lost("its result could not be stored")

R = TypeVar("R")


def when_it_answers(step: Callable[[], R], name: str, on_doubt: Callable[[], None] = lambda: None) -> R:
    """Do a step; repeat it while PostgreSQL is away.

    Args:
        name: the step's name in the log.
        on_doubt: called each time PostgreSQL did not answer: the step may be durable.

    Raises:
        Unavailable: it was away for five minutes.
    """
    for pause in _PAUSES:
        try:
            return step()
        except Unavailable as error:
            log.warning(f"{name}.delayed", extra={"reason": error.detail})
            on_doubt()
            time.sleep(pause)
    return step()


def give_back_claims(database: Database, worker: str, slot: Slot, *, sends_again: bool = True) -> None:
    """Give back all task runs that are claimed in this process's name and were not begun, send messages for
    the rest of its message, and end begun calls that could not be stored as lost. No function is called
    meanwhile.

    Args:
        sends_again: False leaves the rest of the message to the tick.

    Raises:
        Unavailable: PostgreSQL was away for five minutes; the tick will find the silent attempts.
    """
    activity = replace(slot.activity(""), worker=worker)
    if not sends_again:
        activity = replace(activity, run_id=None)
    # A lost attempt is tried again at once, so no retry is delayed.
    when_it_answers(
        lambda: losses.of_child(database, activity, UNSTORED, max_retry_delay_ms=None), "give_back_claims"
    )
