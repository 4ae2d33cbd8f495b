"""Read the health of the deployment over HTTP, drain it for maintenance, and run a tick."""

from __future__ import annotations

from pipeweave.client.models import Document, document_of, without_none
from pipeweave.client.paging import Methods


class OperationMethods(Methods):
    """The methods of the client about the deployment as a whole."""

    def health(self) -> Document:
        """Read `GET /health`.

        Raises:
            Unavailable: the API cannot be reached, or it cannot reach PostgreSQL or the broker.
        """
        return document_of(self._http.get("/health"))

    def info(self) -> Document:
        """Read the version, mode and limits of the orchestrator."""
        return document_of(self._http.get("/api/info"))

    def maintenance(self) -> Document:
        """Read the deployment's mode and its open runs: `blocking` (the oldest 20), `blockingTotal`, and
        `emptyInMs`, about when the last of them ends; None when nobody knows.
        """
        return document_of(self._http.get("/api/maintenance"))

    def deployment_limit(self) -> Document:
        """Read how many task runs of all tenants may be at work, and how many are: {maxRunningTaskRuns,
        runningTaskRuns}. For administrators.
        """
        return document_of(self._http.get("/api/deployment/limit"))

    def set_deployment_limit(self, max_running_task_runs: int | None) -> Document:
        """Limit the task runs of all tenants that are at work; None for no limit. For administrators."""
        body = {"maxRunningTaskRuns": max_running_task_runs}
        return document_of(self._http.send("PUT", "/api/deployment/limit", body))

    def request_maintenance(self, reason: str | None = None) -> Document:
        """Stop accepting new work; maintenance begins when the last open run ends. For administrators."""
        return document_of(self._http.send("POST", "/api/maintenance/request", without_none(reason=reason)))

    def enter_maintenance(self, reason: str | None = None) -> Document:
        """Begin maintenance if no run is open, else change nothing. For administrators.

        Raises:
            Conflict: maintenance was not requested.
        """
        return document_of(self._http.send("POST", "/api/maintenance/enter", without_none(reason=reason)))

    def exit_maintenance(self, reason: str | None = None) -> Document:
        """End maintenance and accept new work again. For administrators.

        Raises:
            Conflict: maintenance was not requested.
        """
        return document_of(self._http.send("POST", "/api/maintenance/exit", without_none(reason=reason)))

    def tick(self) -> Document:
        """Run one tick, as beat does every second: {processed, did, message}."""
        return document_of(self._http.send("POST", "/api/tick", {}))
