"""Enqueue runs in the transaction of the caller: `pipeweave.enqueue` and its three sisters.

The row that asks for a run is written over the caller's own connection. Beat starts the run when the caller's
transaction has been committed (orchestrator/starts/enqueued). This room must never begin, commit or roll back
a transaction, and imports no driver: it uses the one that the caller's connection is of.
"""

from pipeweave.enqueueing.asynchronous import enqueue_async, enqueue_many_async
from pipeweave.enqueueing.synchronous import enqueue, enqueue_many

__all__ = ["enqueue", "enqueue_async", "enqueue_many", "enqueue_many_async"]
