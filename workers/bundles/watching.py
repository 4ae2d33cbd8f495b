"""Notices that other bundles or keys count than those that a worker has loaded."""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.store import Database
from pipeweave.workers.bundles.loading import HostedBundles, in_force

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""Between two looks (s). Each is two short statements; only workers of bundles look."""

AGAIN_AFTER_S = 30.0
"""A bundle that storage did not give is asked for again after so long (s)."""


class BundleWatch:
    """Looks again and again while the block runs.

    Attributes:
        is_outdated: whether the worker has to load anew.
    """

    def __init__(
        self, database: Database, tenant: str, hosted: HostedBundles, *, again_after_s: float = AGAIN_AFTER_S
    ) -> None:
        self._database = database
        self._tenant = tenant
        self._hosted = hosted
        self._again_at = time.monotonic() + again_after_s if hosted.may_come else float("inf")
        self.is_outdated = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bundles", daemon=True)

    def __enter__(self) -> BundleWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(timeout=5)

    def look(self) -> bool:
        """Whether the worker has to load anew."""
        try:
            differs = in_force(self._database, self._tenant) != self._hosted.seen
        except PipeWeaveError as error:
            log.debug("bundles.not_looked_at", extra={"reason": error.detail})
            return False
        return differs or time.monotonic() >= self._again_at

    def _run(self) -> None:
        while not self._end.wait(LOOK_EVERY_S):
            if self.look():
                log.info("bundles.changed", extra={"tenant": self._tenant})
                self.is_outdated = True
                return
