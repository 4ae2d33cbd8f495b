"""Failures of work that is tried again each second."""

from __future__ import annotations

import logging

import pytest

from pipeweave.errors import Unavailable
from pipeweave.failure_log import AGAIN_AFTER_S, FailureLog


def test_a_failure_that_goes_on_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    failures = FailureLog(logging.getLogger("beat"), "tick.failed", lambda: now[0])
    for _ in range(3):
        failures.failed(Unavailable("PostgreSQL is away"))
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [("WARNING", "tick.failed")]
    now[0] = AGAIN_AFTER_S
    failures.failed(Unavailable("PostgreSQL is away"))
    assert vars(caplog.records[-1])["repeated"] == 2
    failures.failed(KeyError("other"))
    assert caplog.records[-1].exc_info is not None
    failures.worked()
    failures.worked()
    assert [each.getMessage() for each in caplog.records] == [*["tick.failed"] * 3, "tick.failed.over"]
