"""Random pauses, resumes, cancels and reruns while runs go through the engine: each ends as a simple model
says, and reuses what the model says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.inline_worker import InlineWorker
from support.oracle import Expected, random_graph, reference
from support.run_driver import PERMANENT, RunDriver

from pipeweave.errors import Conflict
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.queueing import limits, paused_runs
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import pausing, rerunning, triggering
from pipeweave.orchestrator.runs.rerunning import CreatedRerun, Rerun
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec.document import parse_spec

SEEDS = range(18)
MODES = ("continue", "partial-merge", "fail-fast")
FINAL = ("completed", "partial", "failed", "cancelled")
# Moves after which a run is left alone, to come to its end.
MOST_MOVES = 40
# So often a run is run again.
GENERATIONS = 3


@dataclass
class Model:
    """What a run must look like from outside.

    Args:
        wishes: which of its steps fail, and what they choose.
        reused: the steps whose results it took over.
    """

    wishes: dict[str, Any]
    is_paused: bool = False
    is_cancelled: bool = False
    reused: frozenset[str] = field(default=frozenset())


@dataclass
class Story:
    """A run and its reruns, one after the other."""

    driver: RunDriver
    worker: InlineWorker
    chance: random.Random
    document: Mapping[str, Any]
    mode: str
    run_id: UUID
    model: Model

    @property
    def is_over(self) -> bool:
        return str(self.driver.run(self.run_id).status) in FINAL


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, "act", a_task("act_limited", concurrency=2), id="acting")
    yield made
    made.rows("DELETE FROM run_pauses WHERE tenant_id = :id RETURNING 1", id=made.tenant)


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_that_are_changed_at_random_end_as_those_that_are_not(driver: RunDriver, seed: int) -> None:
    chance, mode = random.Random(seed), MODES[seed % len(MODES)]
    document, wishes = random_graph(chance, "changed")
    worker = InlineWorker(driver, chance=chance, chooses=wishes["choose"], fails=_failures(wishes))
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(document | {"failureMode": mode}), source="api")
    run_id = driver.trigger("changed", wishes)
    story = Story(driver, worker, chance, document, mode, run_id, Model(wishes))
    _live(story)
    for _ in range(GENERATIONS):
        _run_again(story)
        _live(story)


def _failures(wishes: dict[str, Any]) -> dict[Any, Any]:
    steps = [step for step in wishes["fail"] if step not in wishes["lists"]]
    items = [(step, each) for step in wishes["lists"] for each in wishes["fail"].get(step, ())]
    return dict.fromkeys([*steps, *items], PERMANENT)


# --- moves ------------------------------------------------------------------------------------------------


def _live(story: Story) -> None:
    """Let a run come to its end, with changes on the way."""
    for _ in range(MOST_MOVES):
        if story.is_over:
            break
        _move(story)
    _end(story)
    _compare(story)


def _move(story: Story) -> None:
    driver, worker, model, chance = story.driver, story.worker, story.model, story.chance
    before = Counter(worker.calls)
    kinds = ("work", "pause", "resume", "tick", "rerun", "cancel")
    match chance.choices(kinds, (10, 3, 3, 2, 0.5, 0.2))[0]:
        case "pause":
            changed = driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, story.run_id))
            assert changed is not model.is_paused
            model.is_paused = True
        case "resume":
            assert _resume(story) is model.is_paused
            model.is_paused = False
        case "cancel":
            driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, story.run_id))
            model.is_cancelled, model.is_paused = True, False
        case "rerun":
            with pytest.raises(Conflict, match="cannot be run again"):
                _rerun(story, chance.choice([None, _any_step(story)]))
        case "tick":
            paused_runs.take_back_waiting(driver.database)
            with driver.database.transaction() as tx:
                limits.fill(tx, driver.tenant, ["act", "act_limited"])
        case _:
            worker.consume_all(most=chance.randint(1, 3))
    if model.is_paused:
        assert worker.calls == before, "something of a paused run was called"
        assert driver.run(story.run_id).status == "paused"


def _resume(story: Story) -> bool:
    return story.driver.database.run(lambda tx: pausing.resume(tx, story.driver.tenant, story.run_id))


def _end(story: Story) -> None:
    if story.model.is_paused:
        assert _resume(story)
    story.worker.consume_all()
    # What a dropped message would have counted for a wide join, the tick finds out.
    for _ in range(40):
        if story.is_over:
            return
        for ordinal in range(1, len(story.driver.statuses(story.run_id)) + 1):
            story.driver.check(story.run_id, ordinal)
        story.driver.check(story.run_id, 0)
        story.worker.consume_all()


def _run_again(story: Story) -> None:
    """Run the run again from anywhere; what made its steps fail may be mended meanwhile."""
    chance = story.chance
    begin = None if chance.random() < 0.25 else _any_step(story)
    reused, away = (frozenset[str](), frozenset[str]()) if begin is None else _settled(story, begin)
    if begin in away:
        with pytest.raises(Conflict, match="skipped again"):
            _rerun(story, begin)
        begin, reused = None, frozenset()
    made = _rerun(story, begin)
    assert frozenset(made.reused) == reused
    wishes = story.model.wishes | ({"fail": {}} if chance.random() < 0.4 else {})
    story.worker.fails = _failures(wishes)
    story.worker.calls.clear()
    story.run_id, story.model = made.id, Model(wishes, reused=reused)


def _any_step(story: Story) -> str:
    return str(story.chance.choice(story.document["steps"])["id"])


def _rerun(story: Story, begin: str | None) -> CreatedRerun:
    driver, request = story.driver, Rerun(story.run_id, begin)
    return driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    )


# --- the model --------------------------------------------------------------------------------------------


def _settled(story: Story, begin: str) -> tuple[frozenset[str], frozenset[str]]:
    """The steps whose results are there whatever runs again, and those that their choices leave out."""
    rows = story.driver.task_runs(story.run_id)
    broken = {row.step_id for row in rows if row.status != "completed"}
    choose = story.model.wishes["choose"]
    reused, away = set[str](), set[str]()
    for step in story.document["steps"]:
        id, needs = step["id"], step["needs"]
        if not (reused | away).issuperset(needs):
            continue
        if needs and not any(each in reused and id in choose.get(each, [id]) for each in needs):
            away.add(id)
        elif id != begin and id not in broken:
            reused.add(id)
    return frozenset(reused), frozenset(away)


def _compare(story: Story) -> None:
    driver, model, run_id = story.driver, story.model, story.run_id
    expected = reference(story.document, model.wishes, story.mode)
    status = driver.run(run_id).status
    assert status == ("cancelled" if model.is_cancelled else expected.run_status)
    calls = Counter[str]()
    for (step, _), number in story.worker.calls.items():
        calls[step] += number
    wanted = _without(expected, model.reused)
    if model.is_cancelled or (story.mode == "fail-fast" and status == "failed"):
        assert calls <= wanted, "something was called twice, or should not have been called"
    else:
        assert calls == wanted
        assert driver.statuses(run_id) == expected.statuses
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    assert driver.rows("SELECT 1 FROM run_pauses WHERE run_id = :id", id=run_id) == []


def _without(expected: Expected, reused: frozenset[str]) -> Counter[str]:
    return Counter({step: number for step, number in expected.calls.items() if step not in reused})
