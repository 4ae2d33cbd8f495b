"""Schedules that pipelines declare: they follow the code, a person's changes stay, and no time is lost or
doubled while two versions of the code take turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from support.concurrency import BackgroundCall, call_concurrently, wait_for_lock
from support.factories import a_task, register
from support.lock_watch import LockWatch
from support.run_driver import RunDriver
from support.servers import new_database
from support.stored_values import VALUES

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.starts import loop
from pipeweave.orchestrator.starts.schedules import declaring, firing, storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.lock_order import may_wait
from pipeweave.spec import parse_spec
from pipeweave.up.postgres import Postgres

SECOND = timedelta(seconds=1)
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


@dataclass
class StandingClock:
    """A clock that stands until the test moves it."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture(scope="module")
def url(postgres_server: Postgres, database_template: str) -> Iterator[str]:
    """A database for these tests alone: their schedules stay, and are due some day."""
    with new_database(postgres_server, "declaring", database_template) as made:
        yield made


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def driver(url: str, clock: StandingClock) -> Iterator[RunDriver]:
    database = Database(url, react=reactions_to, now=clock)
    yield RunDriver(database)
    database.dispose()


def declare(driver: RunDriver, schedule: Any, *, source: str = "decorator", id: str = "files") -> None:
    """What the start of a worker does."""

    def store(tx: Transaction) -> None:
        spec = parse_spec({"id": id, "steps": [{"task": "noop"}], "schedule": schedule})
        declaring.hold(tx, driver.tenant, {id})
        pipelines.store(tx, driver.tenant, spec, source=source)
        declaring.declare(tx, driver.tenant, spec, source=source)

    firing.run_due(driver.database, driver.values, driver.tenant, {id})
    driver.database.run(store)


def put(driver: RunDriver, **options: Any) -> None:
    """What a person does."""
    spec = ScheduleSpec("files", **options)
    driver.database.run(lambda tx: storing.put(tx, driver.tenant, "files", spec))


def tick(driver: RunDriver) -> int:
    """What the tick does with the schedule of this test."""
    return driver.database.run(lambda tx: fire(tx, driver))


def fire(tx: Transaction, driver: RunDriver) -> int:
    row = SimpleNamespace(tenant_id=driver.tenant, cause="files")
    return loop.start(tx, VALUES, firing.SCHEDULES, row)


def stored(driver: RunDriver) -> Any:
    return driver.rows("SELECT *, xmin FROM schedules WHERE tenant_id = :t", t=driver.tenant)[0]


def fires(driver: RunDriver) -> list[tuple[datetime, str]]:
    statement = "SELECT scheduled_at, outcome FROM schedule_fires WHERE tenant_id = :t ORDER BY scheduled_at"
    found = driver.rows(statement, t=driver.tenant)
    return [(each.scheduled_at, each.outcome) for each in found]


def test_a_declared_schedule_is_stored_with_the_pipeline_and_starts_runs(
    driver: RunDriver, clock: StandingClock
) -> None:
    declare(driver, {"cron": "*/5 * * * *", "timeZone": "Asia/Tokyo", "input": {"a": 1}, "jitterMs": 10})
    row = stored(driver)
    assert (row.pipeline_id, row.cron, row.time_zone, row.input) == (
        "files",
        "*/5 * * * *",
        "Asia/Tokyo",
        {"a": 1},
    )
    assert (row.source, row.enabled, row.next_scheduled_at) == ("code", True, NOON + timedelta(minutes=5))
    clock.now += timedelta(minutes=5, seconds=1)
    assert tick(driver) == 1
    (run,) = driver.rows("SELECT * FROM runs WHERE tenant_id = :t", t=driver.tenant)
    assert (run.input, run.triggered_kind) == ({"a": 1}, "schedule")


def test_the_same_declaration_writes_nothing(driver: RunDriver, clock: StandingClock) -> None:
    schedule = {"everyMs": 90_000, "overlapPolicy": "skip", "startAt": "2027-03-01T12:00:30Z"}
    declare(driver, schedule)
    before = stored(driver)
    clock.now += 20 * SECOND
    declare(driver, schedule)
    assert stored(driver) == before


