"""Report to the orchestrator: heartbeats, progress, and how an attempt ended."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pipeweave.errors import InvalidReport, Unavailable
from pipeweave.http_worker.link import OrchestratorAnswer, OrchestratorLink

log = logging.getLogger(__name__)

# A report is tried again after this long (s), then after twice as long and so on, up to the longest pause.
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 15.0
# A heartbeat that gets no answer within this long (s) is given up: the next one follows soon.
BEAT_TIMEOUT_S = 5.0

# The statuses of reports that nobody can use any more: the id is not known, or the attempt is over.
_OVER = frozenset({401, 404, 409, 410})


class ReportSender:
    """Sends the reports of all attempts of a worker.

    Args:
        on_unknown: called when an answer shows that the orchestrator does not know what it dispatched: it may
            have lost its data, and this service with it.
    """

    def __init__(self, link: OrchestratorLink, on_unknown: Callable[[], None]) -> None:
        self._link = link
        self._on_unknown = on_unknown
        self._gives_up = threading.Event()

    def give_up(self) -> None:
        """Let reports that wait for their next try end after it: the process is about to end."""
        self._gives_up.set()

    def beat(self, run_id: str, body: Mapping[str, Any]) -> bool:
        """Send a heartbeat, which may carry progress; returns whether the attempt should be cancelled.

        A heartbeat that cannot be sent is logged: it must not fail the attempt.
        """
        try:
            path = f"/api/task-runs/{run_id}/heartbeat"
            answer = self._link.send("POST", path, body, timeout_s=BEAT_TIMEOUT_S)
        except Unavailable as error:
            log.warning("heartbeat.lost", extra={"reason": error.detail})
            return False
        if answer.is_good:
            return isinstance(answer.body, dict) and answer.body.get("shouldCancel") is True
        if answer.status == 404:
            self._on_unknown()
        if answer.status not in _OVER:
            log.warning("heartbeat.lost", extra={"reason": answer.reason})
        return answer.status in _OVER

    def complete(self, run_id: str, body: Mapping[str, Any]) -> None:
        """Report how an attempt ended, again and again until the answer says that it is stored, or that it
        never will be.
        """
        answer = self._until_answered(run_id, body)
        if answer is None or answer.is_good:
            return
        if answer.status in _OVER:
            log.warning("report.dropped", extra={"reason": answer.reason})
            if answer.status == 404:
                self._on_unknown()
        elif body["status"] == "success" and answer.code != InvalidReport.code:
            # Else the orchestrator would wait until the heartbeats are missed, and call the task again.
            log.error("report.refused", extra={"reason": answer.reason})
            refused = f"the orchestrator refused the result ({answer.reason})"
            failed = {"status": "failed", "error": refused, "errorCode": "INVALID_RESULT", "retryable": False}
            self.complete(run_id, failed)
        else:
            log.error("report.refused", extra={"reason": answer.reason})

    def _until_answered(self, run_id: str, body: Mapping[str, Any]) -> OrchestratorAnswer | None:
        pause = FIRST_PAUSE_S
        while True:
            is_last = self._gives_up.is_set()
            try:
                answer = self._link.send("POST", f"/api/task-runs/{run_id}/complete", body)
                if not answer.is_passing:
                    return answer
                reason, pause = answer.reason, max(pause, answer.retry_after_s or 0)
            except Unavailable as error:
                reason = str(error.detail)
            if is_last:
                log.error("report.lost", extra={"reason": reason})
                return None
            log.warning("report.delayed", extra={"reason": reason, "again_after_s": round(pause, 1)})
            self._gives_up.wait(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 2, LONGEST_PAUSE_S)
