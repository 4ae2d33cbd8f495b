"""Begins a tick in one statement: it asks which chores have anything to do, and takes the lease of the tick.

In a healthy deployment no chore has anything to do, and the tick is over. It takes no lease and writes
nothing then, unless the last tick that was noted is old: to commit a write costs more than to ask. What
can only be due while runs are open is asked only while some are: by a second statement when the first one
finds that they are open, and by the first one from then on, as long as they are. A condition of a chore is
cheap and misses nothing; the chore itself looks for what exactly it has to do.
"""

from __future__ import annotations

import functools
import itertools
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.recovery.chores import Chore
from pipeweave.orchestrator.recovery.lost_messages import LATE
from pipeweave.orchestrator.runs import deadlines
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import check_database
from pipeweave.orchestrator.store.leases import Lease

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look found.

    Args:
        lease: of the tick; None while another process ticks, and when the tick is over.
        mode: the maintenance mode.
        idle: the names of chores that have nothing to do.
        is_over: no chore has anything to do, and that there was a tick is noted, now or a moment ago.
    """

    lease: Lease | None
    mode: str
    idle: frozenset[str] = frozenset()
    is_over: bool = False


@dataclass(slots=True)
class LastLook:
    """What this process found at its last look into a database.

    Args:
        opened: SQL of the gates that were open.
    """

    opened: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """What a tick asks.

    Args:
        chores: those that do not rest.
        run_limit: the time limit of runs whose pipeline names none; None for no limit.
        lasts: how long the lease lasts.
        may_be_over: the look tells all there is to know: no chore has to look itself, and none was begun that
            goes on.
    """

    chores: tuple[Chore, ...]
    run_limit: timedelta | None
    lasts: timedelta
    may_be_over: bool


@dataclass(frozen=True, slots=True)
class LookText:
    """The statement of a look. Most ticks ask what the last one asked: it is kept.

    Args:
        conditions: SQL by the name of a chore: whether it has anything to do. Those of chores behind gates
            that were closed are left out.
        gates: SQL of what is asked once for several chores.
        names: of all chores.
    """

    text: str
    conditions: Mapping[str, str]
    gates: tuple[str, ...]
    names: list[str]

    def read(self, row: Any) -> tuple[frozenset[str], frozenset[str]]:
        """The chores that have something to do, and the gates that are open."""
        count = len(self.conditions)
        has_work, is_open = row.found[:count], row.found[count:]
        return (
            frozenset(itertools.compress(self.conditions, has_work)),
            frozenset(itertools.compress(self.gates, is_open)),
        )


def begin(database: Database, question: Question) -> Look:
    """Take the lease and ask which chores have nothing to do. If that fails, each of them has to look for
    itself.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    holder, began, last = leases.this_thread(), time.monotonic(), database.caches.own(LastLook)
    opened = last.opened
    try:
        # Neither a locked table nor the lock of a holder that vanished keeps the answer back for long.
        with database.impatient().statements() as tx:
            asked = compose(question.chores, opened)
            row = _begin(tx, question, asked, holder)
            is_mine = row.number is not None and not row.is_over
            due, last.opened = asked.read(row)
            idle = _idle(tx, question, asked, due, last.opened) if is_mine else frozenset()
    except Exception as error:
        check_database(database, error)
        log.warning("tick.look_failed", exc_info=error)
    else:
        lease = Lease(leases.TICK, row.number, holder, question.lasts, began) if is_mine else None
        is_over = row.is_over and (row.is_noted or row.number is not None)
        return Look(lease, row.mode, idle, is_over=is_over)
    lease = leases.take(database, leases.TICK, question.lasts, holder)
    with database.impatient().statements() as tx:
        return Look(lease, deployment_mode.mode(tx))


# A chore that failed, skipped something or took a while at the tick before is noted anew.
_IS_OVER = f"""CAST(:may_be_over AS boolean) AND l.mode = '{deployment_mode.RUNNING}'
        AND ({{any_due}}) IS NOT TRUE
        AND NOT EXISTS (SELECT 1 FROM tick_chores AS c WHERE c.name = ANY(CAST(:chores AS text[]))
            AND (c.failures > 0 OR c.skipped > 0 OR c.took_ms > 0))"""

