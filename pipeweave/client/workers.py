"""Workers over HTTP: what they do, and their drain."""

from __future__ import annotations

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.paging import Methods


class WorkerMethods(Methods):
    """The methods of the client about workers."""

    def workers(self, *, state: str | None = None, service: str | None = None) -> list[Document]:
        """List Celery's worker processes and the instances of HTTP services, those that live first.

        Args:
            state: `running`, `stalled`, `draining`, `stopped` or `crashed`; None for all of them.
            service: only the workers of this service.
        """
        return list(self._all("/api/workers", "workers", without_none(state=state, service=service)))

    def worker(self, worker_id: str) -> Document:
        """Read a worker with what it has loaded, what it runs now, and the attempts that were lost with it.

        Raises:
            NotFound: there is no such worker.
        """
        answer = document_of(self._http.get(f"/api/workers/{checked_id(worker_id)}"))
        return document_of(answer["worker"])

    def drain_worker(self, worker_id: str, reason: str | None = None) -> Document:
        """Let a worker take nothing more; what it calls already goes on. Needs an administrator's token.

        Raises:
            NotFound: there is no such worker. Conflict: it has ended.
        """
        path = f"/api/workers/{checked_id(worker_id)}/drain"
        return document_of(document_of(self._http.send("POST", path, without_none(reason=reason)))["worker"])

    def resume_worker(self, worker_id: str) -> Document:
        """Let a worker that drains take work again. Needs an administrator's token.

        Raises:
            NotFound: there is no such worker. Conflict: it does not drain, or it has ended.
        """
        path = f"/api/workers/{checked_id(worker_id)}/resume"
        return document_of(document_of(self._http.send("POST", path, {}))["worker"])
