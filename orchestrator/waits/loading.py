"""Looks at waits with what they need of storage, which is loaded and stored between two transactions.

While storage is away, a wait stays, and is due again after ASK_AGAIN_AFTER. Several waits share each of their
transactions, and what they need is got beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypeVar

from pipeweave.orchestrator.state import waits
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits import looking
from pipeweave.orchestrator.waits.held import FETCHED_TOGETHER, NOTHING_HELD, Away, Held, Need
from pipeweave.orchestrator.waits.looking import Key, Looked, Starting

# A look, or a start, that goes on after each value that it got from storage.
MOST_VALUES = 5
# After this long storage that did not answer is asked again.
ASK_AGAIN_AFTER = timedelta(seconds=5)

# What lacks something: a wait that is looked at, or one whose child starts.
Lacking = TypeVar("Lacking", Key, Starting)


def look(database: Database, values: Values, keys: Sequence[Key]) -> int:
    """Look at waits, and end those that are over. Returns how many it ended.

    Raises:
        Unavailable: PostgreSQL did not answer. What had ended stays so.
    """
    looked = database.run(lambda tx: looking.look_at(tx, keys))
    ended, starting = looked.ended, looked.starting
    for lacking in _together(looked.lacking):
        again = _look_with(database, values, lacking)
        ended += again.ended
        starting += again.starting
    return ended + sum(_start_with(database, values, some) for some in looking.of_one_step(starting))


def _together(lacking: Sequence[tuple[Lacking, Need]]) -> Iterator[Sequence[tuple[Lacking, Need]]]:
    for first in range(0, len(lacking), FETCHED_TOGETHER):
        yield lacking[first : first + FETCHED_TOGETHER]


def _look_with(database: Database, values: Values, lacking: Sequence[tuple[Key, Need]]) -> Looked:
    """Look again at waits with what they lack of storage, and again if they lack more then."""
    done, held = Looked(), NOTHING_HELD
    for _ in range(MOST_VALUES):
        held, keys = _fetch(database, values, held, lacking)
        if not keys:
            break
        looked = database.run(lambda tx, keys=keys, held=held: looking.look_at(tx, keys, held))  # type: ignore[misc]
        done.ended += looked.ended
        done.starting += looked.starting
        lacking = looked.lacking
    return done


def _start_with(database: Database, values: Values, waiting: Sequence[Starting]) -> int:
    """Start children of one step. Returns how many waits ended by it: some cannot start."""
    lacking, ended = looking.start_together(database, waiting)
    return ended + sum(_start_holding(database, values, some) for some in _together(lacking))


def _start_holding(database: Database, values: Values, lacking: Sequence[tuple[Starting, Need]]) -> int:
    """As `_start_with`, with what the children need of storage."""
    held, ended = NOTHING_HELD, 0
    for _ in range(MOST_VALUES):
        held, ready = _fetch(database, values, held, lacking)
        if not ready:
            break
        lacking, over = looking.start_together(database, ready, held)
        ended += over
    return ended


def _fetch(
    database: Database, values: Values, held: Held, lacking: Sequence[tuple[Lacking, Need]]
) -> tuple[Held, list[Lacking]]:
    """Get what waits lack. Returns what is held now, and those that have all they lacked; the others are due
    again in a while.
    """
    if not lacking:
        return held, []
    held, errors = held.with_needs(values, [need for _, need in lacking])
    ready: list[Lacking] = []
    for (each, _), error in zip(lacking, errors, strict=True):
        if error is None:
            ready.append(each)
        else:
            _ask_later(database, _key(each), error)
    return held, ready


def _key(lacking: Key | Starting) -> Key:
    return lacking if isinstance(lacking, tuple) else (lacking.wait.run_id, lacking.wait.task_run_id)


def _ask_later(database: Database, key: Key, error: Away) -> None:
    looking.log_delay(key, error)
    database.run(lambda tx: waits.ask_storage_later(tx, key, tx.now + ASK_AGAIN_AFTER))
