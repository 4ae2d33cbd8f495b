"""Steps are numbered when a version is stored; what was stored before keeps its numbers."""

from __future__ import annotations

import random
from typing import Any

from support.factories import register
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database, Transaction, to_json
from pipeweave.spec.document import parse_spec
from pipeweave.spec.graph import Graph
from pipeweave.spec.pipeline_spec import PipelineSpec

TENANT = "numbers-of-steps"
WRITTEN = parse_spec(
    {
        "id": "written",
        "steps": [
            {"id": "z", "task": "a", "needs": []},
            {"id": "b", "task": "a", "needs": ["z"]},
            {"id": "c", "task": "a", "needs": []},
        ],
    }
)


def stored(tx: Transaction, spec: PipelineSpec = WRITTEN) -> tuple[int, bool, list[str]]:
    """Store a pipeline: its version, whether that is new, and its steps by their numbers."""
    version = pipelines.store(tx, TENANT, spec, source="api")
    plan = pipelines.get(tx, TENANT, spec.id, version.version).plan
    return version.version, version.is_new, [each.id for each in plan.steps]


def store_as_before(tx: Transaction) -> None:
    """Write a version as earlier builds did: numbered in the order of the document."""
    of_row = {"tenant": TENANT, "id": WRITTEN.id, "spec": to_json(WRITTEN.to_json())}
    tx.execute(
        """INSERT INTO pipelines (tenant_id, id, latest_version, created_at, updated_at)
        VALUES (:tenant, :id, 1, now(), now())""",
        of_row,
    )
    tx.execute(
        """INSERT INTO pipeline_versions
            (tenant_id, pipeline_id, version, spec, spec_hash, source, created_at)
        VALUES (:tenant, :id, 1, CAST(:spec AS jsonb), :hash, 'api', now())""",
        {**of_row, "hash": WRITTEN.written_hash},
    )


def test_a_new_version_numbers_its_steps_lexically_among_equals(tx: Transaction) -> None:
    register(tx, TENANT, "a")
    assert stored(tx) == (1, True, ["c", "z", "b"])


def test_a_version_of_before_keeps_its_numbers_and_stays_the_latest(tx: Transaction) -> None:
    register(tx, TENANT, "a")
    store_as_before(tx)
    assert stored(tx) == (1, False, ["z", "b", "c"])
    more: Any = {"id": "written", "description": "more", "steps": WRITTEN.to_json()["steps"]}
    assert stored(tx, parse_spec(more)) == (2, True, ["c", "z", "b"])
    assert [each.id for each in pipelines.get(tx, TENANT, "written", 1).plan.steps] == ["z", "b", "c"]


def test_what_is_read_may_be_stored_again_and_is_no_new_version(tx: Transaction) -> None:
    register(tx, TENANT, "a")
    stored(tx)
    read = pipelines.get(tx, TENANT, "written").spec
    assert read != WRITTEN
    assert stored(tx, parse_spec(read.to_json()))[:2] == (1, False)
    assert stored(tx)[:2] == (1, False)


def test_steps_that_become_ready_together_start_in_lexical_order(database: Database) -> None:
    driver = RunDriver(database)
    for seed in range(12):
        chance = random.Random(seed)
        names = chance.sample([f"{letter}{n}" for letter in "abxyz" for n in range(3)], 9)
        before = {
            name: sorted(chance.sample(names[:place], min(place, chance.randrange(3))))
            for place, name in enumerate(names)
        }
        needs = {name: before[name] for name in chance.sample(names, len(names))}
        driver.store(needs, id=f"random-{seed}")
        worker = InlineWorker(driver)
        run_id = driver.trigger(f"random-{seed}")
        worker.consume_all()
        assert driver.run(run_id).status == "completed"
        with database.transaction() as tx:
            order = Graph(pipelines.get(tx, driver.tenant, f"random-{seed}").spec).order
        assert [row.step_id for row in driver.task_runs(run_id)] == list(order), seed
        called = [step for step, *_ in worker.attempts]
        for alike in ([each for each in called if needs[each] == group] for group in needs.values()):
            assert alike == sorted(alike), seed
