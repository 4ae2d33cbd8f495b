"""Measure PipeWeave, triggered by HTTP.

PostgreSQL notifies the client of the end of a chain or a single step. The end of many runs is found by
polling their rows every 5 ms: one indexed SELECT on a separate connection.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg2

from benchmarks import shapes
from benchmarks.http_sender import HttpSender
from benchmarks.run_notifications import PREFIX, Listener
from benchmarks.systems import BenchmarkFailed
from pipeweave import ids

# Polling interval where the figure is a throughput (s).
POLL_S = 0.005
# Ten times as long as any run here takes.
LATE_S = 60.0
# Polling interval for runs whose end is not measured (s).
DRAIN_S = 0.05

_POLL = """
SELECT count(*) FILTER (WHERE status = 'completed'), min(status) FILTER (WHERE finished_at IS NOT NULL
       AND status <> 'completed') FROM runs WHERE id = ANY(%s::uuid[])
"""

# Counts only the runs of the benchmarks; inserted history is older.
_COUNT = """
SELECT count(*), count(*) FILTER (WHERE status <> 'completed' OR attempt <> 1) FROM task_runs
WHERE run_id >= %s::uuid
"""


class PipeWeaveSystem:
    """The running PipeWeave.

    Args:
        sender: sends requests to its API.
        database_url: the database with its runs.
        processes: its process ids by name.
    """

    name = "ours"

    def __init__(self, sender: HttpSender, database_url: str, processes: Mapping[str, int]) -> None:
        self.processes = processes
        self._sender = sender
        self._polling = psycopg2.connect(database_url)
        self._polling.autocommit = True
        self._listener = Listener(database_url)
        self._stored: set[str] = set()
        self._expected = 0
        self._first_id = str(ids.first_id_at(time.time_ns() // 1_000_000))

    def close(self) -> None:
        """Close the connections that poll and listen."""
        self._polling.close()
        self._listener.close()

    def chain(self, length: int) -> None:
        self._expected += length
        self._run_notified(f"chain-{length}", shapes.chain(length))

    def chain_with_conditions(self, length: int) -> None:
        """Run a chain whose steps have conditions that hold, and parameters by expression."""
        self._expected += length
        self._run_notified(f"conditions-{length}", shapes.chain_with_conditions(length))

    def fan(self, width: int) -> None:
        self._expected += width + 2
        self._run(f"fan-{width}", shapes.fan(width))

    def mapped(self, count: int) -> None:
        self.wide(count)

    def worked(self, length: int) -> None:
        """Run a chain of steps that take 10 ms each."""
        self._expected += length
        self._run_notified(f"work-{length}", shapes.chain(length, "work"))

    def register(self, document: Mapping[str, Any]) -> None:
        """Register an HTTP service."""
        with self._sender.connect() as connection:
            self._sender.send(connection, "POST", "/api/services", document)

    def dispatched(self, name: str, document: shapes.Document) -> None:
        """Run a pipeline of HTTP tasks."""
        self._expected += len(document["steps"])
        self._run_notified(name, document)

    @property
    def url(self) -> str:
        """Of the API."""
        return self._sender.url

    @property
    def credentials(self) -> dict[str, str]:
        """The header that opens the API and the dashboard."""
        return {"Authorization": self._sender.headers["Authorization"]}

    def started(self, name: str, document: shapes.Document, steps: int) -> str:
        """Start a run of so many steps, and return its id at once."""
        self._expected += steps
        with self._sender.connect() as connection:
            answer = self._sender.send(connection, "POST", self._path(name, document), {})
        return str(answer["pipelineRunId"])

    def ended(self, run_id: str) -> None:
        """Wait for the end of a run that was started."""
        self._wait([{"pipelineRunId": run_id}], DRAIN_S)

    def triggered(self, count: int, clients: int) -> float:
        """Start runs of one step from `clients` threads; return the seconds until the last was accepted."""
        self._expected += count
        path = self._path("single", shapes.chain(1))
        began = time.perf_counter()
        answers = self._sender.send_all(path, [{}] * count, clients)
        took = time.perf_counter() - began
        self._wait(answers, DRAIN_S)
        return took

    def triggered_batch(self, count: int) -> float:
        """Start runs of one step with one request; return the seconds until all were accepted."""
        self._expected += count
        path = self._path("single", shapes.chain(1)) + "/batch"
        with self._sender.connect() as connection:
            began = time.perf_counter()
            answer = self._sender.send(connection, "POST", path, {"runs": [{}] * count})
            took = time.perf_counter() - began
        self._wait(answer["runs"], DRAIN_S)
        return took

    def slept(self, document: shapes.Document, until: str, count: int, batch: int) -> None:
        """Store so many runs that sleep until then, `batch` with each request; they are not awaited."""
        self._expected += count
        path = self._path("sleepers", document) + "/batch"
        with self._sender.connect() as connection:
            for start in range(0, count, batch):
                runs = [{"input": {"at": until}}] * min(batch, count - start)
                self._sender.send(connection, "POST", path, {"runs": runs})

    def wait_for(self, runs: Sequence[str]) -> None:
        """Wait for the end of runs of one step that were started without the API."""
        self._expected += len(runs)
        self._wait([{"pipelineRunId": each} for each in runs], DRAIN_S)

    def looked(self, path: str, count: int) -> list[float]:
        """GET a path `count` times; return the seconds of each request."""
        seen = []
        with self._sender.connect() as connection:
            for _ in range(count):
                began = time.perf_counter()
                self._sender.send(connection, "GET", path, None)
                seen.append(time.perf_counter() - began)
        return seen

    def streamed(self, path: str) -> socket.socket:
        """A connection on which a stream of changes has begun."""
        return self._sender.stream(path)

    def connect(self) -> closing[http.client.HTTPConnection]:
        """Open a connection to the API."""
        return self._sender.connect()

    def fetch(self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> int:
        """GET a path of the API, read the answer and return its status."""
        return self._sender.fetch(connection, path, headers)

    def single(self) -> str:
        """Run one step and return the run's id."""
        self._expected += 1
        return self._run("single", shapes.chain(1))

    def wide(self, count: int) -> str:
        """Run a map and return the run's id."""
        self._expected += count + 3
        return self._run("mapped", shapes.mapped(), {"count": count})

    def diamonds(self, count: int, clients: int) -> None:
        self._expected += 4 * count
        path = self._path("diamond", shapes.diamond())
        answers = self._sender.send_all(path, [{}] * count, clients)
        self._wait(answers, POLL_S)

    def singles(self, count: int) -> list[tuple[float, float]]:
        self._expected += count
        path = self._path(f"{PREFIX}single", shapes.chain(1))
        seen = []
        with self._sender.connect() as connection:
            for _ in range(count):
                began = time.perf_counter()
                answer = self._sender.send(connection, "POST", path, {})
                answered = time.perf_counter() - began
                self._listener.wait(_uuid(answer))
                seen.append((answered, time.perf_counter() - began))
        return seen

    def verify(self) -> None:
        """Check that every requested step and item has a row that completed at its first attempt."""
        with self._polling.cursor() as cursor:
            cursor.execute(_COUNT, (self._first_id,))
            row = cursor.fetchone()
        assert row is not None
        if row != (self._expected, 0):
            raise BenchmarkFailed(f"{self._expected} task runs were triggered; rows, incomplete ones: {row}")

    def store(self, name: str, document: shapes.Document) -> None:
        """Store a pipeline, once."""
        if name not in self._stored:
            with self._sender.connect() as connection:
                self._sender.send(connection, "PUT", f"/api/pipelines/{name}", document)
            self._stored.add(name)

    def _path(self, name: str, document: shapes.Document) -> str:
        self.store(name, document)
        return f"/api/pipelines/{name}/trigger"

    def _run(self, name: str, document: shapes.Document, given: Mapping[str, Any] | None = None) -> str:
        with self._sender.connect() as connection:
            answer = self._sender.send(connection, "POST", self._path(name, document), {"input": given})
        self._wait([answer], POLL_S)
        return str(answer["pipelineRunId"])

    def _run_notified(self, name: str, document: shapes.Document) -> None:
        with self._sender.connect() as connection:
            answer = self._sender.send(connection, "POST", self._path(f"{PREFIX}{name}", document), {})
        self._listener.wait(_uuid(answer))

    def _wait(self, answers: Sequence[Mapping[str, Any]], poll_every_s: float) -> None:
        wanted = [_uuid(each) for each in answers]
        until = time.monotonic() + LATE_S
        with self._polling.cursor() as cursor:
            while True:
                cursor.execute(_POLL, (wanted,))
                row = cursor.fetchone()
                assert row is not None
                completed, other_end = row
                if completed == len(wanted):
                    return
                if other_end is not None or time.monotonic() > until:
                    raise BenchmarkFailed(
                        f"{completed} of {len(wanted)} runs completed; {other_end or 'late'}"
                    )
                time.sleep(poll_every_s)


def _uuid(answer: Mapping[str, Any]) -> str:
    """The run's id as PostgreSQL shows it."""
    return str(ids.read(ids.RUN, answer["pipelineRunId"]))
