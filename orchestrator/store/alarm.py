"""Sleeps until a table gets rows, over one session of PostgreSQL.

Who sleeps holds an advisory lock. A trigger of the table finds it held, and only then notifies: a transaction
that has notified commits after all others that have, which nobody must pay for while rows come all the time.
The lock is a hint and no right. Who sleeps still looks now and then, for what did not wake it up: a
transaction that wrote its row before the lock was taken, or a notification that was lost with its session.

Behind a pooler a session is not ours between two statements, and where transactions can be prepared one that
has notified cannot be: there is no alarm then, and what nobody notifies of has to be looked for.
"""

from __future__ import annotations

import select

import psycopg2

from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Transaction

# As migration 0092 has it.
_LISTEN = "LISTEN pipeweave_rows"
_UNLISTEN = "UNLISTEN pipeweave_rows"
_ASLEEP = f"{advisory_locks.ASLEEP}, CAST(CAST(:table AS regclass) AS integer)"

# Null where an alarm would be in the way of callers; false while another process sleeps, which an alarm wakes
# up as well.
_FALL_ASLEEP = f"""
SELECT CASE WHEN current_setting('max_prepared_transactions') = '0' THEN pg_try_advisory_lock({_ASLEEP}) END
"""
_GET_UP = f"SELECT pg_advisory_unlock({_ASLEEP})"


class Alarm:
    """Wakes up whoever waits for rows of a table. It can be set again and again; its block's end clears it.

    Args:
        tx: statements that each commit by themselves; nobody else uses its session meanwhile.
        table: with a trigger as that of migration 0092.

    Attributes:
        is_set: rows that are added wake up.
        is_of_use: whether it can be set.
    """

    def __init__(self, tx: Transaction, table: str) -> None:
        self._table = table
        self._tx = tx
        self._session = tx.connection
        self._is_holder = False
        self.is_set = False
        self.is_of_use = self._session.local is None

    def __enter__(self) -> Alarm:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def set(self) -> bool:
        """Set it, if it is of use. Returns whether it is set: what was added before then has to be looked
        for once more.

        Raises:
            psycopg2.Error: PostgreSQL cannot be reached.
        """
        if self.is_of_use:
            self._session.cursor().execute(_LISTEN)
            self.is_set = True
            answer = self._tx.execute(_FALL_ASLEEP, {"table": self._table}).scalar_one()
            self._is_holder = answer is True
            if answer is None:
                self.is_of_use = False
                self.clear()
        return self.is_set

    def wait(self, seconds: float) -> bool:
        """Wait until rows are added, at most so long (s). Returns whether some were, which clears the alarm.

        Raises:
            psycopg2.Error: the session is lost.
        """
        if not self._session.notifies:
            incoming = select.poll()
            incoming.register(self._session, select.POLLIN)
            incoming.poll(seconds * 1_000)
            self._session.poll()
        is_woken = bool(self._session.notifies)
        if is_woken:
            self.clear()
        return is_woken

    def clear(self) -> None:
        """Let nobody notify any more. Where that fails, the session ends, and its lock with it."""
        if self.is_set:
            try:
                if self._is_holder:
                    self._tx.execute(_GET_UP, {"table": self._table})
                self._session.cursor().execute(_UNLISTEN)
            except psycopg2.Error:
                self._session.close()
            self.is_set = self._is_holder = False
            self._session.notifies.clear()
