"""Read models of open waits: what runs wait for, and whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.documents.waits import Wait
from pipeweave.orchestrator.domain.waits import APPROVAL, NEVER, SIGNAL, TIMER, Signal, approval_name
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.orchestrator.waits import open_waits
from pipeweave.orchestrator.waits.approvals import GROUP
from pipeweave.orchestrator.waits.ending import vote_of

MOST_VOTES = 100
# A cursor has the microseconds since 1970, and none later than the year 5000.
_EPOCH, _MICROSECOND, _LAST = (
    datetime(1970, 1, 1, tzinfo=UTC),
    timedelta(microseconds=1),
    95_000_000_000_000_000,
)


@dataclass(frozen=True, slots=True)
class Person:
    """Who looks at waits: the name and the groups of a token."""

    name: str
    groups: Collection[str] = ()

    @property
    def names(self) -> list[str]:
        """As assignees are named."""
        return [self.name, *(f"{GROUP}{each}" for each in self.groups)]


@dataclass(frozen=True, slots=True)
class WaitFilter:
    """Which open waits.

    Args:
        is_mine: only approvals that the person may decide.
        older_than: only waits that began so long ago, or longer.
    """

    kind: str | None = None
    pipeline_id: str | None = None
    is_mine: bool = False
    older_than: timedelta | None = None
    run_id: UUID | None = None


_COLUMNS = """w.task_run_id, w.run_id, w.kind, w.names, w.created_at, w.due_at, w.timeout_at, w.data,
    w.root_run_id, r.pipeline_id, r.triggered_actor, t.step_id"""
_FROM = """FROM waits AS w JOIN runs AS r ON r.id = w.run_id
    JOIN task_runs AS t ON t.run_id = w.run_id AND t.id = w.task_run_id"""
_ONE = f"SELECT {_COLUMNS} {_FROM} WHERE w.run_id = :run_id AND w.task_run_id = :id"
_MINE = f"""w.kind = '{APPROVAL}' AND (jsonb_array_length(w.data -> 'assignees') = 0
    OR jsonb_exists_any(w.data -> 'assignees', CAST(:names AS text[])))
    AND NOT ((w.data ->> 'fourEyes') = 'true' AND r.triggered_actor IS NOT DISTINCT FROM :me)"""


def wait_list(
    tx: Transaction, tenant: str, page: PageRequest, chosen: WaitFilter, person: Person
) -> Document:
    """The open waits of a tenant, the oldest first: {items, nextCursor}."""
    where, parameters = (
        ["w.tenant_id = :tenant"],
        {"tenant": tenant, "names": person.names, "me": person.name},
    )
    if chosen.kind is not None:
        where.append("w.kind = :kind")
        parameters["kind"] = chosen.kind
    if chosen.pipeline_id is not None:
        where.append("r.pipeline_id = :pipeline")
        parameters["pipeline"] = chosen.pipeline_id
    if chosen.run_id is not None:
        where.append("w.run_id = CAST(:run AS uuid)")
        parameters["run"] = str(chosen.run_id)
    if chosen.is_mine:
        where.append(_MINE)
    if chosen.older_than is not None:
        where.append("w.created_at <= :before")
        parameters |= {"before": tx.now - chosen.older_than}  # type: ignore[dict-item]
    after = page.after("waits", int, UUID)
    if after is not None:
        where.append("(w.created_at, w.task_run_id) > (CAST(:since AS timestamptz), CAST(:last AS uuid))")
        parameters |= {"since": _moment(after[0]), "last": str(after[1])}  # type: ignore[dict-item]
    statement = f"""SELECT {_COLUMNS} {_FROM} WHERE {" AND ".join(where)}
        ORDER BY w.created_at, w.task_run_id LIMIT :limit"""
    rows: Sequence[Any] = tx.execute(statement, {**parameters, "limit": page.limit + 1}).all()
    votes = _votes(tx, rows[: page.limit])
    return page.cut(
        rows,
        "waits",
        lambda row: ((row.created_at - _EPOCH) // _MICROSECOND, row.task_run_id),
        lambda row: _wait(row, votes.get(row.task_run_id, ()), person),
    )


def wait(tx: Transaction, tenant: str, task_run_id: UUID, person: Person) -> Document:
    """One open wait.

    Raises:
        NotFound: the tenant has no such wait.
        WaitOver: it has ended.
    """
    open_waits.find(tx, tenant, task_run_id)
    key = {"run_id": ids.run_id_of(task_run_id), "id": task_run_id}
    row: Any = tx.execute(_ONE, key).one()
    return _wait(row, _votes(tx, [row]).get(task_run_id, ()), person)


def _wait(row: Any, votes: Sequence[Signal], person: Person) -> Document:
    data, is_sleep = row.data, row.kind == TIMER
    return Wait.of(
        row,
        names=row.names if row.kind == SIGNAL else [],
        since=row.created_at,
        wakes_at=row.due_at if is_sleep else None,
        timeout_at=None if is_sleep or _is_never(row.timeout_at) else row.timeout_at,
        has_default="default" in data,
        default=data.get("default"),
        title=data.get("title"),
        context=data.get("context"),
        form=data.get("form"),
        assignees=data.get("assignees", []),
        needs=data.get("needs"),
        options=data.get("options", []),
        four_eyes=data.get("fourEyes", False),
        tries=data.get("tries"),
        max_tries=data.get("maxTries"),
        last_answer=data.get("lastAnswer"),
        votes=[vote_of(each) for each in votes],
        is_mine=_is_mine(row, person),
    )


def _moment(microseconds: int) -> datetime:
    """The time of a cursor; one that no list has made may say any number."""
    return _EPOCH + min(max(0, microseconds), _LAST) * _MICROSECOND


def _is_never(moment: datetime) -> bool:
    return moment >= NEVER


def _is_mine(row: Any, person: Person) -> bool:
    if row.kind != APPROVAL or (row.data["fourEyes"] and row.triggered_actor == person.name):
        return False
    wanted = row.data["assignees"]
    return not wanted or not set(wanted).isdisjoint(person.names)


_VOTES = """
SELECT s.name, s.id, s.payload, s.payload_path, s.sent_by, s.sent_at, s.once
FROM unnest(CAST(:roots AS uuid[]), CAST(:names AS text[])) AS n(run_id, name) CROSS JOIN LATERAL (
    SELECT s.* FROM signals AS s WHERE s.run_id = n.run_id AND s.name = n.name ORDER BY s.id LIMIT :most) AS s
ORDER BY s.id
"""


def _votes(tx: Transaction, rows: Sequence[Any]) -> dict[UUID, list[Signal]]:
    """The votes on the approvals among these waits, by task run."""
    asked = {approval_name(row.task_run_id): row for row in rows if row.kind == APPROVAL}
    if not asked:
        return {}
    roots = [row.root_run_id for row in asked.values()]
    by_wait: dict[UUID, list[Signal]] = defaultdict(list)
    for name, *rest in tx.execute(_VOTES, {"roots": roots, "names": list(asked), "most": MOST_VOTES}):
        id, *others = rest
        by_wait[asked[name].task_run_id].append(Signal(id, name, *others))
    return by_wait


_STATE = """
SELECT t.status, t.attempt FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = :id AND t.tenant_id = :tenant
"""


def state(tx: Transaction, tenant: str, task_run_id: UUID) -> Document:
    """How it is with the step behind a wait: {taskRunId, status, attempt}."""
    key = {"run_id": ids.run_id_of(task_run_id), "id": task_run_id, "tenant": tenant}
    row: Any = tx.execute(_STATE, key).one()
    shown = ids.show(ids.TASK_RUN, task_run_id)
    return {"taskRunId": shown, "status": row.status, "attempt": row.attempt}
