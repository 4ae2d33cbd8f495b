"""Setting going again what stands still, by the verb and by the command."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner
from support.empty_broker import NOWHERE, EmptyBroker
from support.run_driver import Clock, RunDriver
from support.stalled_runs import WIDE, found, later, past

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.diagnosis import repeated_ticks
from pipeweave.orchestrator.diagnosis.stalled import StalledKind
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.recovery import tick
from pipeweave.settings import Settings


@pytest.fixture
def queues() -> EmptyBroker:
    return EmptyBroker()


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    return isolated_driver


@pytest.fixture
def deployment(driver: RunDriver, queues: EmptyBroker) -> Deployment:
    settings = Settings(database_url=driver.database.url, broker_url=NOWHERE)
    found = Deployment(settings, driver.database, driver.values, queues)
    tick.run_once(found)
    return found


# --- setting it going again -------------------------------------------------------------------------------


class Time:
    """Time that passes only while someone sleeps."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


def resume(deployment: Deployment, time: Time | None = None) -> repeated_ticks.RecoveryResult:
    time = time or Time()
    return repeated_ticks.tick_until_settled(deployment, clock=time, sleep=time.sleep)


def test_repeated_ticks_mend_stalled_work(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    lost = driver.begin({"a": []})
    later(clock)
    driver.sent.clear()
    recovered = resume(deployment)
    assert [each.kind for each in recovered.stalled] == [StalledKind.MESSAGE_LOST]
    assert (recovered.left, recovered.ticks, recovered.done) == ([], 1, {"republished": 1})
    assert driver.released(lost) == [1]


def test_nothing_is_done_where_nothing_stands_still(deployment: Deployment) -> None:
    assert resume(deployment) == repeated_ticks.RecoveryResult([], [])


def test_trying_ends_when_nothing_moves(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    """Nobody answers the question about the join."""
    run_id = driver.begin(WIDE)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(8)))
    later(clock)
    time = Time()
    recovered = resume(deployment, time)
    assert [each.kind for each in recovered.left] == [StalledKind.JOIN_CLOSED]
    assert repeated_ticks.UNCHANGED_S <= time.passed <= repeated_ticks.UNCHANGED_S + 2
    assert {each.join for each in driver.sent if isinstance(each, JoinCheck)} == {10}


def test_no_tick_runs_during_maintenance(deployment: Deployment, driver: RunDriver) -> None:
    driver.begin({"a": []})
    past(driver, "UPDATE orchestrator_state SET mode = 'maintenance'")
    assert found(deployment) == []
    past(driver, "UPDATE runs SET deadline_at = now() - interval '1 minute'")
    recovered = resume(deployment)
    assert [each.kind for each in recovered.left] == [StalledKind.MAINTENANCE, StalledKind.RUN_OVERDUE]
    assert recovered.ticks == 0


def test_trying_ends_when_a_worker_answers(deployment: Deployment, driver: RunDriver, clock: Clock) -> None:
    run_id = driver.begin(WIDE)
    driver.finish(run_id, "a", *(f"b{number}" for number in range(8)))
    later(clock)

    def sleep(_: float) -> None:
        driver.check(run_id, 10)

    recovered = repeated_ticks.tick_until_settled(deployment, clock=Time(), sleep=sleep)
    assert (recovered.left, recovered.ticks) == ([], 2)


# --- the command ------------------------------------------------------------------------------------------


def call(url: str, *arguments: str) -> Any:
    variables = {"BROKER_URL": NOWHERE}
    return CliRunner().invoke(main, ["recover", *arguments, "--database-url", url], env=variables)


def test_the_command_shows_stalled_work(driver: RunDriver, deployment: Deployment) -> None:
    assert call(driver.database.url).stdout == "Nothing is stuck.\n"
    assert call(driver.database.url).exit_code == 0
    run_id: UUID = driver.begin({"a": []})
    past(driver, "UPDATE runs SET deadline_at = now() - interval '1 minute'")
    shown = call(driver.database.url)
    assert shown.exit_code == 1
    assert ids.show(ids.RUN, run_id) in shown.stdout
    (document,) = json.loads(call(driver.database.url, "--json").stdout)["stale"]
    assert document["kind"] == "run_overdue"
    assert document["run"] == ids.show(ids.RUN, run_id)
    assert document["taskRun"] is None
    assert document["since"].endswith("Z")
    assert document["whatHeals"] == "the tick fails the run"


def test_the_command_mends_stalled_work_and_says_what_it_did(
    driver: RunDriver, deployment: Deployment
) -> None:
    driver.begin({"a": []})
    past(driver, "UPDATE runs SET deadline_at = now() - interval '1 minute'")
    healed = call(driver.database.url, "--auto-resume")
    assert (
        healed.stdout
        == "Stuck: 1. Passes of the scheduler loop: 1. Done: runs timed out (1).\nNothing is stuck.\n"
    )
    assert healed.exit_code == 0
    document = json.loads(call(driver.database.url, "--auto-resume", "--json").stdout)
    assert document == {"stale": [], "found": [], "ticks": 0, "done": {}}


def test_the_command_says_that_its_own_ticks_were_the_only_ones(
    driver: RunDriver, deployment: Deployment
) -> None:
    past(driver, "UPDATE orchestrator_state SET last_tick_at = NULL")
    assert "pipeweave beat" in call(driver.database.url, "--auto-resume").stderr
