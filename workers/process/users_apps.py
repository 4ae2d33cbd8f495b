"""Keeps the Celery apps of the tasks' code current in child processes.

Celery's pool makes the worker's app the default app of each child, so that `@shared_task` and `current_app`
mean the worker's. In our children they mean the app of the user's code: its `.delay()` must not send to our
broker, where nobody knows its tasks.
"""

from __future__ import annotations

from typing import Any

from celery import _state
from celery.concurrency import prefork

# Names that this module replaces or that Celery's stubs do not have.
_POOL: Any = prefork
_STATE: Any = _state


def keep() -> None:
    """Leave the current and the default app as the tasks' code made them. Called once it is loaded, and
    before the first child is forked.
    """
    users = _STATE._tls.current_app
    if _STATE.default_app is None and users is not None:
        # As in Celery's own workers, so that threads of a task find the app, too. Without an app of the
        # user's there is none: Celery then makes one that has Celery's defaults, and not our broker.
        _STATE.set_default_app(users)
    _POOL.set_default_app = _ignore
    # Celery forbids `result.get()` in a task, because tasks that wait for one another may fill a pool. The
    # tasks of another app run in other workers.
    _POOL._set_task_join_will_block = _ignore
    _POOL.TaskPool.task_join_will_block = False


def _ignore(_: object) -> None:
    pass
