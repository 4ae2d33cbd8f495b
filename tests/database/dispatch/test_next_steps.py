"""The process that takes a report dispatches the step after it, and the workers do what it cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from support.run_driver import header
from support.sent_statements import sent_statements
from support.servers import wait_until
from support.taking_service import TakingService, taking_service

from pipeweave import dispatch_ids, ids
from pipeweave.errors import StaleReport, Unavailable
from pipeweave.orchestrator.dispatch import next_steps, note_keeper, open_dispatches
from pipeweave.orchestrator.dispatch.next_steps import NextSteps
from pipeweave.orchestrator.dispatch.report import SUCCESS, Report
from pipeweave.orchestrator.dispatch.reports import ReportReceiver
from pipeweave.orchestrator.domain.outbox import Outgoing, Released
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.recovery import lost_attempts
from pipeweave.orchestrator.registry import instances, pipelines
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.registry.worker_processes import CONFIRM_AFTER, LOST_AFTER
from pipeweave.orchestrator.runs import service_registration, triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.sending import sender
from pipeweave.settings import Settings
from pipeweave.spec.document import parse_spec
from pipeweave.storage import Backends
from pipeweave.up.ports import free_port

SECRET, WORKER = "5e" * 32, "worker@host:1:ab"
DONE = Report(SUCCESS, output={"n": 7}, has_output=True)


@dataclass
class Process:
    """An API process with its database, and what it sends."""

    database: Database
    values: Values
    settings: Settings
    tenant: str
    sent: list[Outgoing] = field(default_factory=list)

    @property
    def reports(self) -> ReportReceiver:
        return ReportReceiver(self.database, self.values, self.settings)

    @property
    def steps(self) -> NextSteps:
        made = next_steps.of_process(self.database, self.values, self.settings)
        assert made is not None
        return made

    def begin(self, url: str, *steps: dict[str, Any], tenant: str | None = None) -> tuple[UUID, str]:
        """Trigger a chain, whose first step runs already: the run, and the dispatch id of the first step."""
        tenant = tenant or self.tenant
        chain = steps or ({"id": "a"}, {"id": "b"}, {"id": "c"})
        document = {"id": "chain", "steps": [{"task": "take", **each} for each in chain]}
        task = TaskRegistration("take", "a" * 16, retries=1, retry_delay_ms=60_000)
        with self.database.transaction() as tx:
            service_registration.register(tx, tenant, Registration("takers", "1", "http", url, [task]))
            pipelines.store(tx, tenant, parse_spec(document), source="api")
            run_id = triggering.trigger(tx, self.values, tenant, StartRequest("chain", {"size": 3})).id
            claiming.start(tx, run_id, [1], 1, worker=WORKER)
            header(tx, run_id)
        self.sent.clear()
        return run_id, dispatch_ids.make(SECRET, ids.task_run_id(run_id, 1), 1)

    def row(self, run_id: UUID, ordinal: int) -> Any:
        with self.database.transaction() as tx:
            found = tx.execute(
                "SELECT t.*, (SELECT string_agg(e.type, ' ' ORDER BY e.seq) FROM events AS e "
                "WHERE e.run_id = t.run_id AND e.task_run_id = t.id) AS events "
                "FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id",
                {"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)},
            )
            return found.one()

    def silence(self, run_id: UUID) -> None:
        """Let the last heartbeat for the second step lie too far back."""
        self._age(run_id, "heartbeat_at", LOST_AFTER)

    def suspect(self, run_id: UUID) -> None:
        """Let the first look that found the second step silent lie far enough back."""
        self._age(run_id, "suspected_at", CONFIRM_AFTER)

    def _age(self, run_id: UUID, column: str, by: timedelta) -> None:
        with self.database.transaction() as tx:
            tx.execute(
                f"UPDATE task_runs SET {column} = now() - CAST(:by AS interval) WHERE id = :id",
                {"by": by + timedelta(milliseconds=100), "id": ids.task_run_id(run_id, 2)},
            )

    def is_trusted(self, run_id: UUID) -> bool:
        """Whether the second step has had a heartbeat within the last seconds."""
        return bool(self.database.now() - self.row(run_id, 2).heartbeat_at < LOST_AFTER)

    def lost(self) -> dict[UUID, str]:
        """A look at what was lost: the code of each run of this tenant."""
        with self.database.transaction() as tx:
            found = lost_attempts.of_lost_workers(tx) + lost_attempts.of_time(tx)
            mine = set(tx.execute("SELECT id FROM runs WHERE tenant_id = :t", {"t": self.tenant}).scalars())
        return {task_run.run_id: how.code for task_run, how in found if task_run.run_id in mine}

    @property
    def released(self) -> list[int]:
        """The steps for which messages were sent."""
        return [each.ordinal for each in self.sent if isinstance(each, Released)]


@pytest.fixture
def service() -> Iterator[TakingService]:
    with taking_service() as service:
        yield service


@pytest.fixture
def api(database: Database, tmp_path: Path, request: pytest.FixtureRequest) -> Process:
    folder = {"basePath": str(tmp_path / "objects")}
    values = Values(Backends([{"id": "local", "provider": "local", "credentials": folder}]))
    settings = Settings(secret_key=SECRET, dispatch_networks=("loopback",), data_dir=str(tmp_path))
    made = Process(database, values, settings, f"next-{abs(hash(request.node.name))}")
    database.sender = made.sent.extend
    return made


# --- the shorter way --------------------------------------------------------------------------------------


def test_the_step_after_a_report_is_dispatched_by_the_process_that_took_the_report(
    api: Process, service: TakingService
) -> None:
    run_id, first = api.begin(service.url)
    assert not api.reports.end(first, DONE).is_repeated
    [second] = service.dispatches(1)
    assert second["stepId"] == "b" and second["upstreamRefs"].keys() == {"a"}
    assert (api.row(run_id, 2).status, api.row(run_id, 2).worker) == ("running", api.steps.worker)
    assert not api.reports.end(second["runId"], DONE).is_repeated
    [_, third] = service.dispatches(2)
    # The last step before comes last, as in every dispatch.
    assert list(third["upstreamRefs"]) == ["a", "b"]
    api.reports.end(third["runId"], DONE)
    assert [api.row(run_id, each).status for each in (1, 2, 3)] == ["completed"] * 3
    assert api.released == []


@pytest.mark.parametrize("output", [{"n": 7}, {"n": 7, "more": "x" * 100_000}], ids=["small", "large"])
def test_params_are_filled_from_outputs_that_are_known(
    api: Process, service: TakingService, output: dict[str, Any]
) -> None:
    params = {"n": "${steps.a.n}", "size": "${input.size}"}
    _, first = api.begin(service.url, {"id": "a"}, {"id": "b", "params": params})
    with sent_statements() as sent:
        api.reports.end(first, Report(SUCCESS, output=output, has_output=True))
        [second] = service.dispatches(1)
    assert orjson.loads(api.values.backends.default.get(second["inputPath"])) == {"n": 7, "size": 3}
    assert not any("t.output_hash" in each and "SELECT t.step_id" in each for each in sent)


def test_a_hop_whose_report_comes_at_once_is_one_statement(api: Process, service: TakingService) -> None:
    _, first = api.begin(service.url)
    api.reports.end(first, DONE)
    [second] = service.dispatches(1)
    wait_until(lambda: api.steps.open.has_notes, what="the answer was not taken in")
    with sent_statements(of_all_threads=False) as sent:
        api.reports.end(second["runId"], DONE)
    assert sent.cost == (1, 1), sent
    service.dispatches(2)


def test_that_a_service_has_taken_a_dispatch_is_noted_unless_the_report_has_come(
    api: Process, service: TakingService
) -> None:
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    [second] = service.dispatches(1)
    api.reports.end(second["runId"], DONE)
    service.dispatches(2)
    wait_until(lambda: api.row(run_id, 3).dispatched_at is not None, what="nobody noted the third")
    assert api.row(run_id, 3).worker == f"takers {service.url}"
    assert api.row(run_id, 3).events == "task_run.started task_run.dispatched"
    assert api.row(run_id, 2).events == "task_run.started task_run.completed"


def test_a_report_is_taken_without_its_row_only_where_the_attempt_still_runs(
    api: Process, service: TakingService
) -> None:
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    [second] = service.dispatches(1)
    named = dispatch_ids.read(SECRET, second["runId"])
    assert named is not None and api.steps.open.find(named.task_run_id, 1) is not None
    with api.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET attempt = 2 WHERE run_id = :run_id AND id = :id",
            {"run_id": run_id, "id": named.task_run_id},
        )
    with pytest.raises(StaleReport):
        api.reports.end(second["runId"], DONE)
    assert api.row(run_id, 2).status == "running"
    assert api.row(run_id, 3).status == "pending"


def test_a_repeated_report_changes_nothing(api: Process, service: TakingService) -> None:
    _, first = api.begin(service.url)
    api.reports.end(first, DONE)
    assert api.reports.end(first, DONE).is_repeated
    [second] = service.dispatches(1)
    api.reports.end(second["runId"], DONE)
    assert api.reports.end(second["runId"], DONE).is_repeated
    assert len(service.dispatches(2)) == 2


# --- what is left to the workers --------------------------------------------------------------------------


def test_without_threads_for_it_every_step_is_left_to_the_workers(
    api: Process, service: TakingService
) -> None:
    api.settings = Settings(secret_key=SECRET, data_dir=api.settings.data_dir, api_dispatches=0)
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    assert (api.row(run_id, 2).status, api.released, service.taken) == ("queued", [2], [])


def test_a_service_that_this_process_cannot_reach_is_left_to_the_workers_for_a_while(api: Process) -> None:
    run_id, first = api.begin(f"http://127.0.0.1:{free_port()}")
    api.reports.end(first, DONE)
    wait_until(lambda: api.released == [2], what="it was not handed back")
    row = api.row(run_id, 2)
    assert (row.status, row.attempt, row.worker) == ("queued", 1, None)
    with api.database.transaction() as tx:
        [instance] = instances.of_service(tx, api.tenant, "takers")
    assert instance.set_aside_at is None, "only a worker may judge that"
    other, again = api.begin(f"http://127.0.0.1:{free_port()}")
    api.reports.end(again, DONE)
    assert (api.row(other, 2).events, api.released) == ("task_runs.queued", [2])


def test_a_step_with_secrets_is_left_to_the_workers(api: Process, service: TakingService) -> None:
    run_id, first = api.begin(service.url, {"id": "a"}, {"id": "b", "params": {"key": "${secret.DB}"}})
    api.reports.end(first, DONE)
    assert (api.row(run_id, 2).status, api.released) == ("queued", [2])


def test_when_half_of_the_threads_work_for_a_tenant_its_steps_are_left_to_the_workers(
    api: Process, service: TakingService
) -> None:
    api.settings = Settings(
        secret_key=SECRET,
        dispatch_networks=("loopback",),
        data_dir=api.settings.data_dir,
        api_dispatches=2,
    )
    let_go = threading.Event()
    service.answer = lambda: 202 if let_go.wait(60) else 500
    api.reports.end(api.begin(service.url)[1], DONE)
    service.dispatches(1)
    second, report = api.begin(service.url)
    api.reports.end(report, DONE)
    assert (api.row(second, 2).status, api.released) == ("queued", [2])
    other, report = api.begin(service.url, tenant=f"{api.tenant}-b")
    api.reports.end(report, DONE)
    assert (api.row(other, 2).status, api.released) == ("running", [])
    let_go.set()
    service.dispatches(2)


def test_a_process_that_ends_claims_nothing_and_gives_back_what_it_has_not_begun(
    api: Process, service: TakingService
) -> None:
    run_id, first = api.begin(service.url)
    steps = api.steps
    with api.database.transaction() as tx:
        run = header(tx, run_id)
    api.reports.end(first, DONE)
    [second] = service.dispatches(1)
    next_steps.stop(api.database)
    api.reports.end(second["runId"], DONE)
    assert (api.row(run_id, 3).status, api.released) == ("queued", [3])
    steps.close()
    with api.database.transaction() as tx:
        [claimed] = claiming.start(tx, run_id, [3], 1, worker=steps.worker)
    place = next_steps.DispatchPlace(None, api.tenant, 0.0)  # type: ignore[arg-type]
    api.sent.clear()
    steps.go_on(place, run, [claimed])
    assert (api.row(run_id, 3).status, api.released) == ("queued", [3])


def test_a_dispatch_does_not_leave_when_the_claim_may_be_over(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the process was frozen."""
    monkeypatch.setattr(next_steps, "CLAIM_LASTS_S", -1.0)
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    wait_until(lambda: api.released == [2], what="it was not handed back")
    assert (api.row(run_id, 2).attempt, service.taken) == (1, [])


