"""Why a task run does not run yet: every reason, in the order in which they must go away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.run_driver import TRANSIENT, RunDriver, claim

from pipeweave import ids
from pipeweave.errors import NotFound, Unavailable
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.queueing import limits, pauses
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.registry.worker_processes import WorkerStart
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Database

EMPTY: Mapping[int, float | None] = dict.fromkeys(LEVELS)
# As if every message were still there: the oldest was sent long ago.
FULL: Mapping[int, float | None] = dict.fromkeys(LEVELS, 0.0)


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    made = RunDriver(database)
    with database.transaction() as tx:
        register(tx, made.tenant, a_task("rated", rate_limit="2/h"), id="rates")
    made.store({"a": []}, id="one")
    made.store({"a": []}, id="limited", tasks={"a": "limited"})
    made.store({"a": []}, id="rated", tasks={"a": "rated"})
    made.store({"a": [], "b": ["a"], "c": ["a", "b"]}, id="three")
    yield made
    made.rows("DELETE FROM workers WHERE tenant_id = :id RETURNING 1", id=made.tenant)


def ask(
    driver: RunDriver, run_id: UUID, ordinal: int = 1, waiting: Mapping[int, float | None] = FULL
) -> list[dict[str, Any]]:
    with driver.database.reading() as tx:
        task_run = ids.task_run_id(run_id, ordinal)
        return list(why.why(tx, driver.tenant, task_run, lambda _: waiting)["reasons"])


def codes(driver: RunDriver, run_id: UUID, ordinal: int = 1, **options: Any) -> list[str]:
    return [each["code"] for each in ask(driver, run_id, ordinal, **options)]


def a_worker(driver: RunDriver, service: str = "python", concurrency: int = 3) -> None:
    start = WorkerStart(service, "w@host", "host", concurrency, 1)
    driver.database.run(lambda tx: worker_processes.register(tx, driver.tenant, start))


# --- pending ----------------------------------------------------------------------------------------------


def test_a_run_that_waits_for_its_turn_says_where_it_stands(driver: RunDriver) -> None:
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    line = [driver.trigger("three") for _ in range(4)]
    assert ask(driver, line[2]) == [
        {
            "code": "run_waits",
            "text": "its run is queued: number 2 of 3, 1 of 1 allowed runs are active",
            "position": 2,
            "waiting": 3,
            "active": 1,
            "maxActiveRuns": 1,
        }
    ]
    assert codes(driver, line[2], 2) == ["run_waits", "predecessors_open"]


def test_a_run_that_waits_for_its_key_names_the_runs_that_have_it(driver: RunDriver) -> None:
    driver.store({"a": []}, id="keyed", concurrency={"key": "${input.shop}"})
    first, _, third = (driver.trigger("keyed", {"shop": "x"}) for _ in range(3))
    shown = ids.show(ids.RUN, first)
    text = (
        "pipeline 'keyed' allows 1 at once of the runs with key 'x', and "
        f"1 is under way: {shown}; its run is number 2 of 2"
    )
    numbers = {"key": "x", "limit": 1, "runs": [shown], "position": 2, "waiting": 2, "active": 1}
    assert ask(driver, third) == [{"code": "key_limit", "text": text, **numbers}]
    driver.database.run(lambda tx: admission.set_limit(tx, driver.tenant, 1))
    assert codes(driver, third, 1) == ["key_limit", "run_waits"]


def test_a_run_that_waits_for_the_rate_of_its_key_says_when_its_turn_comes(driver: RunDriver) -> None:
    driver.store({"a": []}, id="often", rateLimit={"key": "${input.shop}", "rate": "1/m"})
    _, second, third = (driver.trigger("often", {"shop": "x"}) for _ in range(3))
    [reason] = ask(driver, second)
    assert reason["text"].startswith(
        "pipeline 'often' starts 1/m of the runs with key 'x': its run is number 1 of 2, its turn comes in "
    )
    assert 0 < reason["inS"] <= 60
    assert (reason["code"], reason["rateLimit"], reason["position"]) == ("key_rate", "1/m", 1)
    assert "its turn comes not before " in ask(driver, third)[0]["text"]


def test_open_predecessors_are_named(driver: RunDriver) -> None:
    run_id = driver.trigger("three")
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1)
    [reason] = ask(driver, run_id, 3)
    assert reason["text"] == "it waits for a (running), b (pending)"
    assert [(each["stepId"], each["status"]) for each in reason["steps"]] == [
        ("a", "running"),
        ("b", "pending"),
    ]
    assert (reason["open"], reason["predecessors"]) == (2, 2)


def test_of_many_predecessors_twenty_are_shown(driver: RunDriver) -> None:
    many = {f"s{number}": [] for number in range(30)}
    run_id = driver.begin(many | {"z": list(many)})
    [reason] = ask(driver, run_id, 31)
    assert (len(reason["steps"]), reason["open"]) == (20, 30)
    assert reason["text"].endswith("and 27 more")


def test_a_join_that_nobody_has_looked_at_says_so(driver: RunDriver) -> None:
    many = {f"s{number}": [] for number in range(9)}
    run_id = driver.begin(many | {"z": list(many)})
    driver.finish(run_id, *many)
    assert codes(driver, run_id, 10) == ["join_closed"]


def test_a_waiting_retry_says_when_it_is_due_and_the_last_error(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    driver.finish(run_id, "a", failure=TRANSIENT)
    late = "UPDATE task_runs SET due_at = now() + interval '1 h' WHERE run_id = :id RETURNING 1"
    driver.rows(late, id=run_id)
    [reason] = ask(driver, run_id)
    assert reason["code"] == "retry_due"
    assert 3_000 < reason["inS"] <= 3_600
    assert (reason["attempt"], reason["maxAttempts"]) == (2, 4)
    assert (reason["error"], reason["errorCode"]) == ("it broke for now", "WEAK")


def test_the_holder_of_the_idempotency_key_is_named(driver: RunDriver) -> None:
    run_id, holder = driver.trigger("one"), ids.task_run_id(driver.trigger("one"), 1)
    statement = """UPDATE task_runs SET status = 'pending', queued_at = NULL, due_at = now(), awaits = :holder
        WHERE run_id = :id RETURNING 1"""
    driver.rows(statement, id=run_id, holder=holder)
    [reason] = ask(driver, run_id)
    assert (reason["code"], reason["holder"]) == ("key_held", ids.show(ids.TASK_RUN, holder))


# --- held back --------------------------------------------------------------------------------------------


def test_pauses_come_first_and_say_since_when_and_why(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(3)]
    with driver.database.transaction() as tx:
        pauses.pause(tx, driver.tenant, "limited", reason="the printer is out of paper")
        pauses.pause(tx, driver.tenant)
    first, second = ask(driver, runs[0])
    assert (first["code"], first["reason"]) == ("tenant_paused", None)
    assert (second["code"], second["reason"]) == ("task_paused", "the printer is out of paper")
    assert second["text"] == f"its task is paused since {second['since']}: the printer is out of paper"
    later = driver.trigger("three")
    assert codes(driver, later, 2) == ["predecessors_open", "tenant_paused"]
    # All three are ready: the third would find no slot either.
    assert codes(driver, runs[2]) == ["tenant_paused", "task_paused", "concurrency_limit"]


def test_a_concurrency_limit_says_how_many_are_live_and_the_position_in_line(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(5)]
    urgent = driver.trigger("limited", priority=1)
    found = {run_id: ask(driver, run_id)[0] for run_id in [*runs[2:], urgent]}
    assert {each["code"] for each in found.values()} == {"concurrency_limit"}
    assert [found[each]["position"] for each in (urgent, *runs[2:])] == [1, 2, 3, 4]
    assert (
        found[urgent]["text"]
        == "its task allows 2 at once, and 2 are running or queued; it is number 1 in its queue"
    )
    assert (found[urgent]["live"], found[urgent]["concurrency"]) == (2, 2)


def test_a_rate_says_when_the_turn_comes(driver: RunDriver) -> None:
    runs = [driver.trigger("rated") for _ in range(4)]
    with driver.database.transaction() as tx:
        assert all(claim(tx, each, 1) for each in runs[:2])
    third, fourth = (ask(driver, each)[0] for each in runs[2:])
    assert (third["code"], third["rateLimit"], third["position"]) == ("rate_limit", "2/h", 1)
    assert 1_700 < third["inS"] <= 1_800
    assert 3_500 < fourth["inS"] <= 3_600
    # What it says, dispatch does.
    statement = (
        "UPDATE tasks SET rate_at = rate_at - CAST(:time AS interval) WHERE tenant_id = :id AND id = 'rated'"
    )
    passed = {"time": timedelta(seconds=third["inS"] + 1), "id": driver.tenant}
    with driver.database.transaction() as tx:
        tx.execute(statement, passed)
    assert codes(driver, runs[2]) == ["goes_now"]
    assert codes(driver, runs[3]) == ["rate_limit"]
    with driver.database.transaction() as tx:
        assert limits.fill(tx, driver.tenant, ["rated"]) == 1
    assert driver.statuses(runs[2]) == {"a": "queued"}


def test_a_ready_task_run_with_free_limits_waits_for_the_tick(driver: RunDriver) -> None:
    runs = [driver.trigger("limited") for _ in range(3)]
    driver.rows(
        "UPDATE tasks SET concurrency = 3 WHERE tenant_id = :id AND id = 'limited' RETURNING 1",
        id=driver.tenant,
    )
    assert codes(driver, runs[2]) == ["goes_now"]


# --- in the queue -----------------------------------------------------------------------------------------


def test_a_queued_task_run_says_how_many_are_ahead_and_how_many_workers_serve_it(driver: RunDriver) -> None:
    for priority in (50, 60, 60, 70):
        driver.trigger("one", priority=priority)
    mine = driver.trigger("one", priority=60)
    nobody, queued = ask(driver, mine)
    assert (nobody["code"], nobody["workers"]) == ("no_worker", 0)
    assert (queued["code"], queued["ahead"], queued["places"]) == ("queued", 3, 0)
    a_worker(driver)
    [queued] = ask(driver, mine)
    assert queued["text"] == "it is queued, with 3 ahead of it; running workers: 1, for 3 task runs at once"
    assert (queued["workers"], queued["places"], queued["priority"]) == (1, 3, 60)


def test_workers_of_another_service_do_not_count(driver: RunDriver) -> None:
    a_worker(driver, "rates")
    assert codes(driver, driver.trigger("one")) == ["no_worker", "queued"]


def test_a_message_that_is_lost_is_sent_again(driver: RunDriver) -> None:
    a_worker(driver)
    run_id = driver.trigger("one")
    assert codes(driver, run_id, waiting=EMPTY) == ["queued"]
    driver.rows(
        "UPDATE task_runs SET queued_at = now() - interval '3 s' WHERE run_id = :id RETURNING 1", id=run_id
    )
    _, late = ask(driver, run_id, waiting=EMPTY)
    assert late["code"] == "message_late"
    assert 0 < late["inS"] <= 2
    assert codes(driver, run_id, waiting=FULL) == ["queued"]


def test_a_broker_that_is_away_is_a_reason(driver: RunDriver) -> None:
    def away(_: str) -> Mapping[int, float | None]:
        raise Unavailable("the broker cannot be used")

    task_run = ids.task_run_id(driver.trigger("one"), 1)
    with driver.database.reading() as tx:
        found = why.why(tx, driver.tenant, task_run, away)["reasons"]
    assert [each["code"] for each in found] == ["no_worker", "queued", "broker_away"]


def test_a_task_run_queued_before_a_pause_names_the_pause(driver: RunDriver) -> None:
    run_id = driver.trigger("one")
    driver.rows(
        "INSERT INTO pauses (tenant_id, task_id, paused_at) VALUES (:id, 'noop', now()) RETURNING 1",
        id=driver.tenant,
    )
    assert codes(driver, run_id) == ["task_paused", "no_worker", "queued"]


# --- under way, or over -----------------------------------------------------------------------------------


def test_a_running_task_run_names_its_worker_and_a_final_one_its_status(driver: RunDriver) -> None:
    run_id = driver.trigger("three")
    with driver.database.transaction() as tx:
        claim(tx, run_id, 1)
    [reason] = ask(driver, run_id)
    assert (reason["code"], reason["worker"], reason["attempt"]) == ("running", "w1", 1)
    ended = driver.trigger("one")
    driver.finish(ended, "a")
    [reason] = ask(driver, ended)
    assert (reason["code"], reason["text"]) == ("finished", "it is completed and does not run again")


def test_a_map_waits_for_its_items(driver: RunDriver) -> None:
    run_id = driver.begin({"m": []}, {"list": [1, 2, 3]}, maps={"m": "${input.list}"})
    [reason] = ask(driver, run_id)
    assert (reason["code"], reason["open"], reason["items"]) == ("items_open", 3, 3)


def test_during_maintenance_nothing_moves(fresh_database: Database) -> None:
    driver = RunDriver(fresh_database)
    run_id = driver.begin({"a": []})
    with fresh_database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET mode = 'maintenance', mode_changed_at = now()")
        assert deployment_mode.mode(tx) == deployment_mode.MAINTENANCE
    assert codes(driver, run_id)[0] == "maintenance"


def test_another_tenant_s_task_run_is_not_there(driver: RunDriver) -> None:
    run_id = RunDriver(driver.database).begin({"a": []})
    with pytest.raises(NotFound):
        ask(driver, run_id)
