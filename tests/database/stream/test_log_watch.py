"""Who watches a run and wants logs is told how large they are, whatever storage does; nobody else waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from support.run_driver import RunDriver, claim
from support.servers import wait_until

from pipeweave import ids
from pipeweave.attempt import StoredLogs
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.stream import LogWatch, WantedChanges, log_watch
from pipeweave.storage import Backends, ObjectInfo
from pipeweave.storage.local import LocalStorage

LINE = b'{"message":"one"}\n'


class Failing(LocalStorage):
    """A storage that may be away."""

    is_away = False
    looks = 0

    def stat(self, path: str) -> ObjectInfo | None:
        self.looks += 1
        if self.is_away:
            raise Unavailable("storage is away")
        return super().stat(path)


class Watching:
    """A sink that keeps what comes."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.has_room = self.is_open = True

    def change(self, cursor: str | None, content: bytes) -> None:
        assert cursor is None
        self.came.append(orjson.loads(content))

    def has(self, *sizes: int) -> None:
        """Waits for these sizes."""
        wait_until(lambda: [each["data"]["bytes"] for each in self.came] == list(sizes), 30)


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    """A run whose first task run runs."""
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        assert claim(tx, run_id, 1) is not None
    return run_id


@pytest.fixture
def storage(tmp_path: Path) -> Failing:
    return Failing(tmp_path / "objects")


@pytest.fixture
def watched(driver: RunDriver, storage: Failing, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogWatch]:
    monkeypatch.setattr(log_watch, "EVERY_S", 0.02)
    backends = Backends([{"id": "main", "provider": "local"}], opened={"main": storage})
    made = LogWatch(driver.database, backends, None)
    yield made
    made.close()


def write(storage: Failing, run_id: UUID, count: int) -> int:
    """Store so many lines as the log of the first task run; its size."""
    path = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1))}.1/logs.jsonl"
    stored = StoredLogs(lambda place, content: storage.put(path, content) and None, every_s=0.0)
    for _ in range(count):
        stored.add(path, LINE, "prun")
    stored.end(path)
    stored.close(30)
    return count * len(LINE)


def watch(watched: LogWatch, driver: RunDriver, run_id: UUID, pipeline: str | None = None) -> Watching:
    sink = Watching()
    watched.watch(WantedChanges(driver.tenant, frozenset({"log"}), pipeline, run_id), sink)
    return sink


def test_all_who_watch_are_told_the_size_and_each_that_follows(
    driver: RunDriver, run_id: UUID, storage: Failing, watched: LogWatch
) -> None:
    first, foreign = watch(watched, driver, run_id), watch(watched, driver, run_id, "other")
    small = write(storage, run_id, 1)
    first.has(small)
    second = watch(watched, driver, run_id)
    second.has(small)
    large = write(storage, run_id, 3)
    first.has(small, large)
    second.has(small, large)
    assert first.came[0] | {"at": ""} == {
        "type": "log",
        "at": "",
        "seq": None,
        "runId": ids.show(ids.RUN, run_id),
        "pipelineId": "driven",
        "taskRunId": ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1)),
        "step": "a",
        "attempt": 1,
        "data": {"bytes": small},
    }
    assert not foreign.came


def test_a_storage_that_is_away_delays_what_it_has(
    driver: RunDriver,
    run_id: UUID,
    storage: Failing,
    watched: LogWatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage.is_away = True
    size = write(storage, run_id, 2)
    with caplog.at_level(logging.WARNING):
        sink = watch(watched, driver, run_id)
        wait_until(lambda: storage.looks > 3, 30)
    assert [each.message for each in caplog.records].count("stream.logs_wait") == 1
    assert not sink.came
    storage.is_away = False
    sink.has(size)


def test_who_has_no_room_is_told_the_last_size_later(
    driver: RunDriver, run_id: UUID, storage: Failing, watched: LogWatch
) -> None:
    full, other = watch(watched, driver, run_id), watch(watched, driver, run_id)
    full.has_room = False
    small = write(storage, run_id, 1)
    other.has(small)
    large = write(storage, run_id, 2)
    other.has(small, large)
    assert not full.came
    full.has_room = True
    full.has(large)


def test_the_last_lines_come_after_the_end_of_the_task_run(
    driver: RunDriver, storage: Failing, watched: LogWatch
) -> None:
    run_id = driver.begin({"a": []})
    sink = watch(watched, driver, run_id)
    driver.finish(run_id, "a")
    small = write(storage, run_id, 1)
    sink.has(small)
    sink.has(small, write(storage, run_id, 2))


def test_what_has_ended_is_forgotten_when_its_log_is_settled(
    driver: RunDriver, run_id: UUID, storage: Failing, watched: LogWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watch, "SETTLED", timedelta(seconds=0.1))
    size = write(storage, run_id, 1)
    sink = watch(watched, driver, run_id)
    sink.has(size)
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET status = 'cancelled', finished_at = :now WHERE run_id = :run_id",
            {"run_id": run_id, "now": tx.now},
        )
    wait_until(lambda: not any(each.seen for each in watched._runs.values()), 30)
    sink.has(size)


def test_nobody_looks_when_nobody_watches(
    driver: RunDriver, run_id: UUID, storage: Failing, watched: LogWatch
) -> None:
    sink = watch(watched, driver, run_id)
    wait_until(lambda: storage.looks > 0, 30)
    sink.is_open = False
    name = "stream of logs"
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == name], 30)
    again = watch(watched, driver, run_id)
    again.has(write(storage, run_id, 1))
