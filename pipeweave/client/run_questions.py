"""Ask about a run over HTTP: its attempts, how it differs from another run, whether it agrees with its
events, and why it does not go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeweave.client.models import Document, checked_id, document_of
from pipeweave.client.paging import PAGE_SIZE, Methods


class RunQuestionMethods(Methods):
    """The methods of the client that explain runs."""

    def attempts(self, /, run_id: str, **filters: Any) -> Iterator[Document]:
        """Iterate over every attempt of a run that began, page by page.

        Args:
            run_id: the run.
            filters: `status` (`failed`, `lost`, …) and `stepId`.
        """
        path = f"/api/runs/{checked_id(run_id)}/attempts"
        return self._all(path, "attempts", {"limit": PAGE_SIZE, **filters})

    def run_logs(self, /, run_id: str, **filters: Any) -> Document:
        """Read a page of what all attempts of a run have logged, by time: {logs, attempts, attemptsRead,
        isCut, isComplete, nextCursor}. The logs of at most 50 attempts are read, those that failed first.

        Args:
            run_id: the run.
            filters: parameters of the API: `order` (`newest` or `oldest`), `stepId`, `level`, `text`,
                `limit`, and `cursor`, `nextCursor` of the page before.

        Raises:
            NotFound: there is no such run.
        """
        return document_of(self._http.get(f"/api/runs/{checked_id(run_id)}/logs", filters))

    def compare(self, run_id: str, other: str, limit: int | None = None) -> Document:
        """Compare two runs of a pipeline: {left, right, deltaMs, input, version, counts, steps}.

        Args:
            run_id: the run on the left.
            other: the run on the right.
            limit: only so many steps, those that make most of the difference in time.

        Raises:
            NotFound: there is no such run. InvalidInput: they are of different pipelines.
        """
        path = f"/api/runs/{checked_id(run_id)}/compare/{checked_id(other)}"
        return document_of(self._http.get(path, {"limit": limit}))

    def verify_run(self, run_id: str) -> Document:
        """Rebuild a run from its events and compare: {isEqual, differences, events}. Nothing is changed.

        Raises:
            NotFound: there is no such run. LimitExceeded: it has too many events for a request.
        """
        return document_of(self._http.send("POST", f"/api/runs/{checked_id(run_id)}/verify", {}))

    def why_run(self, run_id: str) -> Document:
        """Explain why a run does not go on: {summary, open, running, waiting, reasons}; the reasons of its
        open task runs are summed.

        Raises:
            NotFound: there is no such run.
        """
        return document_of(self._http.get(f"/api/runs/{checked_id(run_id)}/why"))

    def forecast(self, run_id: str) -> Document:
        """Read when a run will probably end: {leftMs, endsAt, runs, tooFewRuns, unknownSteps}.

        Raises:
            NotFound: there is no such run.
        """
        return document_of(self._http.get(f"/api/runs/{checked_id(run_id)}/forecast"))
