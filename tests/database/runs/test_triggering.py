"""Triggering and cancelling runs."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import remove_task
from support.run_driver import RunDriver, claim, header, settle
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.errors import Conflict, InvalidInput, NotFound, PipeWeaveError, Unavailable
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.size_limits import INLINE_BYTES

CHAIN = {"a": [], "b": ["a"], "c": ["b"]}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def create(driver: RunDriver, wish: StartRequest, tenant: str | None = None) -> CreatedRun:
    return driver.database.run(lambda tx: triggering.trigger(tx, VALUES, tenant or driver.tenant, wish))


def count_runs(driver: RunDriver) -> int:
    return int(driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :id", id=driver.tenant)[0][0])


# --- trigger ----------------------------------------------------------------------------------------------


def test_a_trigger_writes_the_run_with_all_its_steps_and_sends_the_entries(driver: RunDriver) -> None:
    driver.store({"a": [], "b": [], "c": ["a", "b"]})
    made = create(driver, StartRequest("driven", {"n": 1}, metadata={"by": "test"}))

    assert (made.pipeline_id, made.version, made.status, made.created) == ("driven", 1, "running", True)
    assert (made.entry_tasks, made.queued_tasks) == (["noop", "noop"], ["noop", "noop"])
    run = driver.run(made.id)
    assert (run.status, run.input, run.metadata) == ("running", {"n": 1}, {"by": "test"})
    assert (run.failure_mode, run.task_run_count) == ("fail-fast", 3)
    assert driver.statuses(made.id) == {"a": "queued", "b": "queued", "c": "pending"}
    assert [row.id for row in driver.task_runs(made.id)] == [ids.task_run_id(made.id, n) for n in (1, 2, 3)]
    assert driver.released(made.id) == [1, 2]
    (event,) = driver.events(made.id, "run.created")
    assert event.data["inputsHash"] == run.inputs_hash


def test_messages_leave_only_after_the_commit(driver: RunDriver) -> None:
    driver.store(CHAIN)
    driver.sent.clear()
    with driver.database.transaction() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"))
        assert driver.sent == []
    assert len(driver.sent) == 1


def test_a_trigger_that_is_rolled_back_sends_nothing(driver: RunDriver) -> None:
    driver.store(CHAIN)
    driver.sent.clear()
    with pytest.raises(ZeroDivisionError), driver.database.transaction() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven"))
        raise ZeroDivisionError
    assert driver.sent == []
    assert count_runs(driver) == 0


def test_a_run_that_cannot_begin_is_not_written(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each statement commits by itself: a map is laid out by more than the one that writes."""
    driver.store({"m": []}, maps={"m": "${input}"})

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(maps, "lay_out", break_down)
    with pytest.raises(ZeroDivisionError), driver.database.statements() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven", [1, 2, 3]))
    assert count_runs(driver) == 0


