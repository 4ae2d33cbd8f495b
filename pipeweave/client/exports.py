"""Export runs, task runs, attempts, events, logs and the audit over HTTP, however many they are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pipeweave.client.models import Document, checked_id
from pipeweave.client.paging import Methods
from pipeweave.errors import FieldError, InvalidInput, TooManyRequests, Unavailable

KINDS = ("runs", "task-runs", "attempts", "events", "logs", "audit")
# An export that gets nowhere is asked for again so often, and at first after so long (s).
TRIES = 8
FIRST_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class ExportPage:
    """A page of an export.

    Args:
        lines: each a JSON document, without its line feed.
        cursor: an export that begins there goes on after these lines.
        is_last: nothing more was there.
    """

    lines: Sequence[bytes]
    cursor: str
    is_last: bool


class ExportMethods(Methods):
    """The methods of the client that export."""

    def export(self, /, kind: str, *, after: str | None = None, **filters: Any) -> Iterator[Document]:
        """Iterate over the rows of runs, the oldest run first. A broken connection does not end it.

        Args:
            kind: `runs`, `task-runs`, `attempts`, `events`, `logs`; or `audit`, for administrators.
            after: the cursor of an `ExportPage`: go on after it.
            filters: parameters of the API: `run`, `standalone`, and those of the list of runs, e.g. `status`,
                `pipelineId` (one, or a list), `createdAfter`, `text`, `meta`; of the audit `actor`, `verb`,
                `object`, `since`, `until`.

        Raises:
            InvalidInput: there is no such kind, or a filter or the cursor is not valid.
            Unavailable: the API cannot be reached, or answers no longer.
        """
        for page in self.export_pages(kind, after=after, **filters):
            for line in page.lines:
                yield orjson.loads(line)

    def export_pages(self, /, kind: str, *, after: str | None = None, **filters: Any) -> Iterator[ExportPage]:
        """As `export`, page by page and with the cursor after each, to go on from there another time."""
        if kind not in KINDS:
            expected = ", ".join(KINDS)
            raise InvalidInput(
                f"there is no export of {kind!r}",
                errors=[FieldError("kind", "is not exported", "invalid_enum_value", expected)],
            )
        tries = 0
        while True:
            before = after
            try:
                for page in self._some_pages(f"/api/export/{kind}", {**filters, "after": after}):
                    tries, after = (tries if page.cursor == before else 0), page.cursor
                    yield page
                    if page.is_last:
                        return
                if after == before:
                    raise Unavailable("the export does not go on: its answers have no further row")
            except (Unavailable, TooManyRequests):
                tries += 1
                if tries == TRIES:
                    raise
                time.sleep(FIRST_PAUSE_S * 2 ** (tries - 1))

    def export_tenant(self, tenant: str) -> Iterator[ExportPage]:
        """Export all rows of a tenant, of one moment, page by page: lines `{"table": …, "row": {…}}`, before
        them `{"export": {…}}`, after them `{"manifest": {…}}`. For operators.

        Raises:
            NotFound: there is no such tenant.
            Unavailable: the API cannot be reached, or the answer broke off: drop what came, and begin anew.
        """
        is_complete = False
        for page in self._some_pages(f"/api/tenants/{checked_id(tenant)}/export", {}):
            is_complete = page.is_last
            yield page
        if not is_complete:
            raise Unavailable(f"the export of tenant {tenant!r} broke off; begin it anew")

    def _some_pages(self, path: str, query: Mapping[str, Any]) -> Iterator[ExportPage]:
        """The pages of one answer. What came behind the last cursor of a broken answer is dropped."""
        lines: list[bytes] = []
        for line in self._http.lines(path, query):
            # Only the line after a page begins so: rows have other members first.
            if not line.startswith(b'{"cursor":'):
                lines.append(line)
                continue
            end = orjson.loads(line)
            yield ExportPage(lines, end["cursor"], end.get("isComplete") is True)
            lines = []
            if "error" in end:
                raise Unavailable(f"the export broke off: {end['error']['detail']}")