# --- failures ---------------------------------------------------------------------------------------------


def test_a_service_that_hangs_costs_its_attempt_as_ever(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "ANSWER_WITHIN_S", 0.5)
    let_go = threading.Event()
    service.answer = lambda: 202 if let_go.wait(60) else 500
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    wait_until(lambda: api.row(run_id, 2).attempt == 2, what="the attempt did not end")
    let_go.set()
    with api.database.transaction() as tx:
        [ended] = tx.execute("SELECT error_code FROM attempts WHERE run_id = :id", {"id": run_id})
        [instance] = instances.of_service(tx, api.tenant, "takers")
    assert ended.error_code == "TIMEOUT"
    assert instance.set_aside_at is not None
    # A worker finds out whether it is back.
    other, again = api.begin(service.url)
    api.reports.end(again, DONE)
    assert (api.row(other, 2).events, api.released) == ("task_runs.queued", [2])


@pytest.mark.parametrize(
    ("answer", "attempt", "is_failed"), [(429, 1, False), (500, 2, False), (400, 1, True)]
)
def test_an_answer_that_refuses_means_the_same_as_to_a_worker(
    api: Process, service: TakingService, answer: int, attempt: int, is_failed: bool
) -> None:
    service.answer = lambda: answer
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    wait_until(lambda: api.row(run_id, 2).status != "running", what="the answer was not stored")
    row = api.row(run_id, 2)
    assert (row.attempt, row.status == "failed") == (attempt, is_failed)


