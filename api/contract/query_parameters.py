"""Models of query parameters: filters of lists, and paging."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pipeweave import ids
from pipeweave.api.contract.requests import MAX_INT32, Name
from pipeweave.api.contract.run_answers import AttemptStatus
from pipeweave.orchestrator.documents.base import RunId, TaskRunId
from pipeweave.orchestrator.documents.graphs import GraphView
from pipeweave.orchestrator.documents.parts import TriggerKind
from pipeweave.orchestrator.domain import RunStatus, TaskStatus, in_utc
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.reading import MOST_RUNS, MOST_STEPS, TaskRunFilter, Window
from pipeweave.orchestrator.store import DEFAULT_LIMIT, MAX_LIMIT, PageRequest
from pipeweave.size_limits import MAX_STEPS

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}\Z")


def _digits(value: Any) -> Any:
    """Turn digits into a whole number, because a query parameter is always text.

    A negative one becomes a number, too, so that the bounds refuse it and not the type.
    """
    if isinstance(value, str) and _WHOLE_NUMBER.match(value):
        return int(value)
    return value


def truth(value: Any) -> Any:
    """Turn `true` and `false` into truth values; no other word is accepted."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _rfc3339(value: Any) -> Any:
    if isinstance(value, str) and not _MOMENT.match(value):
        raise ValueError("Input should be a time such as 2026-11-20T12:00:00Z")
    return value


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)

# Stands after the bounds, for the same reason as WHOLE in requests.py.
DIGITS = BeforeValidator(_digits)
# Not strict, because a query parameter is always text.
Moment = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_rfc3339), AfterValidator(in_utc)]
# The key of a class of steps: its level and its task.
CLASS_KEY = r"^[A-Za-z0-9._~:@/-]*$"
OpenClasses = Annotated[str, Field(max_length=4_000, pattern=r"^[A-Za-z0-9._~:@/,-]*$")] | None
OpenStatus = Literal["pending", "ready", "queued", "running", "waiting"]


def opened_classes(parameter: str | None) -> tuple[str, ...]:
    """The keys of classes in a parameter, in a fixed order, each once."""
    return tuple(sorted({each for each in (parameter or "").split(",") if each}))


class Query(BaseModel):
    """Base of all query parameters: unknown parameters are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel, frozen=True)


class PageQuery(Query):
    """Parameters of every list."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), DIGITS] = Field(
        DEFAULT_LIMIT, description="The largest number of rows on the page."
    )
    cursor: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,400}$")] | None = Field(
        None, description="`nextCursor` of the previous page, requested with the same filters."
    )

    def page(self) -> PageRequest:
        """The page in the form that the queries of the orchestrator take."""
        return PageRequest(self.limit, self.cursor)

    def named(self, name: str, page: dict[str, Any]) -> dict[str, Any]:
        """The answer of a list: the rows under `name`, and the cursor of the next page."""
        return {name: page["items"], "nextCursor": page["nextCursor"]}


class VersionQuery(Query):
    """The version of a pipeline."""

    version: Annotated[int, Field(ge=1, le=MAX_INT32), DIGITS] | None = Field(
        None, description="Absent: the newest version."
    )


class ValuesQuery(Query):
    """Whether the answer holds large values."""

    load: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="`true`: fetch large values from storage. `false`: show their path, size and hash."
    )


class RunQuery(ValuesQuery):
    """What the answer about a run holds."""

    task_runs: Annotated[int, Field(ge=0, le=MAX_LIMIT), DIGITS] = Field(
        MAX_LIMIT, description="How many task runs the answer has at most."
    )


class CompareQuery(Query):
    """How much of a comparison is wanted."""

    limit: Annotated[int, Field(ge=1, le=MAX_STEPS), DIGITS] = Field(
        MAX_STEPS, description="Steps in the answer: those that make most of the difference."
    )


class _Filtered(PageQuery):
    def filters(self) -> dict[str, Any]:
        """The given filters in the form that the queries of the orchestrator take."""
        parameters = self.model_dump(exclude={"limit", "cursor"}, exclude_none=True)
        return {name: str(value) if isinstance(value, str) else value for name, value in parameters.items()}


