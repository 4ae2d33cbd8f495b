"""A user's Celery application whose workers report to steps of PipeWeave; it has no task of PipeWeave."""

from __future__ import annotations

import os
import signal

from celery import Celery

from pipeweave.adapters.celery_reports import install

reporting = Celery("reporting", broker=os.environ["PIPEWEAVE_TEST_LEGACY_BROKER"])
install(reporting)


@reporting.task(name="reporting.add")
def add(one: int, two: int) -> int:
    return one + two


@reporting.task(name="reporting.fail")
def fail(why: str) -> None:
    raise ValueError(why)


@reporting.task(name="reporting.die")
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
