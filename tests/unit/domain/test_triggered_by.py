"""What began a run: in answers, in rows, and where it is not known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import get_args

from pipeweave.orchestrator.documents.parts import TriggerKind
from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.triggered_by import SCHEDULE, TRIGGER_KINDS, TriggeredBy


def test_what_began_a_run_is_read_from_the_columns_that_it_was_written_to() -> None:
    cause = TriggeredBy(SCHEDULE, "nightly", "ops")
    assert triggered_by.of_row(SimpleNamespace(**cause.to_row())) == cause
    assert cause.to_json() == {"kind": "schedule", "id": "nightly", "actor": "ops"}


def test_a_run_of_an_earlier_version_has_none() -> None:
    row = SimpleNamespace(triggered_kind=None, triggered_id=None, triggered_actor=None)
    assert triggered_by.of_row(row) is None
    assert triggered_by.of_row(SimpleNamespace(id=1)) is None, "a partition that was detached before"


def test_the_api_names_every_kind() -> None:
    assert get_args(TriggerKind) == TRIGGER_KINDS
