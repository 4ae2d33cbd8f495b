"""Measure plain Celery, as users write it (the client reads every result) and tuned (a last step notifies
it).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any

import redis
from celery import Celery
from celery.result import AsyncResult

from benchmarks.http_sender import HttpSender
from benchmarks.plain.apps import make_app
from benchmarks.plain.canvases import Canvases
from benchmarks.plain.quiet import SCHEME
from benchmarks.systems import DEADLINE_S, BenchmarkFailed


class Plain(ABC):
    """The common part of both systems.

    Args:
        app: the Celery app of the client.
        sender: sends requests to the HTTP front.
        processes: its own process ids by name.
    """

    name = "celery"
    is_tuned = False

    def __init__(self, app: Celery, sender: HttpSender, processes: Mapping[str, int]) -> None:
        self.app = app
        self.processes = processes
        self._sender = sender
        self._canvases = Canvases(app, is_tuned=self.is_tuned)

    @abstractmethod
    def wait(self, result_ids: Sequence[str], key: str) -> None:
        """Return when these canvases are done."""

    def chain(self, length: int) -> None:
        self._run(lambda key: self._canvases.chain(length, key))

    def fan(self, width: int) -> None:
        self._run(lambda key: self._canvases.fan(width, key))

    def mapped(self, count: int) -> None:
        self._run(lambda key: self._canvases.mapped(count, key))

    def diamonds(self, count: int, clients: int) -> None:
        key = _new_key()
        answers = self._sender.send_all("/trigger/diamond", [{"key": key}] * count, clients)
        self.wait([each["id"] for each in answers], key)

    def singles(self, count: int) -> list[tuple[float, float]]:
        seen = []
        with self._sender.connect() as connection:
            for _ in range(count):
                key = _new_key()
                began = time.perf_counter()
                answer = self._sender.send(connection, "POST", "/trigger/single", {"key": key})
                answered = time.perf_counter() - began
                self.wait([answer["id"]], key)
                seen.append((answered, time.perf_counter() - began))
        return seen

    def verify(self) -> None:
        """Celery keeps no rows to count, but its queue must be empty."""
        client: Any = self.app.backend.client  # type: ignore[attr-defined]
        if left := client.llen("celery"):
            raise BenchmarkFailed(f"{self.name}: {left} messages are left in the queue")

    def close(self) -> None:
        """Close the client's connections."""
        self.app.close()

    def _run(self, canvas: Callable[[str], Any]) -> None:
        key = _new_key()
        self.wait([self.start(canvas(key))], key)

    def start(self, canvas: Any) -> str:
        """Send a canvas; the id of its last result."""
        return str(canvas.apply_async().id)


class Written(Plain):
    """Chain, chord, results stored, `.get()`."""

    def __init__(self, url: str, sender: HttpSender, processes: Mapping[str, int]) -> None:
        super().__init__(make_app("written", url, url), sender, processes)
        self._started: dict[str, Any] = {}

    def start(self, canvas: Any) -> str:
        result = canvas.apply_async()
        # Hold the result until it is waited for: a garbage-collected result unsubscribes.
        self._started[result.id] = result
        return str(result.id)

    def wait(self, result_ids: Sequence[str], key: str) -> None:
        for each in result_ids:
            result = self._started.pop(each, None) or AsyncResult(each, app=self.app)
            result.get(timeout=DEADLINE_S)

    def close(self) -> None:
        # Results unsubscribe when they are collected, maybe after Valkey is gone, and would try that anew
        # for 20 s.
        backend: Any = self.app.backend
        backend.result_consumer.subscribed_to.clear()
        super().close()


class Tuned(Plain):
    """Late acknowledgement, prefetch 1, nobody subscribed to results."""

    name = "celery_tuned"
    is_tuned = True

    def __init__(self, url: str, sender: HttpSender, processes: Mapping[str, int]) -> None:
        super().__init__(make_app("tuned", url, f"{SCHEME}+{url}"), sender, processes)
        self._told = redis.Redis.from_url(url, socket_timeout=DEADLINE_S + 10)

    def wait(self, result_ids: Sequence[str], key: str) -> None:
        for _ in result_ids:
            if self._told.blpop([key], timeout=DEADLINE_S) is None:
                raise BenchmarkFailed(f"{self.name}: not done after {DEADLINE_S:g} s")

    def close(self) -> None:
        self._told.close()
        super().close()


def _new_key() -> str:
    return f"done:{token_hex(8)}"
