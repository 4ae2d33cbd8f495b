"""What a worker sent to the kit, in order, and how a check waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RequestKind(StrEnum):
    """What a request of a worker is."""

    REGISTRATION = "registration"
    DEPARTURE = "departure"
    HEARTBEAT = "heartbeat"
    REPORT = "report"
    URLS = "urls"
    READ = "read"
    WRITE = "write"
    STRAY = "stray"


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request of the worker.

    Args:
        kind: what it is.
        path: without the prefix of tenant and token.
        run_id: the run it speaks of; None for others.
        body: its JSON; None where there is none.
        headers: their names in lower case.
        has_credential: whether it carried the token of the kit, in its path or as a bearer token.
        at: when it was read (s, monotonic).
    """

    kind: RequestKind
    method: str
    path: str
    run_id: str | None
    body: Any
    headers: Mapping[str, str]
    has_credential: bool
    at: float


class Journal:
    """Everything that was received; safe for threads."""

    def __init__(self) -> None:
        self._all: list[ReceivedRequest] = []
        self._changed = threading.Condition()

    def record(self, received: ReceivedRequest) -> None:
        """Add a request, and wake up who waits for it."""
        with self._changed:
            self._all.append(received)
            self._changed.notify_all()

    def of(self, kind: RequestKind, run_id: str | None = None) -> list[ReceivedRequest]:
        """The requests of a kind, oldest first; those of one run if it is given."""
        with self._changed:
            return [each for each in self._all if _is(each, kind, run_id)]

    def wait(
        self,
        kind: RequestKind,
        run_id: str | None = None,
        *,
        seconds: float,
        count: int = 1,
        until: Callable[[], bool] = lambda: False,
    ) -> list[ReceivedRequest]:
        """Wait until so many requests of a kind have come; return those that came.

        Args:
            seconds: how long to wait at most.
            until: looked at several times per second; True ends the wait.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                requests = [each for each in self._all if _is(each, kind, run_id)]
                left = deadline - time.monotonic()
                if len(requests) >= count or left <= 0 or until():
                    return requests
                self._changed.wait(min(left, 0.1))


def _is(received: ReceivedRequest, kind: RequestKind, run_id: str | None) -> bool:
    return received.kind is kind and (run_id is None or received.run_id == run_id)
