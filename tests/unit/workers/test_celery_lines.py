"""Log lines of Celery, translated."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import billiard.util
import pytest
from celery.worker.consumer import consumer

from pipeweave.workers.process import celery_lines
from pipeweave.workers.process.failure_log import FailureLog

_messages: Any = consumer
LOG = logging.getLogger(consumer.__name__)


@pytest.fixture(autouse=True)
def _translated() -> Iterator[None]:
    children: Any = billiard.util.get_logger()
    loggers = [LOG, logging.getLogger("celery.worker.request"), children]
    celery_lines._LOST = FailureLog(LOG, "broker.lost")
    before = [(each, list(each.filters), each.propagate, each.level) for each in loggers]
    celery_lines.install()
    yield
    celery_lines.setup_logging.disconnect(celery_lines._leave_as_it_is)
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


def test_a_broker_that_is_lost_again_and_again_is_not_a_line_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(20):
        LOG.warning("%s (%r)", _messages.CONNECTION_RETRY, OSError("read-only"))
    LOG.warning("%s (%r)", _messages.CONNECTION_RETRY, OSError("out of memory"))
    assert [(each.getMessage(), vars(each)["reason"]) for each in caplog.records] == [
        ("broker.lost", "read-only"),
        ("broker.lost", "out of memory"),
    ]


def test_the_lines_of_the_pool_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    billiard.util.get_logger().error("Process %r exited", "one")
    assert caplog.messages == ["Process 'one' exited"]