def _beginning(prefix: str, least: int = 1) -> str:
    """The pattern of the beginning of an id of this kind, of `least` characters or more."""
    return rf"^({prefix}_)?[0-7][0-9a-hjkmnp-tv-z]{{{least - 1},25}}$"


RunIdBeginning = Annotated[str, Field(pattern=_beginning(ids.RUN))]
DeadLetterIdBeginning = Annotated[str, Field(pattern=_beginning(ids.DEAD_LETTER))]
RedriveIdBeginning = Annotated[str, Field(pattern=_beginning(ids.REDRIVE))]
# A shorter beginning would have to be looked for among the task runs of more than a second.
TaskRunIdBeginning = Annotated[str, Field(pattern=_beginning(ids.TASK_RUN, least=8))]
BEGINNING = "Only ids that begin like this, with or without `{}_` before it."


MetaEntry = Annotated[str, Field(pattern=r"^[^=]{1,200}=[^\x00]{0,1000}$")]


class RunCountsQuery(Query):
    """Which runs are counted."""

    pipeline_id: Annotated[list[Name], Field(max_length=10)] = Field(
        [], description="Of one of these pipelines: may be given several times."
    )
    created_after: Moment | None = Field(None, description="Created at this time or later.")
    created_before: Moment | None = Field(None, description="Created before this time.")

    def counted(self) -> RunFilter:
        """The filters in the form that the orchestrator takes."""
        return RunFilter((), tuple(self.pipeline_id), self.created_after, self.created_before)


class RunFilterQuery(RunCountsQuery):
    """The filters of lists and exports of runs."""

    id_prefix: RunIdBeginning | None = Field(None, description=BEGINNING.format(ids.RUN))
    status: Annotated[list[Annotated[RunStatus, Field(strict=False)]], Field(max_length=len(RunStatus))] = (
        Field([], description="In one of these statuses: may be given several times.")
    )
    triggered_by: TriggerKind | None = Field(None, description="Only runs that such a thing began.")
    text: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="Only runs with this text in their error, metadata or input, whatever its case; a text"
        " that begins with `prun_` is the beginning of their id.",
    )
    meta: Annotated[list[MetaEntry], Field(max_length=10)] = Field(
        [], description="Only runs with this value in their metadata, as `key=value`; may be repeated."
    )
    version: Annotated[int, Field(ge=1, le=MAX_INT32), DIGITS] | None = Field(
        None, description="Only runs of this version of their pipeline."
    )
    min_ms: Annotated[int, Field(ge=0, le=10**12), DIGITS] | None = Field(
        None, description="Only runs that took so long (ms), or have been running for so long."
    )
    task_id: Name | None = Field(None, description="Only runs with a step that is this task.")
    children: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="With the runs that belong to a step of another run; else they are left out."
    )

    def run_filter(self) -> RunFilter:
        """The filters in the form that the orchestrator takes."""
        return RunFilter(
            tuple(each.value for each in self.status),
            tuple(self.pipeline_id),
            self.created_after,
            self.created_before,
            self.id_prefix,
            self.triggered_by,
            self.text,
            dict(each.split("=", 1) for each in self.meta),
            self.version,
            self.min_ms,
            self.task_id,
            self.children,
        )


class RunsQuery(RunFilterQuery, PageQuery):
    """Filters of the list of runs."""


class ChildRunsQuery(PageQuery):
    """Filters of the list of child runs."""

    task_run_id: TaskRunId | None = Field(
        None,
        description="Only those that this step, or this item of a map, has started: its rounds and tries.",
    )


