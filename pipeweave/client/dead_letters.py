"""List, retry and discard dead letters over HTTP: `client.dlq.all()`, `client.dlq.retry(id)`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pipeweave.client.http import Transport
from pipeweave.client.models import Document, Page, checked_id, document_of, without_none
from pipeweave.errors import WaitTimeout

# `wait` polls a redrive at this interval (s).
POLL_INTERVAL_S = 0.5


class DeadLetters:
    """The dead letters of a tenant: task runs that failed and are not retried any more.

    The `filters` of its methods are `pipeline_id`, `pipeline_run_id`, `task_run_id`, `task_id`, `error_code`,
    `fingerprint` (equal for similar errors), `since` and `until` (time of the failure: aware datetimes, or
    texts like 2026-11-20T12:00:00Z).
    """

    def __init__(self, http: Transport) -> None:
        self._http = http

    def page(
        self,
        /,
        *,
        status: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        id_prefix: str | None = None,
        **filters: Any,
    ) -> Page:
        """List one page of dead letters, newest first.

        Args:
            status: `open` (neither retried nor discarded), `retried`, `discarded` or `all`; None for `open`.
            limit: rows per page, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
            id_prefix: only dead letters whose id begins like this, with or without `dlq_`.
            filters: see the class.
        """
        query = {
            "status": status,
            "limit": limit,
            "cursor": cursor,
            "idPrefix": id_prefix,
            **_named(filters),
        }
        answer = document_of(self._http.get("/api/dlq", query))
        return Page(list(answer["items"]), answer["nextCursor"])

    def all(self, /, *, status: str | None = None, **filters: Any) -> Iterator[Document]:
        """Iterate over all dead letters, newest first, page by page."""
        cursor = None
        while True:
            page = self.page(status=status, limit=500, cursor=cursor, **filters)
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    def groups(
        self, /, *, status: str | None = None, limit: int | None = None, **filters: Any
    ) -> list[Document]:
        """Group dead letters by similar errors, the largest group first: {fingerprint, count, ...}."""
        query = {"status": status, "limit": limit, **_named(filters)}
        return list(document_of(self._http.get("/api/dlq/groups", query))["groups"])

    def get(self, letter_id: str, *, load: bool = False) -> Document:
        """Read a dead letter: its input, its attempts with tracebacks, the task's code version then and now.

        Args:
            letter_id: the dead letter.
            load: also load a large input from storage.

        Raises:
            NotFound: there is no such dead letter.
        """
        query = {"load": "true"} if load else {}
        return document_of(self._http.get(f"/api/dlq/{checked_id(letter_id)}", query))

    def retry(self, letter_id: str) -> Document:
        """Retry a dead letter with the current code: {newRunId, taskRunId, status, codeVersion}.

        A pipeline's run continues from the failed step.

        Raises:
            NotFound: there is no such dead letter.
            Conflict: it was retried or discarded before, or its run cannot continue.
            Unavailable: the deployment is in maintenance and accepts no new work.
        """
        return document_of(self._http.send("POST", f"/api/dlq/{checked_id(letter_id)}/retry", {}))

    def discard(self, letter_id: str, reason: str | None = None) -> Document:
        """Mark a dead letter as discarded, so that it is no longer open.

        Raises:
            NotFound: there is no such dead letter.
            Conflict: it was retried or discarded before.
        """
        path = f"/api/dlq/{checked_id(letter_id)}/discard"
        return document_of(self._http.send("POST", path, without_none(reason=reason)))

    def retry_all(
        self,
        /,
        limit: int | None = None,
        canary: int | None = None,
        per_second: float | None = None,
        stop_on_same_fingerprint: float | None = None,
        **filters: Any,
    ) -> Document:
        """Start a redrive of all open dead letters that match the filters: {id, status, total, ...}.

        Args:
            limit: how many are retried at most.
            canary: so many are retried first, and the others only when these have ended well enough.
            per_second: retries in a second, at most.
            stop_on_same_fingerprint: stop when more than this share of the retries that ended (percent)
                failed again as before; 50 after a canary, and never without one.
            filters: as of `page`.
        """
        pace = without_none(
            limit=limit,
            canary=canary,
            perSecond=per_second,
            stopOnSameFingerprint=stop_on_same_fingerprint,
        )
        body = {**without_none(**_named(filters)), **pace}
        return document_of(self._http.send("POST", "/api/dlq/retry-all", body))

    def redrive(self, redrive_id: str) -> Document:
        """Read the progress of a redrive: {status, total, retried, skipped, ...}.

        Raises:
            NotFound: there is no such redrive.
        """
        return document_of(self._http.get(f"/api/dlq/redrives/{checked_id(redrive_id)}"))

    def redrives(self, *, id_prefix: str | None = None, limit: int | None = None) -> list[Document]:
        """List the newest redrives.

        Args:
            id_prefix: only redrives whose id begins like this, with or without `rdr_`.
            limit: how many at most, 1 to 1,000; None for 50.
        """
        answer = self._http.get("/api/dlq/redrives", {"idPrefix": id_prefix, "limit": limit})
        return list(document_of(answer)["redrives"])

    def cancel_redrive(self, redrive_id: str) -> Document:
        """Stop a redrive; the runs that it has retried continue.

        Raises:
            NotFound: there is no such redrive.
            Conflict: the redrive has ended already.
        """
        path = f"/api/dlq/redrives/{checked_id(redrive_id)}/cancel"
        return document_of(self._http.send("POST", path, {}))

    def wait(
        self,
        redrive_id: str,
        timeout: float | None = None,
        on_change: Callable[[Document], None] | None = None,
    ) -> Document:
        """Poll a redrive until it ends.

        Args:
            redrive_id: the redrive.
            timeout: seconds to wait at most; None waits without limit.
            on_change: called with the redrive whenever the API's answer differs from the answer before.

        Raises:
            WaitTimeout: the redrive has not ended yet; it continues.
        """
        until, last = None if timeout is None else time.monotonic() + timeout, None
        while True:
            redrive = self.redrive(redrive_id)
            if on_change and redrive != last:
                on_change(redrive)
                last = redrive
            if redrive["status"] != "running":
                return redrive
            if until is not None and time.monotonic() >= until:
                raise WaitTimeout(f"redrive {redrive_id} is still running after {timeout:g} s")
            time.sleep(POLL_INTERVAL_S)

    def discard_all(self, /, reason: str | None = None, **filters: Any) -> int:
        """Discard all open dead letters that match the filters; return their number.

        Raises:
            InvalidInput: no filter is given.
        """
        body = without_none(reason=reason, **_named(filters))
        return self._until_no_more("/api/dlq/discard", body, "discarded")

    def purge(self, older_than: str) -> int:
        """Delete the dead letters that failed longer ago than e.g.

        `30d`, whether open or not; return their number.
        """
        return self._until_no_more("/api/dlq/purge", {"olderThan": older_than}, "purged")

    def _until_no_more(self, path: str, body: Document, counted: str) -> int:
        """Send the request until nothing is left; one request handles a part of very many."""
        count = 0
        while True:
            answer = self._http.send("POST", path, body)
            count += int(answer[counted])
            if not answer.get("more"):
                return count


_NAMES = {
    "pipeline_id": "pipelineId",
    "pipeline_run_id": "pipelineRunId",
    "task_run_id": "taskRunId",
    "task_id": "taskId",
    "error_code": "errorCode",
}


def _named(filters: dict[str, Any]) -> dict[str, Any]:
    return {
        _NAMES.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in filters.items()
    }
