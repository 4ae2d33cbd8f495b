"""Does work in a thread of its own, so that who needs it waits no longer than they like.

The system's resolver, a client's library and a file system each have waits that nobody can cut. Work that is
late goes on by itself; whoever starts more of it bounds how much there is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class TooLate(Exception):
    """The work is not over in time; it goes on."""


class Beside(Generic[R]):
    """Work under way in a daemon thread; it begins at once.

    Args:
        work: what to do.
        name: of the thread.
    """

    def __init__(self, work: Callable[[], R], name: str) -> None:
        self._work = work
        self._result: R
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended yet; never so in a process that was forked meanwhile."""
        return self._thread.is_alive()

    def result(self, seconds: float) -> R:
        """What the work returned; wait so long (s) for it. It may be asked again after it was late.

        Raises:
            TooLate: it is not over.
            BaseException: what the work raised.
        """
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            raise TooLate
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
