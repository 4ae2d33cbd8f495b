"""Says of each task run in the line of a tenant what it waits for first, by the predicates of dispatch.

Those in one line wait for much the same (a task's limit, a queue's workers): that is read once for a page,
and so are their rows. What is left is one statement for each: its own place in line.
"""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.diagnosis.why_held import Oldest
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.store import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest


def items_with_reasons(
    tx: Transaction,
    tenant: str,
    page: PageRequest,
    oldest: Oldest,
    *,
    is_serverless: bool = False,
    **filters: Any,
) -> Document:
    """A page of `reading.queue_items` with the `reason` of each item: {code, text, …}, or None of one that
    runs, and of one that has ended or gone on in the meantime.

    Args:
        oldest: `Publisher.oldest`, for the messages in Redis.
        is_serverless: the tick dispatches to HTTP services, and no worker has to run for that.
        filters: of `reading.queue_items`.
    """
    listing = reading.queue_items(tx, tenant, page, **filters)
    waiting = {
        item["id"]: ids.read(ids.TASK_RUN, item["id"])
        for item in listing["items"]
        if item["status"] != TaskStatus.RUNNING
    }
    reasons = why.first_reasons(tx, tenant, list(waiting.values()), oldest, is_serverless=is_serverless)
    for item in listing["items"]:
        first = reasons.get(waiting[item["id"]]) if item["id"] in waiting else None
        item["reason"] = first and first.to_json()
    return listing
