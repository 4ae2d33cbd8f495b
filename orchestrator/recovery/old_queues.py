"""Forgets the own queues of worker processes that are gone for long, with what is left of them in Redis.

Each deployed code has an own queue. What waited there was placed again when its last worker left
(queueing/placement.py); its keys in Redis are all that remains.
"""

from __future__ import annotations

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store.database import Transaction

# Queues that one look forgets at most.
BATCH = 100

# Between these times, each of several looks finds a worker; then its row is deleted (retention/expiry.py).
_OLD = """
SELECT DISTINCT w.own_queue FROM workers AS w
WHERE w.stopped_at BETWEEN now() - interval '2 days' AND now() - interval '1 day' AND w.own_queue IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM workers AS l WHERE l.own_queue = w.own_queue
      AND (l.stopped_at IS NULL OR l.stopped_at > now() - interval '1 day'))
LIMIT :most
"""


def run_once(deployment: Deployment) -> int:
    """Forget the queues of workers that stopped a day ago. Returns their number."""
    with deployment.database.statements() as tx:
        return forget(tx, deployment.publisher)


def forget(tx: Transaction, publisher: Publisher) -> int:
    """Forget old queues; none while the broker is away. Returns their number."""
    queues: list[str] = list(tx.execute(_OLD, {"most": BATCH}).scalars())
    try:
        for queue in queues:
            publisher.forget(queue)
    except Unavailable:
        return 0
    return len(queues)
