"""A document is made of a row by what its class declares."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import UUID

import pytest
from pydantic import AwareDatetime, Field, ValidationError

from pipeweave import ids
from pipeweave.orchestrator.documents.base import AnswerModel, RunId, TaskRunId

RUN = UUID("01935d2c-6f3a-7b1e-9c44-5a2b1c000000")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Part(AnswerModel):
    """One field."""

    own_name: str


class Whole(Part):
    """Fields of each kind."""

    run_id: RunId | None
    task_run_id: TaskRunId
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = Field(description="null: it goes on.")
    ttl: int = Field(alias="idempotencyTTL")
    tags: list[str]
    parts: list[Part]


ROW = SimpleNamespace(
    own_name="mail", run_id=RUN, task_run_id=RUN, started_at=NOON, ended_at=None, ttl=3, tags=["a"], more=1
)


def test_a_field_is_the_column_of_its_name_written_as_json_has_it() -> None:
    assert Whole.of(ROW, parts=[Part.of(ROW)]) == {
        "ownName": "mail",
        "runId": ids.show(ids.RUN, RUN),
        "taskRunId": ids.show(ids.TASK_RUN, RUN),
        "startedAt": "2026-11-20T12:00:00.000Z",
        "endedAt": None,
        "idempotencyTTL": 3,
        "tags": ["a"],
        "parts": [{"ownName": "mail"}],
    }


def test_a_value_stands_for_a_column_and_is_written_like_it() -> None:
    document = Whole.of(ROW, parts=[], run_id=None, ended_at=NOON, ttl=4)
    assert (document["runId"], document["endedAt"], document["idempotencyTTL"]) == (
        None,
        "2026-11-20T12:00:00.000Z",
        4,
    )


class Computed(AnswerModel):
    """Fields of a document that is no row."""

    runs: list[RunId]
    times: list[AwareDatetime]
    new_id: RunId | TaskRunId


def test_a_computed_document_has_all_its_fields_as_values() -> None:
    shown = ids.show(ids.TASK_RUN, RUN)
    assert Computed.of(runs=[RUN], times=[NOON], new_id=shown) == {
        "runs": [ids.show(ids.RUN, RUN)],
        "times": ["2026-11-20T12:00:00.000Z"],
        # Which of the two ids it is, only its maker knows.
        "newId": shown,
    }
    with pytest.raises(AttributeError, match="times"):
        Computed.of(runs=[], new_id=shown)


def test_the_keys_stand_in_the_order_of_the_declaration() -> None:
    document = Whole.of(ROW, parts=[], own_name="other")
    assert list(document)[:3] == ["ownName", "runId", "taskRunId"]
    assert list(document)[-1] == "parts"


def test_a_row_without_a_column_and_a_value_without_a_field_are_refused() -> None:
    with pytest.raises(AttributeError, match="own_name"):
        Part.of(SimpleNamespace())
    with pytest.raises(KeyError, match="nick"):
        Part.of(ROW, nick="m")


def test_a_document_agrees_with_its_description() -> None:
    Whole.model_validate(Whole.of(ROW, parts=[Part.of(ROW)]))
    with pytest.raises(ValidationError):
        Whole.model_validate(Whole.of(ROW, parts=[{"name": "mail"}]))
