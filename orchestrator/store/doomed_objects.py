"""Asks whether the sweep is deleting an object at this moment.

The sweep writes down what it deletes, looks again how old it is, and deletes. Who needs an old object again
writes it anew, looks here, waits until it is not written down any more, and looks whether it is still there.
So whichever of the two comes first, the object is there in the end, and nobody holds a lock while storage is
asked.
"""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Database
from pipeweave.storage import ObjectRef

_IS_DOOMED = """
SELECT EXISTS (SELECT 1 FROM storage_sweeps
    WHERE backend_id = :backend AND doomed_until > clock_timestamp() AND :path = ANY(doomed))
"""


def is_doomed(database: Database, where: ObjectRef) -> bool:
    """Whether an object is written down for deletion.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.reading() as tx:
        answer = tx.execute(_IS_DOOMED, {"backend": where.backend, "path": where.path})
        return bool(answer.scalar_one())
