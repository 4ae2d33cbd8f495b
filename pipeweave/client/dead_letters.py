"""Dead letters, as a client sees them: `client.dlq.all()`, `client.dlq.retry(id)`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pipeweave.client.http import Transport
from pipeweave.client.models import Document, Page, checked_id, document_of, without_none
from pipeweave.errors import WaitTimeout

# Between two looks at a redrive (s).
LOOK_EVERY_S = 0.5


class DeadLetters:
    """Task runs that failed for good.

    Filters of its methods are `pipeline_id`, `task_id`, `error_code`, `fingerprint` (equal for errors that
    are alike), `since` and `until` (when they failed: aware times, or texts as 2026-11-20T12:00:00Z).
    """

    def __init__(self, http: Transport) -> None:
        self._http = http

    # --- looking ------------------------------------------------------------------------------------------

    def page(
        self,
        *,
        status: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **filters: Any,
    ) -> Page:
        """A page, newest first.

        Args:
            status: `open` (neither retried nor discarded; what None means), `retried`, `discarded` or `all`.
            limit: rows, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
            filters: see the class.
        """
        query = {"status": status, "limit": limit, "cursor": cursor, **_named(filters)}
        answer = document_of(self._http.get("/api/dlq", query))
        return Page(list(answer["items"]), answer["nextCursor"])

    def all(self, *, status: str | None = None, **filters: Any) -> Iterator[Document]:
        """Every one, newest first, page by page."""
        cursor = None
        while True:
            page = self.page(status=status, limit=500, cursor=cursor, **filters)
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    def groups(
        self, *, status: str | None = None, limit: int | None = None, **filters: Any
    ) -> list[Document]:
        """Those whose errors are alike, the largest groups first: {fingerprint, count, message, ...}."""
        query = {"status": status, "limit": limit, **_named(filters)}
        return list(document_of(self._http.get("/api/dlq/groups", query))["groups"])

    def get(self, letter_id: str, *, load: bool = False) -> Document:
        """One, with its input, every attempt with its traceback, and the task's code then and now.

        Args:
            letter_id: the dead letter.
            load: fetch a large input from storage, too.

        Raises:
            NotFound: there is no such dead letter.
        """
        query = {"load": "true"} if load else {}
        return document_of(self._http.get(f"/api/dlq/{checked_id(letter_id)}", query))

    # --- one ----------------------------------------------------------------------------------------------

    def retry(self, letter_id: str) -> Document:
        """Try it again with the current code: {newRunId, taskRunId, status, codeVersion}. A pipeline's run
        goes on from the failed step.

        Raises:
            NotFound: there is no such dead letter.
            Conflict: it was retried or discarded already, or its run cannot go on.
            Unavailable: nothing new is accepted during maintenance.
        """
        return document_of(self._http.send("POST", f"/api/dlq/{checked_id(letter_id)}/retry", {}))

    def discard(self, letter_id: str, reason: str | None = None) -> Document:
        """Put it aside.

        Raises:
            NotFound: there is no such dead letter.
            Conflict: it was retried or discarded already.
        """
        path = f"/api/dlq/{checked_id(letter_id)}/discard"
        return document_of(self._http.send("POST", path, without_none(reason=reason)))

    # --- many ---------------------------------------------------------------------------------------------

    def retry_all(self, **filters: Any) -> Document:
        """Ask for the retry of all that are open now and fit; a redrive: {id, status, total, ...}."""
        return document_of(self._http.send("POST", "/api/dlq/retry-all", without_none(**_named(filters))))

    def redrive(self, redrive_id: str) -> Document:
        """How far a redrive is: {status, total, retried, skipped, ...}.

        Raises:
            NotFound: there is no such redrive.
        """
        return document_of(self._http.get(f"/api/dlq/redrives/{checked_id(redrive_id)}"))

    def cancel_redrive(self, redrive_id: str) -> Document:
        """Stop a redrive; what it has retried goes on.

        Raises:
            NotFound: there is no such redrive.
            Conflict: it is over.
        """
        path = f"/api/dlq/redrives/{checked_id(redrive_id)}/cancel"
        return document_of(self._http.send("POST", path, {}))

    def wait(
        self,
        redrive_id: str,
        timeout: float | None = None,
        on_change: Callable[[Document], None] | None = None,
    ) -> Document:
        """Look at a redrive until it is over.

        Args:
            redrive_id: the redrive.
            timeout: seconds to wait at most; None waits as long as it takes.
            on_change: called with it whenever it differs from the last time.

        Raises:
            WaitTimeout: it was not over in time. It goes on all the same.
        """
        until, last = None if timeout is None else time.monotonic() + timeout, None
        while True:
            found = self.redrive(redrive_id)
            if on_change and found != last:
                on_change(found)
                last = found
            if found["status"] != "running":
                return found
            if until is not None and time.monotonic() >= until:
                raise WaitTimeout(f"redrive {redrive_id} is still running after {timeout:g} s")
            time.sleep(LOOK_EVERY_S)

    def discard_all(self, reason: str | None = None, **filters: Any) -> int:
        """Put all that are open and fit aside; how many there were.

        Raises:
            InvalidInput: no filter is given.
        """
        body = without_none(reason=reason, **_named(filters))
        return int(self._http.send("POST", "/api/dlq/discard", body)["discarded"])

    def purge(self, older_than: str) -> int:
        """Delete what failed longer ago than, say, `30d`, open or not; how many there were."""
        return int(self._http.send("POST", "/api/dlq/purge", {"olderThan": older_than})["purged"])


_NAMES = {
    "pipeline_id": "pipelineId",
    "task_id": "taskId",
    "error_code": "errorCode",
}


def _named(filters: dict[str, Any]) -> dict[str, Any]:
    return {
        _NAMES.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in filters.items()
    }
