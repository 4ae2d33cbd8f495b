"""Puts off what an answer need not wait for until it has left.

A thread that answers requests says when one begins (`begin`) and that its answer has left (`finish`). Whoever
knows of something that nobody waits for hands it over in between (`put_off`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]

_of_thread = threading.local()


def begin() -> None:
    """Let the work of this thread be put off from now on, until `finish`."""
    _of_thread.work = _nothing


def put_off(work: Work) -> None:
    """Do this when the answer has left; at once in a thread that answers no request.

    One is put off at a time: what was put off before is done now, so that what it holds is held no longer.
    """
    before: Work | None = getattr(_of_thread, "work", None)
    if before is None:
        work()
        return
    _of_thread.work = work
    before()


def finish() -> None:
    """Do what was put off. Raises nothing: the answer has left."""
    work: Work = getattr(_of_thread, "work", _nothing)
    _of_thread.work = None
    try:
        work()
    except Exception:
        log.exception("afterwards.failed")


def _nothing() -> None:
    """Do nothing."""
