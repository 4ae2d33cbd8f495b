"""Says of each task run in the line of a tenant what it waits for first, by the predicates of dispatch.

Those in one line wait for much the same (a task's limit, a queue's workers): what is known of it is read
once for all of a page.
"""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.diagnosis.why_held import Oldest
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.store import Transaction
from pipeweave.orchestrator.store.keyset import Document, Page
from pipeweave.orchestrator.store.remembering import Remembering


def items_with_reasons(
    tx: Transaction, tenant: str, page: Page, oldest: Oldest, *, is_serverless: bool = False, **filters: Any
) -> Document:
    """A page of `reading.queue_items` with the `reason` of each item: {code, text, …}, or None of one that
    runs, and of one that has ended or gone on in the meantime.

    Args:
        oldest: `Publisher.oldest`, for the messages in Redis.
        is_serverless: the tick dispatches to HTTP services, and no worker has to run for that.
        filters: of `reading.queue_items`.
    """
    found = reading.queue_items(tx, tenant, page, **filters)
    once = Remembering(tx)
    for item in found["items"]:
        first = None
        if item["status"] != TaskStatus.RUNNING:
            id = ids.read(ids.TASK_RUN, item["id"])
            first = why.first_reason(once, tenant, id, oldest, is_serverless=is_serverless)
        item["reason"] = first and first.to_json()
    return found
