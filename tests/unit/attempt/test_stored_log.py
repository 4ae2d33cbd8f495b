"""Logs of attempts are stored while they grow, by a thread that no attempt waits for."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from pipeweave.attempt import stored_log
from pipeweave.attempt.log_record import LoggedAttempt, ToStoredLogs, line_of
from pipeweave.attempt.stored_log import StoredLogs
from pipeweave.errors import Unavailable
from pipeweave.size_limits import MAX_LOG_BYTES


class Storage:
    """Objects in a dictionary, which can be away, and slow."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_away = False
        self.written = threading.Semaphore(0)
        self.tried = threading.Semaphore(0)
        self.opened = threading.Event()
        self.opened.set()

    def store(self, place: str, content: bytes) -> None:
        self.tried.release()
        assert self.opened.wait(20)
        if self.is_away:
            raise Unavailable("away")
        self.objects[place] = content
        self.written.release()


@pytest.fixture
def storage() -> Storage:
    return Storage()


def test_a_log_is_stored_as_a_whole_while_it_grows(storage: Storage) -> None:
    logs = StoredLogs(storage.store, every_s=0.01)
    logs.add("a", b"1\n", "r")
    assert storage.written.acquire(timeout=20)
    logs.add("a", b"2\n", "r")
    assert storage.written.acquire(timeout=20)
    assert storage.objects == {"a": b"1\n2\n"}


def test_the_log_of_an_attempt_that_has_ended_is_stored_at_once(storage: Storage) -> None:
    logs = StoredLogs(storage.store, every_s=3600)
    logs.add("a", b"1\n", "r")
    logs.end("a")
    assert storage.written.acquire(timeout=20)
    assert logs.is_empty


def test_nothing_is_stored_twice_without_a_new_line(storage: Storage) -> None:
    logs = StoredLogs(storage.store, every_s=0.01)
    logs.add("a", b"1\n", "r")
    assert storage.written.acquire(timeout=20)
    logs.add("b", b"2\n", "r")
    assert storage.written.acquire(timeout=20)
    logs.end("a")
    logs.end("b")
    logs.close(20)
    assert storage.objects == {"a": b"1\n", "b": b"2\n"}
    assert not storage.written.acquire(blocking=False)


def test_closing_stores_what_is_left(storage: Storage) -> None:
    logs = StoredLogs(storage.store, every_s=3600)
    logs.add("a", b"1\n", "r")
    logs.close(20)
    assert storage.objects == {"a": b"1\n"}


def test_a_log_that_is_too_large_is_cut_and_says_so(storage: Storage) -> None:
    logs = StoredLogs(storage.store, every_s=3600)
    for _ in range(3):
        logs.add("a", b"x" * (MAX_LOG_BYTES // 2) + b"\n", "r")
    logs.close(20)
    *_, last = storage.objects["a"].splitlines()
    assert json.loads(last)["message"].startswith("the log is cut here")
    assert len(storage.objects["a"]) < MAX_LOG_BYTES + 1_000


def test_a_storage_that_is_away_costs_the_lines_and_one_warning(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    storage.is_away = True
    logs = StoredLogs(storage.store, every_s=0.01)
    for place in ("a", "b"):
        logs.add(place, b"1\n", "r")
        logs.end(place)
        assert storage.tried.acquire(timeout=20)
    storage.is_away = False
    logs.add("c", b"1\n", "r")
    logs.close(20)
    assert storage.objects == {"c": b"1\n"}
    assert [each.message for each in caplog.records] == ["attempt_log.lost"]


def test_a_slow_storage_holds_up_nobody_and_a_bounded_number_of_logs(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_log, "MOST_WAITING", 10)
    storage.opened.clear()
    logs = StoredLogs(storage.store, every_s=0.01)
    logs.add("first", b"1\n", "r")
    assert storage.tried.acquire(timeout=20)
    for number in range(100):
        logs.add(str(number), b"1\n", "r")
        logs.end(str(number))
    storage.opened.set()
    logs.close(20)
    assert len(storage.objects) <= 11
    assert "99" in storage.objects


def test_only_lines_of_tasks_are_stored(storage: Storage) -> None:
    logs = StoredLogs(storage.store, every_s=3600)
    lines = ToStoredLogs(logs, lambda: LoggedAttempt("a", "r"))
    for name in ("shop", "pipeweave.task.a", "pipeweave.stdout", "pipeweave.workers.runner"):
        lines.emit(logging.makeLogRecord({"name": name, "msg": name, "levelno": logging.INFO}))
    logs.close(20)
    stored = [json.loads(line)["message"] for line in storage.objects["a"].splitlines()]
    assert stored == ["shop", "pipeweave.task.a", "pipeweave.stdout"]


def test_a_line_has_the_members_of_the_protocol_and_those_of_extra() -> None:
    record = logging.makeLogRecord(
        {
            "name": "shop",
            "msg": "%d rows",
            "args": (3,),
            "levelno": logging.WARNING,
            "created": 0.25,
            "task_id": "left out",
            "level": "gold",
            "rows": {1, 2},
        }
    )
    assert json.loads(line_of(record, "r")) == {
        "timestamp": "1970-01-01T00:00:00.250Z",
        "level": "warn",
        "runId": "r",
        "message": "3 rows",
        "logger": "shop",
        "extra_level": "gold",
        "rows": "{1, 2}",
    }
