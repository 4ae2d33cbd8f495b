"""Every stuck join is asked for soon, however many runs are open, and none of them is asked for in vain."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from support.empty_broker import EmptyBroker
from support.run_driver import Clock, RunDriver, claim
from support.sent_statements import sent_statements

from pipeweave.errors import PartlyFailed
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.recovery import stuck_joins
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Unfinished

OPEN = 3_000
LATER = timedelta(seconds=6)
ENDS = [f"end{number}" for number in range(8)]


def many_open_runs(driver: RunDriver) -> None:
    """Nothing is wrong with them: their first step waits for a worker."""
    driver.store({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, id="open")
    with driver.database.transaction() as tx:
        for _ in range(OPEN // 1_000):
            one = [triggering.StartRequest("open", number) for number in range(1_000)]
            triggering.trigger_many(tx, driver.values, driver.tenant, "open", one)


def over(driver: RunDriver) -> UUID:
    """A run whose steps are final and which nobody has ended."""
    run_id = driver.begin({each: [] for each in ENDS})
    driver.finish(run_id, *ENDS)
    return run_id


def ask(deployment: Deployment, driver: RunDriver, *, is_through: bool = True) -> set[tuple[UUID, int]]:
    driver.sent.clear()
    asked = stuck_joins.run_once(deployment)
    checks = {(each.run_id, each.join) for each in driver.sent if isinstance(each, JoinCheck)}
    assert (asked, isinstance(asked, Unfinished)) == (len(checks), not is_through)
    return checks


def test_the_last_of_thousands_of_open_runs_is_asked_for_as_soon_as_the_first(
    deployment: Deployment, driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck_joins, "MAX_SECONDS_PER_TICK", 60)
    many_open_runs(driver)
    last = over(driver)
    clock.ahead = LATER
    with sent_statements() as sent:
        assert ask(deployment, driver) == {(last, END)}
    assert len(sent) <= OPEN / 100


def test_a_pass_that_takes_long_goes_on_with_the_next_tick(
    deployment: Deployment, driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck_joins, "MAX_SECONDS_PER_TICK", 1e-9)
    monkeypatch.setattr(stuck_joins, "RUNS_AT_ONCE", 2)
    runs = [over(driver) for _ in range(5)]
    clock.ahead = LATER
    asked = [ask(deployment, driver, is_through=turn == 2) for turn in range(3)]
    assert asked == [{(each, END) for each in some} for some in (runs[:2], runs[2:4], runs[4:])]


def test_a_run_with_many_steps_is_read_alone(
    deployment: Deployment, driver: RunDriver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck_joins, "STEPS_AT_ONCE", len(ENDS))
    runs = {over(driver) for _ in range(3)}
    clock.ahead = LATER
    assert ask(deployment, driver) == {(each, END) for each in runs}


def test_a_check_that_may_still_wait_in_its_queue_is_not_sent_again(
    deployment: Deployment, driver: RunDriver, clock: Clock, broker: EmptyBroker
) -> None:
    """After an outage thousands of checks wait: each pass would double them."""
    run_id = over(driver)
    clock.ahead = LATER
    asked = {(run_id, END)}
    assert ask(deployment, driver) == asked
    broker.oldest_sent = clock().timestamp() - 1
    assert ask(deployment, driver) == set()
    broker.is_away = True
    assert ask(deployment, driver) == set()
    broker.is_away = False
    broker.oldest_sent = clock().timestamp() + 60
    assert ask(deployment, driver) == asked, "what waits there was sent later"
    broker.oldest_sent = None
    assert ask(deployment, driver) == asked


def test_a_join_behind_a_map_and_a_map_without_open_items_are_asked_for(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    going_on = driver.begin({"m": []}, {"list": [1, 2]}, maps={"m": "${input.list}"})
    run_id = driver.trigger(input={"list": [1, 2]})
    with driver.database.transaction() as tx:
        claim(tx, going_on, 3)
    driver.rows(
        """UPDATE task_runs SET status = 'skipped', finished_at = now()
        WHERE kind = 'item' AND (run_id = :over OR map_index = 0) RETURNING 1""",
        over=run_id,
    )
    clock.ahead = LATER
    assert ask(deployment, driver) == {(run_id, 1)}


def test_a_version_that_cannot_be_read_keeps_no_other_run_waiting(
    deployment: Deployment, driver: RunDriver, clock: Clock
) -> None:
    over(driver)
    driver.store({each: [] for each in ENDS}, id="plain")
    plain = driver.trigger("plain")
    driver.finish(plain, *ENDS)
    clock.ahead = LATER
    with driver.database.transaction() as tx:
        tx.execute("ALTER TABLE pipeline_versions DISABLE TRIGGER USER")
        tx.execute("UPDATE pipeline_versions SET spec = '{}' WHERE pipeline_id = 'driven'")
    newcomer = Database(driver.database.url, now=clock, sender=driver.sent.extend)
    driver.sent.clear()
    with pytest.raises(PartlyFailed) as failed:
        stuck_joins.run_once(Deployment(deployment.settings, newcomer, driver.values, deployment.publisher))
    newcomer.dispose()
    assert failed.value.done == 1
    assert [each.run_id for each in driver.sent if isinstance(each, JoinCheck)] == [plain]