def test_a_claim_that_postgresql_did_not_confirm_is_given_back(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is stored all the same; the service, which has no answer, sends it again."""
    report = Turn.report

    def lose_the_answer(turn: Turn, database: Database) -> Any:
        report(turn, database)
        raise Unavailable("no answer")

    monkeypatch.setattr(next_steps, "DOUBT_S", 0.01)
    monkeypatch.setattr(Turn, "report", lose_the_answer)
    run_id, first = api.begin(service.url)
    with pytest.raises(Unavailable):
        api.reports.end(first, DONE)
    monkeypatch.undo()
    assert api.reports.end(first, DONE).is_repeated
    wait_until(lambda: api.released == [2], what="it was not given back")
    assert (api.row(run_id, 2).status, api.row(run_id, 2).attempt, service.taken) == ("queued", 1, [])


def test_a_claim_of_a_process_that_died_is_ended_by_the_tick_as_soon_as_those_of_a_worker(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NextSteps, "_dispatch", lambda *_: None)
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    api.silence(run_id)
    assert api.lost() == {}, "nobody has suspected it before"
    api.suspect(run_id)
    assert api.lost() == {run_id: "WORKER_LOST"}


def test_a_claim_whose_dispatch_waits_gets_heartbeats_after_postgresql_was_away_too(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "ANSWER_WITHIN_S", 60.0)
    monkeypatch.setattr(note_keeper, "LOOK_S", 0.01)
    monkeypatch.setattr(note_keeper, "BEAT_EVERY", timedelta())
    monkeypatch.setattr(open_dispatches, "BEAT_AFTER_S", 0.0)
    let_go = threading.Event()
    service.answer = lambda: 202 if let_go.wait(60) else 500
    (one, first), (other, second) = api.begin(service.url), api.begin(service.url)
    for each in (first, second):
        api.reports.end(each, DONE)
    service.dispatches(2)
    with api.database.transaction() as tx:
        # The row that somebody holds keeps no heartbeat of the other one back.
        tx.execute("SELECT 1 FROM task_runs WHERE run_id = :id FOR UPDATE", {"id": one})
        api.silence(other)
        wait_until(lambda: api.is_trusted(other), what="the process seems to be dead")
    api.silence(one)
    wait_until(lambda: api.is_trusted(one), what="no heartbeat follows")
    assert api.lost() == {}
    let_go.set()
    wait_until(lambda: api.row(one, 2).dispatched_at is not None, what="it was not noted")
    assert api.steps.open.silent() == []


def test_a_claim_that_the_process_had_to_leave_gets_no_heartbeats(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_dispatches, "BEAT_AFTER_S", 0.0)
    run_id, first = api.begin(service.url)
    left = threading.Event()

    def fail(*_: object) -> None:
        left.set()
        raise Unavailable("PostgreSQL is away")

    monkeypatch.setattr(NextSteps, "_dispatch", fail)
    api.reports.end(first, DONE)
    assert left.wait(60)
    wait_until(lambda: api.steps.open.silent() == [], what="the claim seems to be alive")
    assert api.row(run_id, 2).status == "running"


def test_a_note_that_could_not_be_stored_is_stored_later(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_dispatches, "NOTE_AFTER_S", 0.0)
    tried = threading.Event()
    take = note_keeper.dispatches.taken

    def fail_once(tx: Any, taken: Any) -> None:
        if not tried.is_set():
            tried.set()
            raise StaleReport("not now")
        take(tx, taken)

    monkeypatch.setattr(note_keeper.dispatches, "taken", fail_once)
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    wait_until(lambda: api.row(run_id, 2).dispatched_at is not None, what="nobody noted it")
    assert tried.is_set()


def test_a_note_that_fails_keeps_no_later_one_back(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_dispatches, "NOTE_AFTER_S", 0.0)
    failed = threading.Event()
    take = note_keeper.dispatches.taken
    bad, first = api.begin(service.url)

    def fail_for_one_run(tx: Any, taken: Any) -> None:
        if taken[0].task_run.run_id == bad:
            failed.set()
            raise ValueError("no note for this run")
        take(tx, taken)

    monkeypatch.setattr(note_keeper.dispatches, "taken", fail_for_one_run)
    api.reports.end(first, DONE)
    wait_until(failed.is_set, what="the note of the first run was not tried")
    good, first = api.begin(service.url)
    api.reports.end(first, DONE)
    wait_until(lambda: api.row(good, 2).dispatched_at is not None, what="nobody noted it")


def test_after_a_promotion_nothing_is_known(
    api: Process, service: TakingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, first = api.begin(service.url)
    api.reports.end(first, DONE)
    [second] = service.dispatches(1)
    with api.database.transaction() as tx:
        run = header(tx, run_id)
    named = ids.task_run_id(run_id, 2)
    assert api.steps.outputs.page(run, "b") is not None
    assert api.steps.open.find(named, 1) is not None
    monkeypatch.setattr(api.database.timeline, "promotions", api.database.timeline.promotions + 1)
    assert api.steps.outputs.page(run, "b") is None
    assert api.steps.open.find(named, 1) is None
    api.reports.end(second["runId"], DONE)
    assert list(service.dispatches(2)[1]["upstreamRefs"]) == ["a", "b"]
