"""Register an HTTP worker with its orchestrator, and keep it registered."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pipeweave.errors import Conflict, Forbidden, InvalidInput, NotFound, PipeWeaveError, Unavailable
from pipeweave.http_worker.link import OrchestratorAnswer, OrchestratorLink

log = logging.getLogger(__name__)

# It registers again this often (s): an orchestrator may have lost its data, or have set this worker aside.
AGAIN_EVERY_S = 60.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# Leaving must not hold up the end of the process for longer (s).
LEAVE_TIMEOUT_S = 5.0

_KINDS: dict[int, type[PipeWeaveError]] = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict}


class Registrar:
    """Registers one worker.

    Args:
        body: of the registration, as docs/http-workers.md describes it.
    """

    def __init__(
        self, link: OrchestratorLink, body: Mapping[str, Any], again_every_s: float = AGAIN_EVERY_S
    ) -> None:
        self._link = link
        self._body = body
        self._again_every_s = again_every_s
        self._wake = threading.Event()
        self._is_leaving = False
        self._is_new = True
        self._thread = threading.Thread(target=self._keep, name="registrar", daemon=True)
        self.is_registered = threading.Event()

    def start(self) -> None:
        """Register once, then go on in a thread of its own: until it worked, and again from time to time.

        Raises:
            PipeWeaveError: the orchestrator refused the registration.
        """
        try:
            self._register()
        except Unavailable as error:
            log.warning("service.unregistered", extra={"reason": error.detail})
        self._thread.start()

    def again(self) -> None:
        """Register again soon: the orchestrator seems not to know this worker."""
        self._wake.set()

    def leave(self) -> None:
        """Stop to register, and tell the orchestrator that this worker takes no dispatches any more."""
        self._is_leaving = True
        self._wake.set()
        if self._thread.is_alive():
            # A registration that is under way must not follow the farewell.
            self._thread.join(LEAVE_TIMEOUT_S)
        service, url = quote(str(self._body["serviceId"])), quote(str(self._body["baseUrl"]), safe="")
        path = f"/api/services/{service}/instances?baseUrl={url}"
        try:
            answer = self._link.send("DELETE", path, timeout_s=LEAVE_TIMEOUT_S)
        except Unavailable as error:
            log.warning("service.not_left", extra={"reason": error.detail})
            return
        if not answer.is_good:
            log.warning("service.not_left", extra={"reason": answer.reason})

    def _keep(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            wait_s = self._again_every_s if self.is_registered.is_set() else pause
            self._wake.wait(wait_s * random.uniform(0.8, 1.0))
            self._wake.clear()
            if self._is_leaving:
                return
            try:
                self._register()
                pause = FIRST_PAUSE_S
            except PipeWeaveError as error:
                self.is_registered.clear()
                pause = min(pause * 2, LONGEST_PAUSE_S)
                log.warning("service.unregistered", extra={"reason": error.detail, "hint": error.hint})

    def _register(self) -> None:
        answer = self._link.send("POST", "/api/services", self._body)
        if answer.is_passing:
            raise Unavailable(f"the orchestrator did not take the registration ({answer.reason})")
        if not answer.is_good:
            raise _refusal(answer)
        self.is_registered.set()
        if self._is_new:
            self._is_new = False
            names = {"service_id": self._body["serviceId"]}
            log.info("service.registered", extra={**names, **_news(answer.body)})


def _refusal(answer: OrchestratorAnswer) -> PipeWeaveError:
    detail = f"the orchestrator refused the registration ({answer.reason})"
    hints = {
        401: "give a token with scope orchestrator:worker, or a URL with /w/<tenant>/<token>",
        403: "the token needs scope orchestrator:worker",
        404: "is this the URL of PipeWeave's API?",
    }
    kind = _KINDS.get(answer.status, InvalidInput)
    return kind(detail, hint=answer.hint or hints.get(answer.status))


def _news(body: Any) -> dict[str, Any]:
    answer = body if isinstance(body, dict) else {}
    shown = {"code_changes": answer.get("codeChanges"), "orphaned_tasks": answer.get("orphanedTasks")}
    return {name: each for name, each in shown.items() if each}