# A tick that is over gives the lease back at once, and takes none while it has nothing to note.
_TAKE = leases.taking(
    "clock_timestamp() + CASE WHEN j.is_over THEN interval '0' ELSE CAST(:lasts AS interval) END",
    "FROM judged AS j WHERE NOT (j.is_over AND j.is_noted)",
)

_BEGIN = f"""
WITH looked AS MATERIALIZED (
    SELECT {deployment_mode.MODE} AS mode{{columns}}
), judged AS MATERIALIZED (
    SELECT l.mode, CAST(ARRAY[{{found}}] AS boolean[]) AS found, {_IS_OVER} AS is_over,
        {tick_status.IS_NOTED} AND NOT {leases.IS_ELSEWHERE} AS is_noted
    FROM looked AS l
), taken AS ({_TAKE}),
{tick_status.noting_the_time("(SELECT 1 FROM taken, judged AS j WHERE j.is_over) AS ended")}
SELECT j.*, (SELECT t.number FROM taken AS t) AS number FROM judged AS j
"""


@functools.lru_cache(maxsize=64)
def compose(chores: tuple[Chore, ...], opened: frozenset[str]) -> LookText:
    """What to ask of these chores.

    Args:
        opened: SQL of the gates that were open at the last look.
    """
    gates = tuple(dict.fromkeys(each.only_while for each in chores if each.only_while))
    conditions = _conditions(chores, {None, *opened})
    columns = {f"gate_{number}": sql for number, sql in enumerate(gates)}
    closed = [name for name, sql in columns.items() if sql not in opened]
    any_due = " OR ".join(f"l.{name}" for name in (*conditions, *closed))
    text = _BEGIN.format(
        columns=_columns(conditions | columns),
        found=", ".join(f"l.{name}" for name in (*conditions, *columns)),
        any_due=any_due or "false",
    )
    return LookText(text, conditions, gates, [each.name for each in chores])


def _conditions(chores: Iterable[Chore], gates: Collection[str | None]) -> dict[str, str]:
    """SQL by the name of a chore behind one of these gates (None: behind no gate)."""
    return {each.name: each.is_due for each in chores if each.only_while in gates and each.is_due is not None}


def _begin(tx: Transaction, question: Question, asked: LookText, holder: str) -> Any:
    parameters = {
        **_parameters(tx, question),
        "may_be_over": question.may_be_over,
        "chores": asked.names,
        "name": leases.TICK,
        "holder": holder,
        "lasts": question.lasts,
    }
    return tx.execute(asked.text, parameters).one()


def _idle(
    tx: Transaction, question: Question, asked: LookText, due: frozenset[str], opened: frozenset[str]
) -> frozenset[str]:
    """The names of the chores that have nothing to do.

    Args:
        due: those that were asked and have something to do.
        opened: SQL of the gates that are open now.
    """
    closed = _conditions(question.chores, set(asked.gates) - opened)
    more = {
        name: sql
        for name, sql in _conditions(question.chores, opened).items()
        if name not in asked.conditions
    }
    idle = (asked.conditions.keys() - due) | closed.keys()
    if more:
        second = _look(tx, question, more)
        idle |= {name for name in more if not getattr(second, name)}
    return frozenset(idle)


def _look(tx: Transaction, question: Question, conditions: Mapping[str, str]) -> Any:
    return tx.execute(f"SELECT true AS looked{_columns(conditions)}", _parameters(tx, question)).one()


def _columns(conditions: Mapping[str, str]) -> str:
    return "".join(f",\n{condition} AS {name}" for name, condition in conditions.items())


def _parameters(tx: Transaction, question: Question) -> dict[str, Any]:
    return {"late": tx.now - LATE, **deadlines.parameters(tx.now, question.run_limit)}
