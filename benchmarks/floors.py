"""Measure what no system on this machine can go below: a durable commit, a message, a request.

They are measured in the same run as the rest, with the same servers and clients, so that what a run or a hop
takes beyond its commits, messages and requests can be said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import psycopg2
import redis

from benchmarks import echo
from benchmarks.environment import Environment
from benchmarks.figures import Benchmark, Figures, seconds_of
from benchmarks.http_sender import HttpSender
from benchmarks.over_http import LOOP
from benchmarks.processes import front, python, running
from benchmarks.sizes import Sizes
from benchmarks.systems import DEADLINE_S
from pipeweave.up.ports import free_port

_WORK_S = 0.01


def benchmarks(sizes: Sizes) -> list[Benchmark]:
    """List the benchmarks in these sizes."""
    return [
        Benchmark("floor_commit", lambda environment: _commit(environment, sizes)),
        Benchmark("floor_chain_10ms", lambda environment: _worked(environment, sizes)),
        Benchmark("floor_message", lambda environment: _message(environment, sizes)),
        Benchmark("floor_request", lambda environment: _request(environment, sizes)),
    ]


def _commit(environment: Environment, sizes: Sizes) -> Figures:
    """One row changed by its key, in a transaction of its own."""
    with _commits(environment) as commit:
        return Figures("ms per commit, p50", {"ours": _middle_ms(commit, sizes.floors)})


def _worked(environment: Environment, sizes: Sizes) -> Figures:
    """As chain_10ms: the same work, and nothing but a commit behind it."""

    def chain() -> None:
        for _ in range(sizes.worked):
            time.sleep(_WORK_S)
            commit()

    with _commits(environment) as commit:
        ratios = [seconds_of(chain) / (sizes.worked * _WORK_S) for _ in range(sizes.rounds)]
        return Figures(f"wall / work, {sizes.worked} steps", {"ours": median(ratios)})


def _message(environment: Environment, sizes: Sizes) -> Figures:
    """Half of the way to a process that waits at the broker, and back."""
    url = environment.settings.broker_url
    assert url is not None
    launch = python("benchmarks.echo", variables={"BROKER_URL": url})
    with closing(redis.Redis.from_url(url)) as broker, running(launch, _log(environment), lambda: True):

        def there_and_back() -> None:
            broker.rpush(echo.THERE, b"1")
            assert broker.blpop([echo.BACK], timeout=DEADLINE_S)

        there_and_back()
        return Figures("ms per message, p50", {"ours": _middle_ms(there_and_back, sizes.floors) / 2})


def _request(environment: Environment, sizes: Sizes) -> Figures:
    """A request over a kept connection to Flask under gunicorn, which answers nothing."""
    sender = HttpSender(port := free_port())
    launch = front(port, LOOP, "--keep-alive", "60", variables={})
    with running(launch, _log(environment), lambda: sender.answers("/")), sender.connect() as connection:

        def ask() -> None:
            sender.fetch(connection, "/", {})

        return Figures("ms per request, p50", {"ours": _middle_ms(ask, sizes.floors)})


@contextmanager
def _commits(environment: Environment) -> Iterator[Callable[[], None]]:
    """What changes a row and commits it durably, in a table of its own."""
    with closing(psycopg2.connect(environment.log.admin_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE floor_of_commits (id integer PRIMARY KEY, count integer NOT NULL)")
            try:
                cursor.execute("INSERT INTO floor_of_commits VALUES (1, 0)")
                cursor.execute("PREPARE one AS UPDATE floor_of_commits SET count = count + 1 WHERE id = $1")
                yield lambda: cursor.execute("EXECUTE one(1)")
            finally:
                cursor.execute("DROP TABLE floor_of_commits")


def _middle_ms(work: Callable[[], object], times: int) -> float:
    return median(1000 * seconds_of(work) for _ in range(times))


def _log(environment: Environment) -> Path:
    return Path(str(environment.settings.data_dir)).parent / "logs" / "floors.log"
