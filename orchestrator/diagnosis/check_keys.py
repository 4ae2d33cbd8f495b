"""Doctor's check of the key ring: which keys of PIPEWEAVE_SECRET_KEY are still needed."""

from __future__ import annotations

from pipeweave.key_ring import key_id, keys_of
from pipeweave.orchestrator.deployment.sealed_columns import SEALED
from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.orchestrator.security import rewrapping
from pipeweave.settings import Settings

# Calls whose dispatch or callback URL an earlier key may have signed.
_OPEN = """
SELECT (SELECT count(*) FROM task_runs AS t WHERE t.status = 'running' AND t.dispatched_at IS NOT NULL)
    + (SELECT count(*) FROM waits AS w WHERE w.kind = 'callback')
"""


def keys(settings: Settings) -> Verdict:
    """Every stored secret is sealed with the first key, and no earlier key is there without need."""
    if settings.secret_key is None:
        return fine("PIPEWEAVE_SECRET_KEY is not set")
    earlier = keys_of(settings.secret_key)[1:]
    with read_transaction(settings) as tx:
        old = rewrapping.count_old(tx, settings.secret_key, SEALED)
        still_open = tx.execute(_OPEN).scalar_one() if earlier else 0
    if old:
        counts = ", ".join(f"{count} of {name}" for name, count in old.items())
        return warning(
            f"stored secrets are not sealed with the first key: {counts}", "run `pipeweave secrets rewrap`"
        )
    if not earlier:
        return fine("one key, and every stored secret is sealed with it")
    named = ", ".join(map(key_id, earlier))
    if still_open:
        return fine(
            f"no stored secret needs the earlier keys ({named}); {still_open} open calls may: keep the keys "
            "until the calls that began before the change have ended"
        )
    return fine(f"nothing needs the earlier keys ({named}): they can be removed")


CHECK = Check("secret keys", keys, needs=("schema",))