@pytest.mark.parametrize(
    "other",
    [
        {"cron": "*/7 * * * *"},
        {"cron": "*/5 * * * *", "timeZone": "Asia/Kathmandu"},
        {"cron": "*/5 * * * *", "input": {"b": 2}},
        {"cron": "*/5 * * * *", "missedPolicy": "all"},
        {"cron": "*/5 * * * *", "overlapPolicy": "queue"},
        {"cron": "*/5 * * * *", "jitterMs": 5_000},
        {"cron": "*/5 * * * *", "endAt": "2030-01-01T00:00:00Z"},
        {"everyMs": 300_000},
    ],
)
def test_another_declaration_changes_the_schedule(driver: RunDriver, other: dict[str, Any]) -> None:
    declare(driver, "*/5 * * * *")
    created = stored(driver).created_at
    declare(driver, other)
    with driver.database.transaction() as tx:
        shown = reading.schedule(tx, driver.tenant, "files")
    given = other if "cron" in other or "everyMs" in other else {"cron": "*/5 * * * *", **other}
    assert {name: shown[name] for name in given} == {
        **given,
        **({"endAt": shown["endAt"]} if "endAt" in given else {}),
    }
    assert stored(driver).created_at == created


def test_what_is_paused_stays_paused_whatever_the_code_says_next(
    driver: RunDriver, clock: StandingClock
) -> None:
    declare(driver, "* * * * *")
    driver.database.run(lambda tx: storing.pause(tx, driver.tenant, "files"))
    for schedule in ("* * * * *", "*/2 * * * *", None, "* * * * *"):
        declare(driver, schedule)
        clock.now += timedelta(minutes=4)
        assert tick(driver) == 0
    driver.database.run(lambda tx: storing.resume(tx, driver.tenant, "files"))
    clock.now += timedelta(minutes=1)
    assert tick(driver) == 1


def test_a_schedule_may_be_declared_paused_and_then_stays_as_somebody_resumed_it(
    driver: RunDriver, clock: StandingClock
) -> None:
    declare(driver, {"cron": "* * * * *", "paused": True})
    assert not stored(driver).enabled
    driver.database.run(lambda tx: storing.resume(tx, driver.tenant, "files"))
    declare(driver, {"cron": "* * * * *", "paused": True})
    assert stored(driver).enabled


def test_what_a_person_has_changed_is_the_persons_until_it_is_deleted(driver: RunDriver) -> None:
    declare(driver, "*/5 * * * *")
    put(driver, cron="*/9 * * * *")
    declare(driver, "*/7 * * * *")
    declare(driver, None)
    assert (stored(driver).cron, stored(driver).source) == ("*/9 * * * *", "api")
    driver.database.run(lambda tx: storing.delete(tx, driver.tenant, "files"))
    declare(driver, "*/7 * * * *")
    assert (stored(driver).cron, stored(driver).source) == ("*/7 * * * *", "code")


def test_a_schedule_that_is_declared_no_more_starts_nothing_and_its_fires_stay(
    driver: RunDriver, clock: StandingClock
) -> None:
    declare(driver, {"cron": "* * * * *", "overlapPolicy": "queue"})
    for _ in range(2):
        clock.now += timedelta(minutes=1)
        tick(driver)
    assert [outcome for _, outcome in fires(driver)] == ["fired", "waiting"]
    declare(driver, None)
    clock.now += timedelta(hours=1)
    driver.database.run(lambda tx: storing.resume(tx, driver.tenant, "files"))
    assert tick(driver) == 0
    assert [outcome for _, outcome in fires(driver)] == ["fired", "skipped"]
    with driver.database.transaction() as tx:
        assert reading.schedules(tx, driver.tenant, reading.PageRequest(10))["items"] == []
        shown = reading.schedule(tx, driver.tenant, "files")
    assert (shown["withdrawnAt"] is not None, shown["nextFireAt"], shown["nextFires"]) == (True, None, [])
    declare(driver, "* * * * *")
    clock.now += timedelta(minutes=1)
    assert tick(driver) == 1


@pytest.mark.parametrize(("first", "other"), [("decorator", "document"), ("api", "decorator")])
def test_what_the_code_says_of_a_pipeline_withdraws_no_schedule_of_a_document(
    driver: RunDriver, first: str, other: str
) -> None:
    declare(driver, "*/5 * * * *", source=first)
    declare(driver, None, source=other)
    declare(driver, None, source="derived")
    assert stored(driver).withdrawn_at is None


def test_a_time_that_will_never_come_is_stored_and_does_not_keep_a_worker_from_its_start(
    driver: RunDriver,
) -> None:
    declare(driver, {"at": "2020-01-01T00:00:00Z"})
    assert stored(driver).next_fire_at is None


def test_the_document_of_a_pipeline_shows_what_it_declares(driver: RunDriver) -> None:
    schedule = {"cron": "*/5 * * * *", "timeZone": "Europe/Berlin", "endAt": "2030-01-01T00:00:00Z"}
    declare(driver, schedule, source="api")
    with driver.database.transaction() as tx:
        spec = reading.pipeline(tx, driver.tenant, "files")["spec"]
    assert spec["schedule"] == schedule
    declare(driver, spec["schedule"], source="api")
    declare(driver, None, source="api")
    with driver.database.transaction() as tx:
        assert "schedule" not in reading.pipeline(tx, driver.tenant, "files")["spec"]