def test_a_storage_error_after_the_write_never_leads_to_a_second_run(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.store({"a": [], "m": []}, maps={"m": "${input}"})
    driver.trigger(input=[1])
    lay_out = maps.lay_out
    failures = [Unavailable("storage is away")]

    def lay_out_later(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return lay_out(*arguments)

    monkeypatch.setattr(maps, "lay_out", lay_out_later)
    with suppress(Unavailable), driver.database.statements() as tx:
        triggering.trigger(tx, VALUES, driver.tenant, StartRequest("driven", [1, 2, 3]))
    assert count_runs(driver) == 1


@pytest.mark.parametrize(
    ("wish", "error", "field"),
    [
        (StartRequest("nothing"), NotFound, None),
        (StartRequest("driven", failure_mode="sometimes"), InvalidInput, "failureMode"),
        (StartRequest("driven", priority=2_000_000), InvalidInput, "priority"),
        (StartRequest("driven", priority=-2_000_000), InvalidInput, "priority"),
        (StartRequest("driven", {"text": "nul \0"}), InvalidInput, None),
        (StartRequest("driven", {"number": 2**70}), InvalidInput, None),
        (StartRequest("driven", object()), InvalidInput, None),
    ],
)
def test_a_wrong_trigger_stores_nothing(
    driver: RunDriver, wish: StartRequest, error: type[PipeWeaveError], field: str | None
) -> None:
    driver.store(CHAIN)
    with pytest.raises(error) as caught:
        create(driver, wish)
    if field is not None:
        assert [each.field for each in caught.value.errors] == [field]
    assert count_runs(driver) == 0


def test_a_pipeline_of_another_tenant_is_not_there(driver: RunDriver) -> None:
    driver.store(CHAIN)
    other = RunDriver(driver.database)
    with pytest.raises(NotFound):
        create(driver, StartRequest("driven"), other.tenant)


def test_a_pipeline_whose_task_is_gone_is_not_triggered(driver: RunDriver) -> None:
    driver.store(CHAIN)
    with driver.database.transaction() as tx:
        remove_task(tx, driver.tenant, "noop")
    with pytest.raises(Conflict, match="task 'noop' is not registered"):
        create(driver, StartRequest("driven"))
    assert count_runs(driver) == 0


def test_the_pipeline_s_own_mode_priority_and_defaults_hold_unless_the_trigger_says_otherwise(
    driver: RunDriver,
) -> None:
    driver.store(CHAIN, failureMode="continue", priority=7, defaults={"x": 1, "y": 1})
    own = driver.run(create(driver, StartRequest("driven", {"y": 2})).id)
    assert (own.failure_mode, own.priority, own.input) == ("continue", 7, {"x": 1, "y": 2})
    wish = StartRequest("driven", failure_mode="partial-merge", priority=9)
    other = driver.run(create(driver, wish).id)
    assert (other.failure_mode, other.priority, other.input) == ("partial-merge", 9, {"x": 1, "y": 1})
    assert {row.priority for row in driver.task_runs(other.id)} == {9}


def test_a_run_has_the_limits_of_time_of_its_version(driver: RunDriver) -> None:
    driver.store(CHAIN)
    without = driver.run(create(driver, StartRequest("driven")).id)
    assert (without.deadline_at, without.idle_timeout_ms) == (None, None)
    driver.store(CHAIN, timeout="1.5h", idleTimeout=90)
    limited = driver.run(create(driver, StartRequest("driven")).id)
    assert limited.deadline_at == limited.created_at + timedelta(hours=1, minutes=30)
    assert limited.idle_timeout_ms == 90_000
    driver.store(CHAIN, idleTimeout="2d")
    idle = driver.run(create(driver, StartRequest("driven")).id)
    assert (idle.deadline_at, idle.idle_timeout_ms) == (None, 172_800_000)


def test_a_large_input_goes_to_storage(driver: RunDriver) -> None:
    driver.store(CHAIN)
    made = create(driver, StartRequest("driven", "x" * INLINE_BYTES))
    run = driver.run(made.id)
    assert (run.input, run.input_path, run.input_size) == (None, made.input_path, INLINE_BYTES + 2)
    assert driver.values.load(None, made.input_path) == "x" * INLINE_BYTES


# --- versions ---------------------------------------------------------------------------------------------


def test_a_run_keeps_the_version_it_started_with(driver: RunDriver) -> None:
    driver.store(CHAIN)
    old = driver.trigger()
    assert driver.store({"a": [], "z": ["a"]}) == 2
    new = driver.trigger()

    driver.finish(old, "a", "b", "c")
    driver.finish(new, "a", "z")

    assert (driver.run(old).pipeline_version, driver.run(new).pipeline_version) == (1, 2)
    assert driver.statuses(old) == dict.fromkeys("abc", "completed")
    assert driver.statuses(new) == dict.fromkeys("az", "completed")
    assert {driver.run(old).status, driver.run(new).status} == {"completed"}


def test_a_process_that_sees_a_run_for_the_first_time_reads_its_own_version(driver: RunDriver) -> None:
    driver.store(CHAIN)
    old = driver.trigger()
    driver.store({"a": [], "z": ["a"]})
    newcomer = Database(driver.database.url, pool_size=0)
    with newcomer.transaction() as tx:
        assert [each.id for each in header(tx, old).plan.steps] == ["a", "b", "c"]


# --- run tokens -------------------------------------------------------------------------------------------


def test_the_same_token_and_input_give_the_same_run(driver: RunDriver) -> None:
    driver.store(CHAIN)
    first = create(driver, StartRequest("driven", {"a": 1, "b": 2}, run_token="t"))
    driver.sent.clear()
    again = create(driver, StartRequest("driven", {"b": 2, "a": 1}, run_token="t"))
    assert (again.id, again.created, again.queued_tasks) == (first.id, False, [])
    assert driver.sent == []
    assert count_runs(driver) == 1


def test_another_input_token_pipeline_or_tenant_gives_another_run(driver: RunDriver) -> None:
    driver.store(CHAIN)
    driver.store(CHAIN, id="other")
    wishes = [
        StartRequest("driven", 1, run_token="t"),
        StartRequest("driven", 2, run_token="t"),
        StartRequest("driven", 1, run_token="u"),
        StartRequest("other", 1, run_token="t"),
        StartRequest("driven", 1),
        StartRequest("driven", 1),
    ]
    assert len({create(driver, wish).id for wish in wishes}) == len(wishes)


def test_the_same_token_at_once_gives_one_run(driver: RunDriver) -> None:
    driver.store(CHAIN)
    for number in range(5):
        wish = StartRequest("driven", {"n": number}, run_token="t")
        threads = call_concurrently(*[lambda wish=wish: create(driver, wish)] * 4)
        made = [each.result for each in threads]
        assert len({each.id for each in made}) == 1
        assert [each.created for each in made].count(True) == 1
        assert count_runs(driver) == number + 1


def test_a_token_whose_run_is_being_written_is_waited_for(driver: RunDriver) -> None:
    """Also where each statement commits by itself: a claim without its run would be taken over."""
    driver.store(CHAIN)

    def create_by_statements() -> CreatedRun:
        wish = StartRequest("driven", {"n": 1}, run_token="t")
        return driver.database.run(
            lambda tx: triggering.trigger(tx, VALUES, driver.tenant, wish), is_one=False
        )

    with driver.database.transaction() as tx:
        # Whoever writes a run waits for this.
        tx.execute("SELECT 1 FROM orchestrator_state FOR UPDATE")
        both = [BackgroundCall(create_by_statements) for _ in range(2)]
        for each in both:
            each.__enter__()
        wait_for_lock(driver.database, 2)
    assert sorted(each.result.created for each in both) == [False, True]
    assert {each.result.id for each in both} == {driver.rows(_RUNS, id=driver.tenant)[0].id}
    assert count_runs(driver) == 1


_RUNS = "SELECT id FROM runs WHERE tenant_id = :id"


def test_the_answer_to_a_known_token_says_how_the_run_stands_now(driver: RunDriver) -> None:
    driver.store({"a": []})
    wish = StartRequest("driven", run_token="t")
    driver.finish(create(driver, wish).id, "a")
    assert create(driver, wish).status == "completed"


def create_all(driver: RunDriver, *tokens: str | None) -> list[CreatedRun]:
    """Trigger a batch of runs with these tokens, in one transaction: a deadlock would be an error."""
    wishes = [StartRequest("driven", 1, run_token=each) for each in tokens]
    with driver.database.transaction() as tx:
        return triggering.trigger_many(tx, VALUES, driver.tenant, "driven", wishes)


def test_equal_tokens_in_one_batch_are_one_run(driver: RunDriver) -> None:
    driver.store(CHAIN)
    (known,) = create_all(driver, "known")
    made = create_all(driver, "b", "known", "a", "b", None, "a")
    assert [each.created for each in made] == [True, False, True, False, True, False]
    assert (made[0].id, made[2].id, made[1].id) == (made[3].id, made[5].id, known.id)
    assert count_runs(driver) == 4


def test_batches_with_the_same_tokens_in_another_order_do_not_block_each_other(driver: RunDriver) -> None:
    driver.store(CHAIN)
    tokens = [f"t{number}" for number in range(30)]
    one, other = call_concurrently(
        lambda: create_all(driver, *tokens), lambda: create_all(driver, *tokens[::-1])
    )
    assert [each.id for each in one.result] == [each.id for each in other.result[::-1]]
    assert count_runs(driver) == 30


def test_a_token_whose_run_is_gone_starts_one_run_however_often_a_batch_names_it(driver: RunDriver) -> None:
    driver.store(CHAIN)
    (old,) = create_all(driver, "t")
    for table, column in (("task_runs", "run_id"), ("events", "run_id"), ("runs", "id")):
        driver.rows(f"DELETE FROM {table} WHERE {column} = :id RETURNING 1", id=old.id)
    made = create_all(driver, "t", "t")
    assert [each.created for each in made] == [True, False]
    assert (made[0].id == made[1].id, count_runs(driver)) == (True, 1)
    assert create_all(driver, "t")[0].id == made[0].id


# --- cancel -----------------------------------------------------------------------------------------------


def test_of_two_cancels_at_once_one_finds_the_run_cancelled_already(driver: RunDriver) -> None:
    driver.store(CHAIN)
    for _ in range(5):
        run_id = driver.trigger()

        def cancel(run_id: UUID = run_id) -> None:
            driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

        threads = call_concurrently(cancel, cancel)
        errors = [each.error for each in threads if each.error is not None]
        assert [type(each) for each in errors] == [Conflict]
        assert len(driver.events(run_id, "run.cancelled")) == 1


def test_a_cancel_in_the_middle_of_many_completions_leaves_nothing_open(driver: RunDriver) -> None:
    steps = [f"s{number}" for number in range(6)]
    driver.store({each: [] for each in steps} | {"join": steps, "last": ["join"]})
    for _ in range(5):
        run_id = driver.trigger()
        with driver.database.transaction() as tx:
            started = [claim(tx, run_id, number) for number in range(1, 7)]

        def complete(each: Any) -> None:
            driver.database.run(lambda tx: settle(tx, each))

        works = [lambda each=each: complete(each) for each in started]

        def cancel(run_id: UUID = run_id) -> None:
            driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, run_id))

        threads = call_concurrently(*works[:4], cancel)
        assert [each.error for each in threads] == [None] * 5
        run = driver.run(run_id)
        assert run.status == "cancelled"
        assert set(driver.statuses(run_id).values()) <= {"completed", "cancelled"}
        assert driver.statuses(run_id)["last"] == "cancelled"