class FindTaskRunsQuery(PageQuery):
    """Filters of the list of all task runs."""

    id_prefix: TaskRunIdBeginning | None = Field(
        None,
        description=f"{BEGINNING.format(ids.TASK_RUN)} It is given alone, with a `limit` of 100 at most.",
    )
    task_id: Name | None = None
    status: Annotated[TaskStatus, Field(strict=False)] | None = None
    worker: Annotated[str, Field(min_length=1, max_length=400)] | None = Field(
        None, description="Run by this worker (its id), by this process of it, or by those with this name."
    )
    created_after: Moment | None = Field(None, description="Of runs created at this time or later.")
    created_before: Moment | None = Field(None, description="Of runs created before this time.")
    standalone: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="`true`: only standalone tasks. `false`: those of pipelines, too."
    )

    def chosen(self) -> TaskRunFilter:
        """The filters in the form that the orchestrator takes."""
        return TaskRunFilter(
            self.task_id,
            None if self.status is None else self.status.value,
            self.worker,
            self.created_after,
            self.created_before,
            self.standalone,
        )


class PipelinesQuery(PageQuery):
    """Parameters of the list of pipelines."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT), DIGITS] = Field(
        DEFAULT_LIMIT, description="The largest number of rows on the page; 50 at most with `recent`."
    )
    recent: Annotated[int, Field(ge=0, le=20), DIGITS] = Field(
        0, description="So many of the newest runs of each pipeline come with it."
    )


class GridQuery(Query):
    """The window of a grid."""

    runs: Annotated[int, Field(ge=1, le=MOST_RUNS), DIGITS] = Field(25, description="How many runs.")
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS), DIGITS] = Field(50, description="How many steps.")
    before: RunId | None = Field(None, description="Only runs older than this one.")
    after: RunId | None = Field(
        None, description="Only runs newer than this one. Without `before` and `after`: the newest."
    )
    from_step: Annotated[str, Field(max_length=500, pattern=CLASS_KEY)] | None = Field(
        None, description="The first row of the window, a step or a class."
    )
    view: GraphView | None = Field(
        None,
        description="`all` steps, or their `pattern`: a row for the steps of the same task and level. Absent:"
        " all up to 150 steps, else the pattern. A window of large classes has fewer runs.",
    )
    open: OpenClasses = Field(
        None, description="Keys of the classes whose members have rows, too, with commas between."
    )

    def window(self) -> Window:
        """The window in the form that the orchestrator takes."""
        before, after = (each and ids.read(ids.RUN, each) for each in (self.before, self.after))
        opened = opened_classes(self.open)
        return Window(self.runs, self.steps, before or None, after or None, self.from_step, self.view, opened)


class SearchQuery(Query):
    """What is looked for."""

    q: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="The beginning of an id, or a part of a name."
    )


class TaskRunsQuery(_Filtered):
    """Filters of the list of a run's task runs."""

    status: Annotated[TaskStatus, Field(strict=False)] | None = None
    step_id: Name | None = None
    map_index: Annotated[int, Field(ge=0, le=MAX_INT32), DIGITS] | None = Field(
        None, description="With `stepId`: only the item of the map with this index."
    )


class AttemptsQuery(_Filtered):
    """Filters of the list of a run's attempts."""

    status: AttemptStatus | None = None
    step_id: Name | None = None


class EventsQuery(_Filtered):
    """Filters of the list of a run's events."""

    type: Annotated[str, Field(pattern="^([a-z_]{1,50}[.][a-z_]{1,50}|state_updated)$")] | None = Field(
        None, description="`state_updated`: all events that change the state, told by this name."
    )
    task_run_id: TaskRunId | None = Field(
        None, description="Only events that are about this task run alone, not those about many at once."
    )


class QueueItemsQuery(_Filtered):
    """Filters of the list of open task runs."""

    status: OpenStatus | None = None
    task_id: Name | None = None
    queue: Annotated[str, Field(min_length=1, max_length=1_000)] | None = Field(
        None, description="The full name of a queue."
    )
    reasons: Annotated[bool, BeforeValidator(truth)] = Field(
        False, description="`true`: say of each what it waits for first. At most 200 on a page then."
    )

    def filters(self) -> dict[str, Any]:
        """The filters alone."""
        return {name: value for name, value in super().filters().items() if name != "reasons"}