def test_another_schedule_is_no_other_version_of_the_pipeline(driver: RunDriver) -> None:
    declare(driver, "*/5 * * * *")
    declare(driver, "*/6 * * * *")
    statement = "SELECT version FROM pipeline_versions WHERE tenant_id = :t AND pipeline_id = 'files'"
    assert len(driver.rows(statement, t=driver.tenant)) == 1


def test_a_declaration_waits_for_the_tick_that_has_the_row(driver: RunDriver, clock: StandingClock) -> None:
    declare(driver, "* * * * *")
    clock.now += timedelta(minutes=1)
    with driver.database.transaction() as tx:
        assert fire(tx, driver) == 1
        with BackgroundCall(lambda: declare(driver, "*/1 * * * *")):
            wait_for_lock(driver.database)
            tx.commit()
    assert tick(driver) == 0
    assert fires(driver) == [(NOON + timedelta(minutes=1), "fired")]


def test_a_time_that_comes_while_a_registration_goes_on_starts_after_it(
    driver: RunDriver, clock: StandingClock
) -> None:
    declare(driver, "0 * * * * *")
    with driver.database.transaction() as tx:
        declaring.hold(tx, driver.tenant, {"files"})
        clock.now += timedelta(minutes=1)
        assert tick(driver) == 0
        tx.catch_up()
        spec = parse_spec({"id": "files", "steps": [{"task": "noop"}], "schedule": "0 0 * * *"})
        declaring.declare(tx, driver.tenant, spec, source="decorator")
    assert tick(driver) == 1
    assert fires(driver) == [(NOON + timedelta(minutes=1), "fired")]
    assert stored(driver).next_scheduled_at == NOON + timedelta(hours=12)


def test_starts_of_workers_ticks_and_people_wait_for_each_other_in_one_order(
    driver: RunDriver, clock: StandingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick holds a schedule and fills limits of tasks; the start of a worker writes both."""
    watch = LockWatch(monkeypatch)
    declare(driver, "* * * * *")

    def start_worker(number: int) -> None:
        def store(tx: Transaction) -> None:
            service_registration.begin(tx, driver.tenant)
            declaring.hold(tx, driver.tenant, {"files"})
            register(tx, driver.tenant, a_task("noop", concurrency=1 + number % 2), "other")
            steps = [{"task": "noop"}, {"task": "other"}][: 1 + number % 2]
            spec = parse_spec({"id": "files", "steps": steps, "schedule": f"*/{1 + number % 3} * * * *"})
            pipelines.store(tx, driver.tenant, spec, source="decorator")
            declaring.declare(tx, driver.tenant, spec, source="decorator")

        driver.database.run(store)

    def tick_on(_: int) -> None:
        clock.now += timedelta(minutes=1)
        tick(driver)

    def meddle(number: int) -> None:
        verb = (storing.pause, storing.resume)[number % 2]
        driver.database.run(lambda tx: verb(tx, driver.tenant, "files"))

    def often(work: Callable[[int], None]) -> Callable[[], None]:
        return lambda: [work(number) for number in range(20)] and None

    for each in call_concurrently(*map(often, (start_worker, start_worker, tick_on, tick_on, meddle))):
        _ = each.result
    assert {pair for pair in watch.waits if not may_wait(*pair)} == set()
    assert {("schedules", "tasks"), ("schedules", "services")} <= set(watch.waits)


@pytest.mark.parametrize("seed", range(4))
def test_two_versions_of_the_code_that_take_turns_double_and_skip_nothing(
    driver: RunDriver, clock: StandingClock, seed: int
) -> None:
    """At each second, what was declared last decides: each of its due times starts one run, none else."""
    chance = random.Random(seed)
    seconds = [6, 4, 6]
    rules = [{"cron": f"*/{each} * * * * *", "input": {"v": number}} for number, each in enumerate(seconds)]
    expected = []
    current = 0
    declare(driver, rules[current])
    for _ in range(120):
        clock.now += SECOND
        if (clock.now - NOON).seconds % seconds[current] == 0:
            expected.append((clock.now, "fired"))
        # Ticks and starts come in any order; a tick may also be late.
        for _ in range(chance.choice([0, 1, 1, 2])):
            if chance.random() < 0.5:
                current = chance.randrange(len(rules))
                declare(driver, rules[current])
            else:
                tick(driver)
        while chance.random() < 0.3:
            tick(driver)
    tick(driver)
    assert fires(driver) == expected
