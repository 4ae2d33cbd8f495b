"""What a process does when PostgreSQL did not answer: it may hold task runs without knowing of them.

A statement whose answer is lost may have been durable all the same. What it claimed would then run nowhere,
in the name of a process that is alive. So after every such moment the process gives back, as soon as
PostgreSQL answers, whatever is running in its name and was not begun.
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
from pipeweave.orchestrator.store.database import Database
from pipeweave.workers.consumer.child_slots import Slot

log = logging.getLogger(__name__)

# Between tries while PostgreSQL is away (s): five minutes in all.
_PAUSES = (0.1, 0.2, 0.5, 1, *[2.0] * 150)

# What becomes of a call whose result could not be stored: it may have done its work.
UNSTORED = failure.lost("its result could not be stored")

R = TypeVar("R")


def when_it_answers(step: Callable[[], R], what: str, on_doubt: Callable[[], None] = lambda: None) -> R:
    """Do a step, however long PostgreSQL is away.

    Args:
        what: the step's name in the log.
        on_doubt: called each time it did not answer.

    Raises:
        Unavailable: it was away for five minutes.
    """
    for pause in _PAUSES:
        try:
            return step()
        except Unavailable as error:
            log.warning(f"{what}.delayed", extra={"reason": error.detail})
            on_doubt()
            time.sleep(pause)
    return step()


def let_go(database: Database, worker: str, slot: Slot, *, sends_again: bool = True) -> None:
    """Give back all that is running in this process's name and was not begun, and send again what its message
    named. What was begun and could not be stored is lost. Nothing is called meanwhile.

    Args:
        sends_again: False leaves what the message named to the tick.

    Raises:
        Unavailable: PostgreSQL was away for five minutes; then silence tells of what is left.
    """
    doing = replace(slot.activity(""), worker=worker)
    if not sends_again:
        doing = replace(doing, run_id=None)
    # A lost attempt is tried again at once, so no retry is delayed.
    when_it_answers(lambda: losses.of_child(database, doing, UNSTORED, max_retry_delay_ms=None), "let_go")
