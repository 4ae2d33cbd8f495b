"""Whether a worker process takes messages off its queues: one that drains takes none."""

from __future__ import annotations

import threading

# No queue has this name (domain/queue_names.py), and nobody sends to it.
_EMPTY = "!closed"


class Intake:
    """The intake of a worker process; closed and opened by one thread, asked by another."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()

    @property
    def is_open(self) -> bool:
        """Whether the process takes messages."""
        return self._is_open.is_set()

    def close(self) -> None:
        """Take no further messages. What the broker is handing out at this moment still comes."""
        self._is_open.clear()

    def open(self) -> None:
        """Take messages again, within a second."""
        self._is_open.set()


INTAKE = Intake()
"""The intake of this process, which is one worker."""


class NoQueue:
    """Stands for the queues while the intake is closed.

    The broker is asked nevertheless, for a list that is always empty: its answer each second shows that the
    connection lives, and lets the worker look again.
    """

    def consume(self, _: int) -> list[str]:
        """The queues to ask for."""
        return [_EMPTY]
