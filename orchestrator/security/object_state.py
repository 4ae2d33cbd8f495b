"""Reads what the audit tells of an object before and after a change, as the object's room declares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Audited:
    """What the audit tells of one kind of objects: statements with one column `state`, an object of JSON.

    Without a statement it tells nothing: of kinds of which a verb changes many at once, or that have no row.
    Each room has `AUDITED` in its `audited_objects`, by kind, over tables of its own.

    Args:
        by_name: gets `:tenant`, and `:object`, the name that a request has; None: they have ids only.
        by_id: gets `:tenant` and `:id`, and `:run_id` as the ids of task runs have it; None: they have names
            only.
        prefix: of their ids; needed for `by_id`.
    """

    by_name: str | None = None
    by_id: str | None = None
    prefix: str = ""


def state_of(tx: Transaction, audited: Audited, tenant: str | None, object: str) -> dict[str, Any]:
    """What the audit tells of an object now; empty when there is none, or its id cannot be read.

    Args:
        tenant: whose object it is; None for one of the whole deployment.
        object: its id or its name as a request has it.
    """
    id = _id(audited.prefix, object) if audited.by_id else None
    statement = audited.by_id if id else audited.by_name
    if statement is None:
        return {}
    name = object.replace("\0", "")
    run_id = ids.run_id_of(id) if id else None
    row = tx.execute(statement, {"tenant": tenant, "object": name, "id": id, "run_id": run_id}).first()
    state: dict[str, Any] = (row.state if row else None) or {}
    return state


def _id(prefix: str, object: str) -> UUID | None:
    try:
        return ids.read(prefix, object)
    except PipeWeaveError:
        return None
