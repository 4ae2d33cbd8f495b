"""Finds what a task has left behind in its process that would make the calls after it fail, or their results
wrong.

A task may do to its process what it likes. Looked at is what is known to have happened and to end badly: a
JSON library with other functions, lower limits of the process, descriptors that are never closed. The latter
need system calls: after a series of short calls they are looked at once.
"""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress

import orjson

# The system is asked at most this often (s).
ASK_EVERY_S = 0.01

_LIMITS = {
    resource.RLIMIT_AS: "the limit of memory",
    resource.RLIMIT_DATA: "the limit of data",
    resource.RLIMIT_FSIZE: "the limit of files' sizes",
    resource.RLIMIT_NOFILE: "the limit of descriptors",
}


class Belongings:
    """What belongs to a process, and no task may change; made before the first call.

    Args:
        ask_every_s: how often the system is asked at most (s).
    """

    def __init__(self, ask_every_s: float = ASK_EVERY_S) -> None:
        self._ask_every_s = ask_every_s
        self._asked_at = 0.0
        self._dumps, self._loads = orjson.dumps, orjson.loads
        self._limits = {each: resource.getrlimit(each) for each in _LIMITS}

    def put_right(self) -> str | None:
        """Put right what a call has changed, as far as that goes.

        Returns:
            What it was; None if nothing was changed.
        """
        if orjson.dumps is not self._dumps or orjson.loads is not self._loads:
            orjson.dumps, orjson.loads = self._dumps, self._loads
            return "functions of orjson were replaced"
        if (now := time.monotonic()) - self._asked_at < self._ask_every_s:
            return None
        self._asked_at = now
        return self._changed_limit() or self._leaked()

    def _changed_limit(self) -> str | None:
        for each, before in self._limits.items():
            now = resource.getrlimit(each)
            if now != before and (_is_lower(now[0], before[0]) or _is_lower(now[1], before[1])):
                hard = now[1]
                # Only root raises a hard limit again.
                with suppress(ValueError, OSError):
                    resource.setrlimit(each, (before[0] if hard == before[1] else hard, hard))
                return f"{_LIMITS[each]} was lowered"
        return None

    def _leaked(self) -> str | None:
        """Descriptors are used from the lowest: the next one tells about how many are open."""
        try:
            lowest_free = os.dup(0)
        except OSError:
            return "there are no descriptors left"
        os.close(lowest_free)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most != resource.RLIM_INFINITY and lowest_free > most // 2:
            return f"about {lowest_free} descriptors are open"
        return None


def _is_lower(limit: int, before: int) -> bool:
    if limit == resource.RLIM_INFINITY:
        return False
    return before == resource.RLIM_INFINITY or limit < before
