"""Let schedules start runs during a trial: one for each overlap policy, due every two seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from chaos.plan import PlannedRun
from chaos.records import Fire, Records
from chaos.shapes import Shape
from chaos.stack import NotUp, Stack

POLICIES = ("allow", "skip", "queue", "cancel-old")
EVERY_MS = 2_000
# The first due time comes so long after the start.
AHEAD_MS = 1_000
# Each run takes longer than the interval, where workers are busy or killed.
SHAPE = Shape(
    {
        "id": "scheduled",
        "steps": [{"id": "a", "task": "work", "needs": []}, {"id": "b", "task": "work", "needs": ["a"]}],
    },
    {"steps": {}, "lists": {}, "seconds": 0.3},
    "fail-fast",
)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A schedule of a trial; times are ms since the epoch."""

    id: str
    policy: str
    start: int
    end: int

    @property
    def due(self) -> range:
        """Its due times: both bounds count."""
        return range(self.start, self.end + 1, EVERY_MS)


def store(up: Stack, seconds: float) -> list[Scheduled]:
    """Store the schedules; they are due from soon until the end of the faults.

    Raises:
        NotUp: one was refused.
    """
    _put(up, "/api/pipelines/scheduled", SHAPE.document)
    [[now]] = up.rows("SELECT CAST(extract(epoch FROM now()) * 1000 AS bigint)")
    found = [
        Scheduled(f"every-{policy}", policy, now + AHEAD_MS, now + AHEAD_MS + int(seconds * 1000))
        for policy in POLICIES
    ]
    for each in found:
        body = {"pipelineId": "scheduled", "everyMs": EVERY_MS, "input": SHAPE.input}
        body |= {"startAt": _iso(each.start), "endAt": _iso(each.end)}
        _put(up, f"/api/schedules/{each.id}", {**body, "overlapPolicy": each.policy, "missedPolicy": "all"})
    return found


def _put(up: Stack, path: str, body: dict[str, object]) -> None:
    answer = up.ask("PUT", path, body)
    if answer.status not in (200, 201):
        raise NotUp(f"{path} was refused: {answer.status} {answer.body}")


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def planned_runs(records: Records) -> Iterator[PlannedRun]:
    """The runs that schedules have started, as if they had been planned: so every proof looks at them."""
    for each in started(records.fires):
        run = records.runs.get(str(each.run_id))
        if run is not None and run.token is not None:
            yield PlannedRun(0.0, run.token, SHAPE)


def accepted(records: Records) -> dict[str, set[str]]:
    """By token: the run that a fire has started."""
    found: dict[str, set[str]] = {}
    for each in started(records.fires):
        run = records.runs.get(str(each.run_id))
        if run is not None and run.token is not None:
            found.setdefault(run.token, set()).add(run.id)
    return found


def started(fires: Sequence[Fire]) -> list[Fire]:
    """The fires that have a run, in the order of their times."""
    return sorted((each for each in fires if each.run_id is not None), key=lambda each: each.at)
