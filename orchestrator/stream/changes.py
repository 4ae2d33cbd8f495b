"""Shows events as changes, as those who watch get them (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import orjson

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.domain import json_shapes
from pipeweave.orchestrator.domain.checkpoints import MOVING, STATE_UPDATED, as_state_updated
from pipeweave.orchestrator.domain.replay import TYPES as EVENT_TYPES
from pipeweave.orchestrator.feed.feed import FeedEvent
from pipeweave.suggestions import did_you_mean

# All types of changes: those of the event log.
TYPES = tuple(sorted(EVENT_TYPES))
# What a task run logs has grown: no event tells so.
LOG = "log"
# Whoever watches it gets every change of the state by this one name, with the place of its snapshot.
STATE = STATE_UPDATED
# The first words of types; each stands for all of its types.
KINDS = tuple(sorted({each.partition(".")[0] for each in TYPES}))


@dataclass(frozen=True, slots=True)
class WantedChanges:
    """Which changes somebody wants to see.

    Args:
        types: only these; None: all. So with `pipeline` and `run_id`.
        is_tree: those of the runs inside of `run_id`, too, which is no run inside of another one.
        as_state: whether each is told as a change of the state, whatever its own type.
    """

    tenant: str
    types: frozenset[str] | None = None
    pipeline: str | None = None
    run_id: UUID | None = None
    is_tree: bool = False
    as_state: bool = False

    @property
    def has_logs(self) -> bool:
        """Whether changes of logs are among them: only those of one run, and only if they are named."""
        return self.run_id is not None and self.types is not None and LOG in self.types

    def has(self, event: FeedEvent) -> bool:
        """Whether the event is among them."""
        return (
            event.tenant == self.tenant
            and (self.run_id is None or self.run_id in self._runs_of(event))
            and (self.pipeline is None or event.pipeline_id == self.pipeline)
            and (self.types is None or event.type in self.types)
        )

    def _runs_of(self, event: FeedEvent) -> tuple[UUID | None, ...]:
        return (event.run_id, event.root_run_id) if self.is_tree else (event.run_id,)


def types_of(words: list[str], field: str = "types", *, is_of_run: bool = False) -> frozenset[str]:
    """The types that words name: a type, or the first word of some.

    Args:
        is_of_run: only changes of one run are wanted: `log` may be among them.

    Raises:
        InvalidInput: some words name nothing, or need a run; all of them are told.
    """
    known = {*TYPES, *KINDS, LOG, STATE}
    errors = [
        FieldError(field, f"{each[:80]!r} is no type of a change", "unknown", _expected(each))
        for each in words or [""]
        if each not in known
    ]
    hint = f"types are {', '.join(KINDS)}, {LOG} (with a run), or single ones such as run.completed"
    if LOG in words and not is_of_run:
        hint = hint if errors else "name a run: run=prun_…"
        errors.append(FieldError(field, f"{LOG!r} needs a run", "invalid", f"{LOG!r} together with run"))
    if STATE in words and not {STATE, LOG}.issuperset(words):
        hint = hint if errors else f"without {STATE}, each change has its own type"
        errors.append(FieldError(field, f"{STATE!r} stands for all types", "conflict", f"{STATE!r} alone"))
    if errors:
        raise InvalidInput(f"{field} {errors[0].message}", errors=errors, hint=hint)
    named = frozenset(each for each in (*TYPES, LOG) if each in words or each.partition(".")[0] in words)
    return named | MOVING if STATE in words else named


def _expected(word: str) -> str:
    near = did_you_mean(word, [*TYPES, *KINDS, LOG, STATE])
    return near or ", ".join((*KINDS, LOG, STATE))


def content(event: FeedEvent, *, as_state: bool = False) -> bytes:
    """A change as JSON.

    Args:
        as_state: tell it as a change of the state.
    """
    task_run = event.task_run_id
    return orjson.dumps(
        {
            "type": event.type,
            "at": json_shapes.iso(event.at),
            "seq": event.seq,
            "runId": json_shapes.run_id(event.run_id),
            "pipelineId": event.pipeline_id,
            "taskRunId": None if task_run is None else json_shapes.task_run_id(task_run),
            "step": event.step_id,
            "attempt": event.attempt,
            "data": event.data,
            **(as_state_updated(event.run_id, event.seq, event.type) if as_state else {}),
        }
    )
