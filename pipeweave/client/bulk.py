"""Change many runs over HTTP: start a bulk change, follow it, stop it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeweave.client.models import Document, Page, checked_id, document_of, without_none
from pipeweave.client.paging import PAGE_SIZE, Methods


class BulkMethods(Methods):
    """The methods of the client about bulk changes."""

    def bulk(
        self,
        action: str,
        filter: Mapping[str, Any],
        *,
        reason: str | None = None,
        from_step: str | None = None,
        version: str | int | None = None,
        limit: int | None = None,
        per_second: float | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Document:
        """Do an action to all runs that match, however many: {id, status, total, changed, skipped, ...}.

        Args:
            action: `cancel`, `pause`, `resume`, `rerun`, or `retry` for their dead letters.
            filter: which runs, as the API names them; at least one of `ids`, `status`, `pipelineId` and
                `meta` (lists), `triggeredBy`, `createdAfter`, `createdBefore`, `text`, `version`,
                `minMs`, `taskId`.
            reason: of a cancel or a pause; stored with each run.
            from_step, version: of a rerun, as for `rerun`.
            limit: how many runs are changed at most.
            per_second: how many in a second, at most.
            dry_run: only count the runs: {matched, isComplete, skipped, byStatus, sample}.
            idempotency_key: a second request with the same key finds the bulk change of the first.

        Raises:
            InvalidInput: no filter was given, or something is wrong.
            Conflict: the key is that of another request.
        """
        body = without_none(
            action=action,
            filter=dict(filter),
            reason=reason,
            fromStep=from_step,
            version=version,
            limit=limit,
            perSecond=per_second,
            idempotencyKey=idempotency_key,
        )
        return document_of(self._http.send("POST", "/api/bulk", {**body, "dryRun": dry_run}))

    def bulk_changes(self, /, **paging: Any) -> Page:
        """List one page of bulk changes, newest first: `limit`, `cursor`."""
        return self._page("/api/bulk", "bulkChanges", paging)

    def bulk_change(self, bulk_id: str) -> Document:
        """Read the progress of a bulk change.

        Raises:
            NotFound: there is no such bulk change.
        """
        return document_of(self._http.get(f"/api/bulk/{checked_id(bulk_id)}"))

    def bulk_runs(self, bulk_id: str, outcome: str | None = None) -> Iterator[Document]:
        """Iterate over the runs that a bulk change has come to: {runId, outcome, newRunId, error, ...}.

        Args:
            outcome: `changed` or `skipped`; None for both.

        Raises:
            NotFound: there is no such bulk change.
        """
        filters = {"limit": PAGE_SIZE, **without_none(outcome=outcome)}
        return self._all(f"/api/bulk/{checked_id(bulk_id)}/runs", "runs", filters)

    def stop_bulk(self, bulk_id: str) -> Document:
        """Stop a bulk change; what it has changed stays changed.

        Raises:
            NotFound: there is no such bulk change.
            Conflict: it has ended already.
        """
        return document_of(self._http.send("POST", f"/api/bulk/{checked_id(bulk_id)}/cancel", {}))
