"""The URL of a suspended call is asked until it gives a final answer; each try is claimed before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.attempts import kept
from support.run_driver import Clock, RunDriver
from support.servers import wait_until
from support.stub_http_server import Served, serving
from support.suspended_runs import SuspendedRuns

from pipeweave import Suspend, ids
from pipeweave.orchestrator.dispatch import polls
from pipeweave.orchestrator.runs import pausing
from pipeweave.sending import NoReply, Reply
from pipeweave.settings import Settings

RUNNING = (200, {"status": "running"})
DONE = (200, {"status": "completed", "score": 3})


@pytest.fixture
def runs(isolated_driver: RunDriver) -> SuspendedRuns:
    return SuspendedRuns(isolated_driver)


@pytest.fixture
def jobs() -> Iterator[Served]:
    with serving() as served:
        yield served


def poll(runs: SuspendedRuns, jobs: Served, **options: Any) -> UUID:
    """Begin a run that polls."""
    return runs.begin(Suspend.poll(f"{jobs.url}/jobs/7?key=1", **options), {"retry": {"attempts": 1}})


def tick(runs: SuspendedRuns, *networks: str) -> int:
    """Do what a tick does, and wait for the requests that it began."""
    settings = Settings(dispatch_networks=networks or ("loopback",), mode="serverless")
    return polls.run_once(runs.driver.database, runs.driver.values, settings)


def test_a_final_answer_is_the_output(runs: SuspendedRuns, jobs: Served, clock: Clock) -> None:
    jobs.put("GET /jobs/7?key=1", RUNNING, DONE)
    run_id = poll(runs, jobs, interval="10s")
    assert tick(runs) == 1
    [wait] = runs.waits(run_id)
    assert (wait.data["tries"], wait.data["lastAnswer"]) == (1, "200: running")
    assert tick(runs) == 0, "the next try is not due"
    clock.ahead = timedelta(seconds=11)
    assert tick(runs) == 1
    row = runs.row(run_id)
    assert (row.status, row.output) == ("completed", {"status": "completed", "score": 3})
    assert runs.driver.statuses(run_id)["end"] == "queued"
    assert [request for request, _, _ in jobs.asked] == ["GET /jobs/7?key=1"] * 2


def test_a_failure_fails_the_attempt(runs: SuspendedRuns, jobs: Served) -> None:
    jobs.put("GET /jobs/7?key=1", (200, {"status": "failed", "error": "no disk"}))
    run_id = poll(runs, jobs)
    tick(runs)
    row = runs.row(run_id)
    assert (row.status, row.error["message"]) == ("failed", "Async operation failed: no disk")


@pytest.mark.parametrize(
    "answer",
    [(503, {"a": 1}), (302, {}), (200, b"no JSON"), (200, [1]), (200, b'"' + b"x" * 1_000_001 + b'"')],
)
def test_what_is_no_final_answer_is_asked_again(
    runs: SuspendedRuns, jobs: Served, clock: Clock, answer: Any
) -> None:
    jobs.put("GET /jobs/7?key=1", answer, DONE)
    run_id = poll(runs, jobs)
    tick(runs)
    assert runs.row(run_id).status == "waiting"
    assert runs.waits(run_id)[0].data["lastAnswer"].startswith(str(answer[0]))
    clock.ahead = timedelta(seconds=6)
    tick(runs)
    assert runs.row(run_id).status == "completed"


def test_tries_are_used_up(runs: SuspendedRuns, jobs: Served, clock: Clock) -> None:
    jobs.put("GET /jobs/7?key=1", RUNNING)
    run_id = poll(runs, jobs, tries=2)
    for seconds in (0, 6, 12):
        clock.ahead = timedelta(seconds=seconds)
        tick(runs)
    assert kept(runs.driver, run_id) == [(1, "failed", "POLL_TRIES_EXCEEDED")]
    assert runs.row(run_id).error["message"] == "Max poll attempts (2) exceeded"
    assert len(jobs.asked) == 2


@pytest.mark.parametrize(
    ("step", "interval_ms", "tries", "seconds"),
    [
        ({}, 5_000, 60, 300),
        ({"async": {"poll": {"intervalMs": 7_000, "maxAttempts": 3, "timeoutMs": 20_000}}}, 7_000, 3, 20),
    ],
    ids=["of the engine", "of the step"],
)
def test_a_poll_without_numbers_has_those_of_its_step_or_of_the_engine(
    runs: SuspendedRuns, jobs: Served, step: Any, interval_ms: int, tries: int, seconds: int
) -> None:
    run_id = runs.begin(Suspend.poll(f"{jobs.url}/jobs/7"), step)
    [wait] = runs.waits(run_id)
    assert (wait.data["intervalMs"], wait.data["maxTries"]) == (interval_ms, tries)
    assert wait.timeout_at - wait.created_at == timedelta(seconds=seconds)


def test_its_time_ends_a_poll(runs: SuspendedRuns, jobs: Served, clock: Clock) -> None:
    jobs.put("GET /jobs/7?key=1", RUNNING)
    run_id = poll(runs, jobs, timeout="8s", interval="1h")
    tick(runs)
    clock.ahead = timedelta(seconds=9)
    tick(runs)
    assert kept(runs.driver, run_id) == [(1, "timeout", "WAIT_TIMEOUT")]
    assert runs.row(run_id).error["details"] == {"timeoutMs": 8_000}


@pytest.mark.parametrize(
    ("attempts", "level", "follows"), [(1, "ERROR", "task_run.failed"), (2, "WARNING", "task_run.retrying")]
)
def test_a_poll_that_came_to_no_result_has_a_line(
    runs: SuspendedRuns,
    jobs: Served,
    caplog: pytest.LogCaptureFixture,
    attempts: int,
    level: str,
    follows: str,
) -> None:
    jobs.put("GET /jobs/7?key=1", (200, {"status": "failed", "error": "secret of theirs"}))
    retry = {"retry": {"attempts": attempts, "delayMs": 1, "backoff": "fixed"}}
    run_id = runs.begin(Suspend.poll(f"{jobs.url}/jobs/7?key=1", tries=5), retry)
    tick(runs)
    shown = ids.show(ids.RUN, run_id)
    told = [each for each in caplog.records if getattr(each, "run_id", None) == shown]
    line = vars(next(each for each in told if each.message == "poll.failed"))
    assert (line["levelname"], line["step_id"], line["error_code"]) == (level, "ask", "ASYNC_FAILED")
    assert (line["tries"], line["max_tries"]) == (1, 5)
    assert "secret of theirs" not in str(line)
    assert follows in [each.message for each in told]


def test_a_poll_beyond_its_time_has_a_line_with_its_limit(
    runs: SuspendedRuns, jobs: Served, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.put("GET /jobs/7?key=1", RUNNING)
    poll(runs, jobs, timeout="8s", interval="1h")
    tick(runs)
    clock.ahead = timedelta(seconds=9)
    tick(runs)
    [line] = [vars(each) for each in caplog.records if each.message == "poll.failed"]
    assert (line["error_code"], line["timeout_ms"]) == ("WAIT_TIMEOUT", 8_000)


def test_a_process_that_dies_with_a_try_costs_this_try(
    runs: SuspendedRuns, jobs: Served, clock: Clock
) -> None:
    jobs.put("GET /jobs/7?key=1", DONE)
    run_id = poll(runs, jobs, tries=2)
    assert len(runs.driver.database.run(lambda tx: polls.claim(tx, 8))) == 1
    assert runs.driver.database.run(lambda tx: polls.claim(tx, 8)) == []
    clock.ahead = timedelta(seconds=6)
    tick(runs)
    assert runs.row(run_id).status == "completed"


def test_an_answer_that_was_stored_before_a_death_is_taken_by_the_next_tick(
    runs: SuspendedRuns, jobs: Served
) -> None:
    jobs.put("GET /jobs/7?key=1", DONE)
    run_id = poll(runs, jobs)
    database = runs.driver.database
    react, database.react = database.react, lambda fact: ()
    tick(runs)
    database.react = react
    assert runs.row(run_id).status == "waiting"
    tick(runs)
    assert (runs.row(run_id).status, len(jobs.asked)) == ("completed", 1)


def test_a_paused_run_polls_on(runs: SuspendedRuns, jobs: Served) -> None:
    jobs.put("GET /jobs/7?key=1", DONE)
    run_id = poll(runs, jobs)
    with runs.driver.database.transaction() as tx:
        pausing.pause(tx, runs.driver.tenant, run_id)
    tick(runs)
    assert runs.row(run_id).status == "completed"
    assert runs.driver.statuses(run_id)["end"] == "ready"


def test_an_address_that_is_not_allowed_is_never_asked(runs: SuspendedRuns, jobs: Served) -> None:
    run_id = poll(runs, jobs)
    tick(runs, "10.0.0.0/8")
    assert jobs.asked == []
    assert "no address that requests may reach" in runs.waits(run_id)[0].data["lastAnswer"]


def test_who_claims_at_once_claims_no_try_twice(runs: SuspendedRuns, jobs: Served) -> None:
    for _ in range(3):
        poll(runs, jobs)
    with runs.driver.database.transaction() as first:
        assert len(polls.claim(first, 8)) == 3
        with runs.driver.database.transaction() as second:
            assert polls.claim(second, 8) == []


def test_a_tenant_takes_no_more_than_its_share(runs: SuspendedRuns, jobs: Served) -> None:
    for _ in range(polls.OF_A_TENANT + 2):
        poll(runs, jobs)
    jobs.put("GET /jobs/7?key=1", RUNNING)
    assert tick(runs) == polls.OF_A_TENANT


def test_an_answer_of_somebody_who_is_away_is_for_people() -> None:
    assert polls.read_answer(NoReply("refused", is_certain=True)) == "refused"
    assert polls.read_answer(Reply(404, None, "no\nsuch job")) == "404: no such job"
    assert polls.read_answer(Reply(200, None, "{}", is_whole=False)) == "200: more than 1,000,000 bytes"


def test_a_poll_beside_the_tick_ends_the_wait_by_itself(runs: SuspendedRuns, jobs: Served) -> None:
    jobs.put("GET /jobs/7?key=1", DONE)
    run_id = poll(runs, jobs)
    settings = Settings(dispatch_networks=("loopback",))
    assert polls.run_once(runs.driver.database, runs.driver.values, settings) == 1
    wait_until(lambda: runs.row(run_id).status == "completed")
