"""Models of the streams of changes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints

from pipeweave import ids
from pipeweave.api.contract.query_parameters import Query, truth
from pipeweave.api.contract.requests import Name, Request
from pipeweave.orchestrator.documents.base import type_id_pattern


class StreamQuery(Query):
    """Which changes to stream, and after which."""

    run: Annotated[str, Field(pattern=type_id_pattern(ids.RUN))] | None = Field(
        None, description="Only changes of this run."
    )
    tree: Annotated[bool, BeforeValidator(truth)] = Field(
        False,
        description="With `run`: also changes of the runs inside of it, and of those inside of them. Of a run"
        " that is inside of another one: of the whole tree.",
    )
    pipeline: Name | None = Field(None, description="Only changes of runs of this pipeline.")
    types: Annotated[str, Field(min_length=1, max_length=1_000)] | None = Field(
        None,
        description="Only changes of these types, separated by commas: `run.completed`, or `run` for all of "
        "that kind. `log`, only with `run`: what a task run logs has grown. `state_updated`: every change of "
        "the state by this one name, with the place of its snapshot.",
        examples=["run,task_run.failed"],
    )
    cursor: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,6000}$")] | None = Field(
        None, description="The id of the last change that was seen, where `Last-Event-ID` cannot be sent."
    )


class SocketQuery(StreamQuery):
    """As StreamQuery, for a WebSocket."""

    changes: Annotated[bool, BeforeValidator(truth)] = Field(
        True, description="`false`: no changes come, only answers to requests."
    )


Param = str | int | float | bool | None


class SocketRequest(Request):
    """A request that comes as a message of a WebSocket."""

    id: Annotated[str, Field(max_length=200)] | int | None = Field(
        None, description="Comes back with the answer."
    )
    operation: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="The `operationId` of the API's document.", examples=["runs.get_run"]
    )
    params: Annotated[dict[str, Param | list[Param]], Field(max_length=100)] = Field(
        default={}, description="Ids of the path, and parameters of the query, by their names."
    )
    body: Any = Field(None, description="The body of the request; null: none.")
    headers: Annotated[
        dict[str, Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{0,1000}$")]],
        Field(max_length=10),
    ] = Field(default={}, description="`X-Tenant`, `Idempotency-Key`, `X-Reason` and the like.")

    @property
    def has_body(self) -> bool:
        return self.body is not None


class LiveQuery(Query):
    """What a page shows, so that it hears when to look again."""

    run: Annotated[list[Annotated[str, Field(pattern=type_id_pattern(ids.RUN))]], Field(max_length=20)] = (
        Field(default=[], description="Runs of the tenant; at most 20.")
    )
    view: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(max_length=20)] = Field(
        default=[],
        description="Addresses of the dashboard below the tenant; at most 20.",
        examples=[["/runs?status=failed"]],
    )