def test_a_cancelled_run_frees_its_slots(driver: RunDriver) -> None:
    driver.store({"a": []}, id="limited", tasks={"a": "single"})
    first, second = driver.trigger("limited"), driver.trigger("limited")
    assert driver.statuses(second)["a"] == "ready"
    driver.sent.clear()
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, first)
    assert driver.statuses(second)["a"] == "queued"
    assert [each.run_id for each in driver.sent if isinstance(each, Released)] == [second]


def test_a_transaction_that_lost_a_deadlock_is_done_again(driver: RunDriver) -> None:
    driver.store({"a": [], "b": []})
    run_id = driver.trigger()
    gate = threading.Barrier(2)
    tries: list[str] = []
    touch = "UPDATE task_runs SET progress = 1 WHERE run_id = :run_id AND id = :id"

    def both(first: int, second: int) -> None:
        def work(tx: Transaction) -> None:
            tries.append(f"{first} before {second}")
            tx.execute(touch, {"run_id": run_id, "id": ids.task_run_id(run_id, first)})
            if len(tries) <= 2:
                gate.wait(60)
            tx.execute(touch, {"run_id": run_id, "id": ids.task_run_id(run_id, second)})

        driver.database.run(work)

    threads = call_concurrently(lambda: both(1, 2), lambda: both(2, 1))
    assert [each.error for each in threads] == [None, None]
    # The loser starts over, once or, when it meets the winner a second time, twice.
    assert len(tries) >= 3
