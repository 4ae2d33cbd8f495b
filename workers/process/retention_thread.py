"""Runs retention in a thread of beat: it archives and drops months, on connections of its own.

A month may take minutes, and a tick has milliseconds. When beat ends in the middle of a month, the next beat
goes on (orchestrator/retention/drop_months.py). One month is dropped each month: a process of its own
would wait nearly all the time.
"""

from __future__ import annotations

import logging
import threading
import time

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.retention import Policy, drop_months
from pipeweave.orchestrator.store import Database
from pipeweave.settings import Settings
from pipeweave.storage import Backends, Storage

log = logging.getLogger(__name__)

# The first pass leaves the start of a deployment alone (s).
FIRST_AFTER_S = 60.0
EVERY_S = 3_600.0
# The pause after a pass that found a table in use (s).
AGAIN_AFTER_S = 300.0


def start(settings: Settings) -> threading.Thread | None:
    """Apply the retention once an hour from now on; None when runs are kept for ever.

    Raises:
        InvalidSetting: storage cannot be used.
    """
    policy = Policy.of(settings)
    if policy.runs is None or settings.database_url is None:
        return None
    database = Database(settings.database_url, pool_size=2)
    storage = Backends.of(settings).default
    thread = threading.Thread(
        target=_keep_on, args=(database, storage, policy), name="retention", daemon=True
    )
    thread.start()
    return thread


def _keep_on(database: Database, storage: Storage, policy: Policy) -> None:
    pause = FIRST_AFTER_S
    while True:
        time.sleep(pause)
        pause = apply(database, storage, policy)


def apply(database: Database, storage: Storage, policy: Policy) -> float:
    """Run one pass, log its error and return the seconds until the next pass."""
    try:
        drop_months.check_clock(database)
        done = drop_months.run_once(database, storage, policy)
    except PipeWeaveError as error:
        log.warning("retention.failed", extra={"reason": error.detail})
        return AGAIN_AFTER_S
    except Exception:
        log.exception("retention.failed")
        return EVERY_S
    return AGAIN_AFTER_S if any(each.outcome is drop_months.MonthOutcome.IN_USE for each in done) else EVERY_S
