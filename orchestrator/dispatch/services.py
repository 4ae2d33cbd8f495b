"""Reads what a dispatch has to know of its service, and chooses the instance that gets it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.registry import instances
from pipeweave.orchestrator.registry.instances import Instance
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.storage.tokens import Format

# A process reads a service again after so long (s): dispatches come by the hundred.
READ_EVERY_S = 1.0
MOST_READ = 1_000


@dataclass(frozen=True, slots=True)
class DispatchService:
    """A service, as the dispatches of one of its tasks see it.

    Args:
        is_disabled: an operator switched it off.
        timeout: how long an attempt may take (s), unless its step says so itself (`timeout_of`).
        parameters: of the task, in their order; None when it has registered none.
        instances: first those that take dispatches, then the longest set aside.
    """

    tenant: str
    id: str
    storage_access: str
    token_format: Format
    is_disabled: bool
    heartbeat_interval_ms: int
    timeout: float
    instances: Sequence[Instance]
    parameters: tuple[str, ...] | None = None

    def candidates(self, task_id: str, chance: Callable[[Sequence[Any], int], list[Any]]) -> list[Instance]:
        """The instances that may get a dispatch, in the order in which they are tried.

        Those that take dispatches, in any order; if there is none, the one that was set aside first: it may
        be back before the tick has asked it. One that drains gets none.
        """
        mine = [each for each in self.instances if task_id in each.tasks and not each.drains]
        ready = [each for each in mine if each.set_aside_at is None]
        return chance(ready, len(ready)) if ready else mine[:1]

    def is_ready(self, task_id: str) -> bool:
        """Whether an instance takes dispatches of a task: it is neither set aside nor draining."""
        mine = (each for each in self.instances if task_id in each.tasks and not each.drains)
        return not self.is_disabled and any(each.set_aside_at is None for each in mine)

    def timeout_of(self, run: RunHeader, step_id: str) -> float:
        """How long an attempt of a step may take (s)."""
        own = run.own_timeout_s(step_id)
        return self.timeout if own is None else own

    def only_drains(self, task_id: str) -> bool:
        """Whether a dispatch has to wait, because all instances that have its task drain."""
        mine = [each for each in self.instances if task_id in each.tasks]
        return bool(mine) and all(each.drains for each in mine)


_SERVICE = """
SELECT s.id, s.storage_access, s.token_format, s.disabled_at IS NOT NULL AS is_disabled,
    k.heartbeat_interval_ms, k.timeout_seconds, k.parameters
FROM tasks AS k JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id
WHERE k.tenant_id = :tenant AND k.id = :task
"""


def read(tx: Transaction, tenant: str, task_id: str) -> DispatchService | None:
    """The service of a task; None when the task is not registered any more."""
    row: Any = tx.execute(_SERVICE, {"tenant": tenant, "task": task_id}).one_or_none()
    if row is None:
        return None
    return DispatchService(
        tenant,
        row.id,
        row.storage_access,
        row.token_format,
        row.is_disabled,
        row.heartbeat_interval_ms,
        row.timeout_seconds,
        tuple(instances.of_service(tx, tenant, row.id)),
        None if row.parameters is None else tuple(each["name"] for each in row.parameters["fields"]),
    )


@dataclass(slots=True)
class Services:
    """The services that this process dispatches to, read again every READ_EVERY_S."""

    database: Database
    chance: Callable[[Sequence[Any], int], list[Any]] = random.sample
    _known: dict[tuple[str, str], tuple[float, DispatchService | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_task(self, tenant: str, task_id: str, *, is_new: bool = False) -> DispatchService | None:
        """The service of a task; None when the task is not registered any more.

        Args:
            is_new: read it now, whatever this process knows.
        """
        key, now = (tenant, task_id), time.monotonic()
        with self._lock:
            known = self._known.get(key)
        if known is not None and not is_new and now < known[0] + READ_EVERY_S:
            return known[1]
        with self.database.statements() as tx:
            service = read(tx, tenant, task_id)
        with self._lock:
            if len(self._known) >= MOST_READ:
                self._known.clear()
            self._known[key] = (now, service)
        return service

    def known(self, tenant: str, task_id: str) -> DispatchService | None:
        """The service of a task as it was read last, however long ago; None where it was not."""
        with self._lock:
            known = self._known.get((tenant, task_id))
        return None if known is None else known[1]

    def forget(self) -> None:
        """Read every service again at its next dispatch: an instance was set aside."""
        with self._lock:
            self._known.clear()
