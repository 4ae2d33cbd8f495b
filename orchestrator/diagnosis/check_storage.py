"""Doctor's check of the sweep: objects that no row refers to are deleted in every storage backend."""

from __future__ import annotations

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.settings import Settings
from pipeweave.storage import Backends

_ROWS = "SELECT backend_id, error, finished_at FROM storage_sweeps"


def swept(settings: Settings) -> Verdict:
    """The last pass over each backend could go on."""
    with read_transaction(settings) as tx:
        rows = {row.backend_id: row for row in tx.execute(_ROWS)}
    known = [(each, rows.get(each)) for each in Backends.of(settings).ids]
    stuck = [(name, row.error) for name, row in known if row is not None and row.error is not None]
    if stuck:
        shown = "; ".join(f"{name}: {why}" for name, why in stuck)
        return warning(
            f"old objects are not deleted: {shown}",
            "`pipeweave storage sweep --dry-run` shows what would go; if a backend is this deployment's: "
            "`pipeweave storage sweep --adopt`",
        )
    last = min((row.finished_at for _, row in known if row is not None), default=None)
    return fine("no pass yet" if last is None else f"the tick looks for old objects, last at {iso(last)}")


CHECK = Check("storage sweep", swept, needs=("schema", "storage"))
