"""Hooks of pipelines: each end fires each hook once; a call is tried until it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
from support.concurrency import call_concurrently
from support.dripping import dripping
from support.due_chores import due_chores
from support.run_driver import Clock, RunDriver
from support.stored_values import VALUES
from support.stub_http_server import Served, serving

from pipeweave import ids, webhooks
from pipeweave.orchestrator.dispatch import beside_tick
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.reading import run as read_run
from pipeweave.orchestrator.runs import deadlines, triggering
from pipeweave.orchestrator.starts import event_consumer
from pipeweave.orchestrator.starts.fires import MAX_DEPTH
from pipeweave.orchestrator.starts.hooks import run_starts, url_calls
from pipeweave.orchestrator.store.database import Database
from pipeweave.sending import Sender
from pipeweave.settings import Settings

FAILED = Failure("BROKEN", "it broke", "Broken", retryable=False)
SECRET = "5e" * 32


@pytest.fixture
def driver(isolated_driver: RunDriver) -> Iterator[RunDriver]:
    """Alone in its database, because the chores look at all tenants."""
    isolated_driver.store({"b": []}, id="alert")
    yield isolated_driver


@pytest.fixture
def receiver() -> Iterator[Served]:
    with serving() as served:
        served.put("POST /hook?of=1", (202, {}))
        yield served


def settings(**more: Any) -> Settings:
    given: dict[str, Any] = {"secret_key": SECRET, "dispatch_networks": ("loopback",), "mode": "serverless"}
    return Settings(**{**given, **more})


def ended(driver: RunDriver, pipeline: str = "files", step: str = "a", **ending: Any) -> Any:
    run = driver.trigger(pipeline, {"country": "DE"})
    driver.finish(run, step, **ending)
    return run


def tick(driver: RunDriver, database: Database | None = None, given: Settings | None = None) -> int:
    found = event_consumer.run_once(database or driver.database)
    run_starts.run_once(database or driver.database, VALUES)
    url_calls.run_once(database or driver.database, given or settings())
    return found


def fires(driver: RunDriver) -> list[Any]:
    return driver.rows("SELECT * FROM hook_fires ORDER BY id")


def runs(driver: RunDriver, pipeline: str = "alert") -> list[Any]:
    return driver.rows("SELECT * FROM runs WHERE pipeline_id = :id ORDER BY id", id=pipeline)


# --- pipelines --------------------------------------------------------------------------------------------


def test_each_end_fires_its_own_hooks(driver: RunDriver) -> None:
    driver.store({"a": []}, id="files", onFailure="alert", onSuccess=[{"pipeline": "alert"}, "unknown"])
    failed = ended(driver, failure=FAILED)
    assert tick(driver) == 1
    (run,) = runs(driver)
    shown = ids.show(ids.RUN, failed)
    assert (run.triggered_kind, run.triggered_id, run.triggered_actor) == ("event", "files.onFailure", shown)
    assert run.input["event"]["error"]["stepId"] == "a"
    completed = ended(driver)
    cancelled = driver.trigger("files")
    driver.database.run(lambda tx: triggering.cancel(tx, driver.tenant, cancelled))
    assert tick(driver) == 2
    assert [each.outcome for each in fires(driver)] == ["fired", "fired", "failed"]
    with driver.database.transaction() as tx:
        hooks = read_run(tx, driver.tenant, completed)["hooks"]
    assert [(each["pipelineId"], each["outcome"]) for each in hooks] == [
        ("alert", "fired"),
        ("unknown", "failed"),
    ]
    assert hooks[0]["runId"] == ids.show(ids.RUN, runs(driver)[-1].id)
    assert hooks[1]["error"]["code"] == "NOT_FOUND"


def test_a_run_that_failed_by_its_time_limit_fires_too(driver: RunDriver) -> None:
    driver.store({"a": []}, id="files", onFailure="alert")
    run = driver.trigger("files")
    driver.database.run(lambda tx: deadlines.time_out_run(tx, driver.tenant, run, "RUN_TIMEOUT", "too long"))
    tick(driver)
    assert runs(driver)[0].input["event"]["error"]["code"] == "RUN_TIMEOUT"


def test_hooks_are_those_of_the_version_that_ran(driver: RunDriver) -> None:
    driver.store({"a": []}, id="files", onFailure="alert")
    before = driver.trigger("files")
    assert driver.store({"a": []}, id="files") == 2
    driver.finish(before, "a", failure=FAILED)
    ended(driver, failure=FAILED)
    assert tick(driver) == 1


@pytest.mark.parametrize("broken", ["INSERT INTO hook_fires", "INSERT INTO runs", "UPDATE hook_fires"])
def test_a_tick_that_dies_anywhere_leaves_nothing_half_done(
    driver: RunDriver, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.store({"a": []}, id="files", onFailure="alert")
    ended(driver, failure=FAILED)
    execute = triggering.Transaction.execute

    def dying(self: Any, statement: str, *arguments: Any, **options: Any) -> Any:
        found = execute(self, statement, *arguments, **options)
        if broken in statement:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(triggering.Transaction, "execute", dying)
        with pytest.raises(KeyboardInterrupt):
            tick(driver)
    tick(driver)
    assert (len(runs(driver)), [each.outcome for each in fires(driver)]) == (1, ["fired"])


def test_ticks_at_once_start_and_call_each_hook_once(driver: RunDriver, receiver: Served) -> None:
    call = {"url": f"{receiver.url}/hook?of=1"}
    driver.store({"a": []}, id="files", onSuccess=["alert", call])
    for _ in range(4):
        ended(driver)
    others = [Database(driver.database.url) for _ in range(2)]
    call_concurrently(*(lambda each=each: tick(driver, each) for each in others))
    tick(driver)
    for each in others:
        each.dispose()
    assert (len(runs(driver)), len(receiver.asked)) == (4, 4)
    assert {each.outcome for each in fires(driver)} == {"fired"}


def test_hooks_that_begin_each_other_end(driver: RunDriver) -> None:
    driver.store({"a": []}, id="ping", onSuccess="pong")
    driver.store({"a": []}, id="pong", onSuccess="ping")
    ended(driver, "ping")
    for _ in range(MAX_DEPTH + 2):
        tick(driver)
        for each in driver.rows("SELECT * FROM runs WHERE status = 'running'"):
            driver.finish(each.id, "a")
    assert len(runs(driver, "ping") + runs(driver, "pong")) == MAX_DEPTH + 1
    assert fires(driver)[-1].reason == "LOOP"


# --- calls ------------------------------------------------------------------------------------------------


def test_a_call_is_signed_and_says_what_happened(driver: RunDriver, receiver: Served) -> None:
    driver.store({"a": []}, id="files", onFailure={"url": f"{receiver.url}/hook?of=1", "secret": "ops"})
    run = ended(driver, failure=FAILED)
    tick(driver, given=settings(orchestrator_url="https://api.example"))
    ((_, headers, document),) = receiver.asked
    shown = ids.show(ids.RUN, run)
    assert (document["hook"], document["runId"], document["status"]) == ("onFailure", shown, "failed")
    assert document["error"]["stepId"] == "a"
    assert document["link"] == f"https://api.example/api/runs/{shown}"
    assert not {"input", "output"} & document.keys()
    (fire,) = fires(driver)
    assert headers["Idempotency-Key"] == headers[webhooks.DELIVERY] == document["id"] == str(fire.id)
    secret = webhooks.hook_secret(SECRET, driver.tenant, "ops")
    now = driver.database.now().timestamp()
    assert webhooks.is_valid(secret, headers[webhooks.HEADER], orjson.dumps(document), now)
    assert (fire.outcome, fire.attempts) == ("fired", 1)


def test_a_call_that_is_refused_is_tried_again_and_then_given_up(
    driver: RunDriver, receiver: Served, clock: Clock
) -> None:
    receiver.put("POST /hook?of=1", (500, {"why": "down"}))
    driver.store({"a": []}, id="files", onFailure={"url": f"{receiver.url}/hook?of=1"})
    run = ended(driver, failure=FAILED)
    tick(driver)
    waits = []
    for _ in range(url_calls.TRIES - 1):
        (fire,) = fires(driver)
        assert (fire.outcome, fire.error_code) == ("waiting", "HOOK_REFUSED")
        wait = fire.due_at - driver.database.now()
        waits.append(round(wait / timedelta(minutes=1)))
        tick(driver)
        clock.ahead += wait + timedelta(seconds=1)
        tick(driver)
    assert waits == [1, 2, 4, 8, 16]
    assert len(receiver.asked) == url_calls.TRIES
    assert len({each[2]["id"] for each in receiver.asked}) == 1
    with driver.database.transaction() as tx:
        (hook,) = read_run(tx, driver.tenant, run)["hooks"]
    assert (hook["outcome"], hook["attempts"], hook["dueAt"]) == ("failed", url_calls.TRIES, None)
    assert "500" in hook["error"]["message"]


@pytest.mark.parametrize(
    ("given", "url", "code"),
    [
        ({"dispatch_networks": ()}, None, "TARGET_REFUSED"),
        ({"secret_key": None}, None, "INVALID_SETTING"),
        ({}, "http://127.0.0.1:9/x", "HOOK_UNANSWERED"),
        ({}, "http://nowhere.invalid/", "HOOK_UNANSWERED"),
    ],
)
def test_why_a_call_cannot_be_made_is_noted(
    driver: RunDriver, receiver: Served, given: dict[str, Any], url: str | None, code: str
) -> None:
    driver.store({"a": []}, id="files", onFailure={"url": url or f"{receiver.url}/hook?of=1"})
    ended(driver, failure=FAILED)
    tick(driver, given=settings(**given))
    (fire,) = fires(driver)
    assert (fire.outcome, fire.error_code, receiver.asked) == ("waiting", code, [])


def test_a_process_that_dies_while_it_calls_leaves_the_call_to_the_next_try(
    driver: RunDriver, receiver: Served, clock: Clock
) -> None:
    driver.store({"a": []}, id="files", onFailure={"url": f"{receiver.url}/hook?of=1"})
    ended(driver, failure=FAILED)
    event_consumer.run_once(driver.database)
    (dead,) = driver.database.run(lambda tx: url_calls.claim(tx, 8))
    tick(driver)
    assert receiver.asked == []
    clock.ahead += timedelta(minutes=2)
    tick(driver)
    assert len(receiver.asked) == 1
    # The first try answers late: it changes nothing any more.
    url_calls.call(driver.database, settings(dispatch_networks=()), Sender(), dead)
    assert [(each.outcome, each.attempts) for each in fires(driver)] == [("fired", 2)]


def test_a_redirect_is_not_followed(driver: RunDriver, receiver: Served) -> None:
    receiver.put("POST /hook?of=1", (302, None))
    driver.store({"a": []}, id="files", onFailure={"url": f"{receiver.url}/hook?of=1"})
    ended(driver, failure=FAILED)
    tick(driver)
    assert fires(driver)[0].error_code == "HOOK_REFUSED"


def test_without_hooks_there_is_nothing_to_do(driver: RunDriver) -> None:
    driver.store({"a": []}, id="files")
    ended(driver)
    assert event_consumer.run_once(driver.database) == 0
    assert due_chores(driver.database, "events", "hooks", "hook_calls") == set()
    driver.store({"a": []}, id="files", onSuccess=["alert", {"url": "http://127.0.0.1:9/"}])
    ended(driver)
    assert due_chores(driver.database, "events") == {"events"}
    assert event_consumer.run_once(driver.database) == 2
    assert due_chores(driver.database, "hooks", "hook_calls") == {"hooks", "hook_calls"}


# --- receivers that hang ----------------------------------------------------------------------------------


def test_receivers_of_one_tenant_that_hang_leave_places_for_others(
    driver: RunDriver, receiver: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbour = RunDriver(driver.database)
    standalone = settings(mode="standalone")
    with dripping(b"HTTP/1.0 200 OK\r\n\r\n") as hanging:
        driver.store({"a": []}, id="files", onSuccess=[{"url": hanging.url}] * 5)
        for _ in range(2):
            ended(driver)
        tick(driver, given=standalone)
        for _ in range(beside_tick.OF_A_TENANT):
            assert hanging.taken.acquire(timeout=60)
        assert not hanging.taken.acquire(blocking=False), "the share of a tenant is all that it gets"
        neighbour.store({"a": []}, id="files", onSuccess=[{"url": f"{receiver.url}/hook?of=1"}])
        neighbour.finish(neighbour.trigger("files", {}), "a")
        tick(driver, given=standalone)
        while not receiver.asked:
            assert not hanging.cut.acquire(timeout=0.01), "nobody had to be cut first"
        for _ in range(beside_tick.OF_A_TENANT):
            assert hanging.cut.acquire(timeout=60), "a call is never longer than its deadline"
    for each in fires(driver):
        assert each.outcome == ("fired" if each.tenant_id == neighbour.tenant else "waiting")
