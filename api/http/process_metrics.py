"""Counts what one process of the API does: requests, streams, connections, failures to send messages."""

from __future__ import annotations

import os
import socket
import threading
import time
from bisect import bisect_left
from collections import Counter
from importlib.metadata import version

from flask import Flask, Response

from pipeweave.api.http.application import current_request
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.metrics import Histogram, Samples, catalogue
from pipeweave.orchestrator.stream import Hub

_BEGAN = "pipeweave.began"
NO_OPERATION = "none"
"""The operation of a request whose address nothing answers."""


class ProcessMetrics:
    """The counts of this process, from its start.

    Args:
        hub: serves the streams.
    """

    def __init__(self, deployment: Deployment, hub: Hub) -> None:
        self._deployment = deployment
        self._hub = hub
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._durations = [0] * (len(catalogue.REQUEST_SECONDS.bounds) + 1)
        self._seconds = 0.0

    def register(self, app: Flask) -> None:
        """Count the requests of an application."""
        app.before_request(self._begin)
        app.after_request(self._end)

    def _begin(self) -> None:
        current_request().environ[_BEGAN] = time.monotonic()

    def _end(self, response: Response) -> Response:
        request, now = current_request(), time.monotonic()
        seconds = now - request.environ.get(_BEGAN, now)
        self.count(request.endpoint or NO_OPERATION, response.status_code, seconds)
        return response

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            operation: its operation id.
            status: of its answer.
            seconds: how long it took.
        """
        place = bisect_left(catalogue.REQUEST_SECONDS.bounds, seconds)
        with self._lock:
            self._requests[operation, str(status)] += 1
            self._durations[place] += 1
            self._seconds += seconds

    def read(self) -> Samples:
        """The counts now."""
        # A child of the server has another id than its parent.
        me = f"{socket.gethostname()}:{os.getpid()}"
        made = Samples()
        with self._lock:
            requests, durations, seconds = dict(self._requests), list(self._durations), self._seconds
        for (operation, status), number in requests.items():
            made.add(catalogue.REQUESTS, number, me, operation, status)
        made.observe(catalogue.REQUEST_SECONDS, Histogram.of(durations, seconds), me)
        made.add(catalogue.STREAMS, self._hub.count, me)
        for pool, use in self._deployment.database.pools().items():
            made.add(catalogue.POOL_CONNECTIONS, use.in_use, me, pool, "in_use")
            made.add(catalogue.POOL_CONNECTIONS, use.idle, me, pool, "idle")
            made.add(catalogue.POOL_CONNECTIONS_MAX, use.most, me, pool)
        made.add(catalogue.PUBLISH_FAILURES, self._deployment.publisher.failures, me)
        made.add(catalogue.PROCESS_UPTIME, time.monotonic() - self._began, me)
        made.add(catalogue.BUILD, 1, me, version("pipeweave"))
        return made
