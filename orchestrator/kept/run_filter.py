"""The filters of the list of runs: those that an index serves, and those for which rows are looked through.

A run's id is ordered by time: bounds of time become bounds of the id, so PostgreSQL reads only the partitions
in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.run_kinds_sql import TOP

# A text that begins so is an id, or the beginning of one.
_ID = f"{ids.RUN}_"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs of a tenant; all that is given must hold.

    Args:
        status: one of these.
        pipeline_id: of one of these pipelines.
        created_after: created at this time or later.
        created_before: created earlier than this time.
        id_prefix: whose id begins like this.
        triggered_kind: that such a thing began, one of TRIGGER_KINDS.
        text: with this text in the error, the metadata or the input, whatever its case.
        metadata: with these values in their metadata.
        version: of this version of their pipeline.
        min_ms: that took so long (ms), or have run for so long.
        task_id: with a step that is this task.
        has_children: with those that belong to a step of another run, which are left out otherwise.
        parent: of those, the children of this run.
        parent_step: of those, the ones that this task run of it has started.
    """

    status: Sequence[str] = ()
    pipeline_id: Sequence[str] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    id_prefix: str | None = None
    triggered_kind: str | None = None
    text: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None
    min_ms: int | None = None
    task_id: str | None = None
    has_children: bool = False
    parent: UUID | None = None
    parent_step: UUID | None = None

    @property
    def sought_id(self) -> str | None:
        """The beginning of the id that is asked for."""
        if self.id_prefix is None and self.text is not None and self.text.startswith(_ID):
            return self.text
        return self.id_prefix

    @property
    def sought_text(self) -> str | None:
        return None if self.text is None or self.text.startswith(_ID) else self.text

    @property
    def looks_through_rows(self) -> bool:
        """Whether no index serves one of its parts."""
        parts = (self.sought_text, self.version, self.min_ms, self.task_id)
        return bool(self.metadata) or any(each is not None for each in parts)


def indexed(chosen: RunFilter, after: UUID | None) -> tuple[list[str], dict[str, Any]]:
    """The conditions that an index serves, and their parameters; those with several values are left out.

    Raises:
        NotFound: no id begins like that.
    """
    sought = chosen.sought_id
    first, last = (None, None) if sought is None else ids.span(ids.RUN, sought)
    bounds = {
        "r.status = :status": _only(chosen.status),
        "r.pipeline_id = :pipeline_id": _only(chosen.pipeline_id),
        "r.id < :after": after,
        "r.id >= :oldest": chosen.created_after and first_id(chosen.created_after),
        "r.id < :newest": chosen.created_before and first_id(chosen.created_before),
        "r.id >= :first": first,
        "r.id <= :last": last,
        "r.triggered_kind = :triggered_kind": chosen.triggered_kind,
        "r.parent_run_id = :parent": chosen.parent,
        "r.parent_task_run_id = :parent_step": chosen.parent_step,
    }
    where = ["r.tenant_id = :tenant", "r.pipeline_id IS NOT NULL"]
    if not chosen.has_children and chosen.parent is None:
        where.append(TOP)
    parameters: dict[str, Any] = {}
    if chosen.triggered_kind not in (None, triggered_by.API):
        # Said by itself, so that the index of these runs can be used whatever the parameter is.
        where.append("r.triggered_kind <> 'api'")
    for condition, value in bounds.items():
        if value is not None:
            where.append(condition)
            parameters[condition.rpartition(":")[2]] = value
    return where, parameters


def _only(values: Sequence[str]) -> str | None:
    return values[0] if len(set(values)) == 1 else None


def first_id(moment: datetime) -> UUID:
    """The lowest id of a moment. An id holds 48 bits of milliseconds: years 1970 to 10889."""
    return ids.first_id_at(max(0, int(moment.timestamp() * 1000)))


def contains(text: str) -> str:
    """The pattern of ILIKE for texts that contain this one."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


# SQL on rows `r` for the parts of a filter that no index serves. Each applies only if it is given.
MATCHES = """(CAST(:text AS text) IS NULL OR r.error_code ILIKE :text OR r.error ->> 'message' ILIKE :text
       OR r.pipeline_id ILIKE :text OR CAST(r.metadata AS text) ILIKE :text
       OR CAST(r.input AS text) ILIKE :text)
  AND (CAST(:version AS integer) IS NULL OR r.pipeline_version = :version)
  AND (CAST(:min_ms AS bigint) IS NULL
       OR coalesce(r.finished_at, now()) - r.started_at >= :min_ms * interval '1 millisecond')
  AND NOT EXISTS (
      SELECT FROM unnest(CAST(:keys AS text[]), CAST(:values AS text[])) AS m(key, value)
      WHERE r.metadata ->> m.key IS DISTINCT FROM m.value)
  AND (CAST(:task AS text) IS NULL OR EXISTS (
      SELECT FROM pipeline_versions AS v
      WHERE v.tenant_id = r.tenant_id AND v.pipeline_id = r.pipeline_id AND v.version = r.pipeline_version
        AND v.spec @> jsonb_build_object('steps', jsonb_build_array(jsonb_build_object('task', :task)))))"""


def match_parameters(chosen: RunFilter) -> dict[str, Any]:
    """The parameters of MATCHES."""
    text = chosen.sought_text
    return {
        "text": None if text is None else contains(text),
        "version": chosen.version,
        "min_ms": chosen.min_ms,
        "keys": list(chosen.metadata),
        "values": list(chosen.metadata.values()),
        "task": chosen.task_id,
    }
