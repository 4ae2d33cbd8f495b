"""Log lines of Celery, translated."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import billiard.util
import pytest
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from celery.platforms import ROOT_DISCOURAGED
from celery.worker.consumer import connection, consumer

from pipeweave.failure_log import AGAIN_AFTER_S
from pipeweave.workers.process import celery_lines

_messages: Any = consumer
LOG = logging.getLogger(consumer.__name__)
CONNECTION_LOG = logging.getLogger(connection.__name__)


@pytest.fixture
def now() -> list[float]:
    """What the clock says."""
    return [0.0]


@pytest.fixture(autouse=True)
def _translated(now: list[float]) -> Iterator[None]:
    children: Any = billiard.util.get_logger()
    named = [logging.getLogger(each) for each in ("celery.worker.request", "py.warnings")]
    loggers = [LOG, CONNECTION_LOG, *named, children]
    before = [(each, list(each.filters), each.propagate, each.level) for each in loggers]
    celery_lines.install(lambda: now[0])
    with warnings.catch_warnings():
        yield
    celery_lines.setup_logging.disconnect(celery_lines._leave_as_it_is)
    celery_lines.celeryd_after_setup.disconnect(celery_lines._ignore_choices)
    for each, filters, propagate, level in before:
        each.filters[:], each.propagate = filters, propagate
        each.setLevel(level)


def test_a_broker_that_cannot_be_reached_is_one_line_with_members(caplog: pytest.LogCaptureFixture) -> None:
    step = _messages.CONNECTION_RETRY_STEP.format(when="in 2.00 seconds", retries=1, max_retries=None)
    LOG.error(_messages.CONNECTION_ERROR, "redis://:**@host:6379/0", OSError("refused"), step)
    [line] = caplog.records
    members = vars(line)
    assert line.getMessage() == "broker.unreachable"
    assert (members["broker"], members["reason"]) == ("redis://:**@host:6379/0", "refused")
    assert members["then"] == "trying again in 2.00 seconds"


def test_a_broker_that_is_lost_is_one_line_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    LOG.warning("%s (%r)", _messages.CONNECTION_RETRY, OSError("closed"))
    [line] = caplog.records
    assert (line.getMessage(), vars(line)["reason"]) == ("broker.lost", "closed")


def lose(error: Exception) -> None:
    """What Celery says when a broker let it connect and then refused a command."""
    LOG.warning("%s (%r)", _messages.CONNECTION_RETRY, error)
    LOG.critical("Frequent restarts detected: %r", RuntimeError("5 in 1s"))
    CONNECTION_LOG.info("Connected to %s", "redis://host:6379/0")


def test_a_broker_that_is_lost_again_and_again_is_said_once_a_minute(
    caplog: pytest.LogCaptureFixture, now: list[float]
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(300):
        lose(OSError("READONLY"))
    assert [each.getMessage() for each in caplog.records] == [
        "broker.lost",
        "Connected to redis://host:6379/0",
    ]
    caplog.clear()
    now[0] = AGAIN_AFTER_S
    lose(OSError("READONLY"))
    assert (caplog.messages[0], vars(caplog.records[0])["repeated"]) == ("broker.lost", 299)


def test_another_reason_for_the_loss_is_said_at_once(caplog: pytest.LogCaptureFixture) -> None:
    lose(OSError("READONLY"))
    lose(OSError("closed"))
    assert [vars(each)["reason"] for each in caplog.records] == ["READONLY", "closed"]


def test_a_connection_after_a_broker_that_could_not_be_reached_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(2):
        LOG.warning("%s (%r)", _messages.CONNECTION_RETRY, OSError("closed"))
    LOG.error(_messages.CONNECTION_ERROR, "redis://host", OSError("refused"), "Trying again...")
    CONNECTION_LOG.info("Connected to %s", "redis://host")
    assert caplog.messages == ["broker.lost", "broker.unreachable", "Connected to redis://host"]


def test_warnings_of_choices_that_are_made_here_stay_away_though_celery_asks_for_them() -> None:
    warnings.filterwarnings("always", category=CPendingDeprecationWarning)
    celery_lines.celeryd_after_setup.send(sender="w1", instance=None, conf=None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.warn("a choice", CPendingDeprecationWarning, stacklevel=1)
    assert seen == []


def test_a_worker_of_root_is_told_so_in_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    logging.captureWarnings(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(
                SecurityWarning(ROOT_DISCOURAGED.format(uid=0, euid=0, gid=0, egid=0)), stacklevel=1
            )
            warnings.warn("another", UserWarning, stacklevel=1)
    finally:
        logging.captureWarnings(False)
    privileged, other = caplog.records
    assert privileged.getMessage() == "worker.privileged"
    assert vars(privileged)["hint"] == "start workers as a user without the rights of root"
    assert "another" in other.getMessage()


def test_the_lines_of_the_pool_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    billiard.util.get_logger().error("Process %r exited", "one")
    assert caplog.messages == ["Process 'one' exited"]
