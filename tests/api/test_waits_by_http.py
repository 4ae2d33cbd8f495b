"""Signals, approvals and repairs of waits over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from support.run_driver import RunDriver
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import APPROVE, READ, WRITE
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep, WaitStep

if TYPE_CHECKING:
    from conftest import Api

_numbers = itertools.count(1)
DAY_MS = 86_400_000
FORM = {"fields": [{"name": "amount", "label": "Amount", "type": "number", "required": True}], "strict": True}


@pytest.fixture
def runs(deployment: Deployment) -> Iterator[WaitingRuns]:
    """Of a tenant of this test alone."""
    database = Database(deployment.database.url, react=reactions_to)
    yield WaitingRuns(RunDriver(database, f"waiting-{next(_numbers)}"))
    database.dispose()


def person(runs: WaitingRuns, api: Api, name: str, *scopes: str, groups: tuple[str, ...] = ()) -> Api:
    """The API as a person asks it."""
    with runs.driver.database.transaction() as tx:
        token = access_tokens.create_token(
            tx, name=name, tenants=[runs.driver.tenant], scopes=scopes or (WRITE,), groups=groups
        )
    return type(api)(api.http, token, runs.driver.tenant)


@pytest.fixture
def ann(runs: WaitingRuns, api: Api) -> Api:
    return person(runs, api, "ann")


def run_of(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


def wait_of(runs: WaitingRuns, run_id: UUID, step: str = "ok") -> str:
    return ids.show(ids.TASK_RUN, runs.task_run(run_id, step))


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


# --- signals ----------------------------------------------------------------------------------------------


def test_a_signal_is_taken_by_the_step_that_waits_for_it(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    answer = ann.post(f"/api/runs/{run_of(run_id)}/signals/paid", {"amount": 3})
    assert (answer.status_code, answer.json["taken"], answer.json["isRepeated"]) == (202, True, False)
    [listed] = ann.get(f"/api/runs/{run_of(run_id)}/signals").json["signals"]
    assert (listed["id"], listed["payload"], listed["sentBy"]) == (
        answer.json["signalId"],
        {"amount": 3},
        "ann",
    )
    assert listed["takenBy"] == wait_of(runs, run_id, "paid")


def test_any_json_value_is_a_payload(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    assert ann.raw("POST", f"/api/runs/{run_of(run_id)}/signals/paid", b"[1, null]").status_code == 202
    assert runs.output(run_id, "paid")["payload"] == [1, None]


def test_the_same_key_is_the_same_signal(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("other",))})
    ann.sent["Idempotency-Key"] = "order 17"
    first, again = (ann.post(f"/api/runs/{run_of(run_id)}/signals/paid", number).json for number in (1, 2))
    assert (first["isRepeated"], again["isRepeated"]) == (False, True)
    assert first["signalId"] == again["signalId"]


def test_the_run_of_a_token_gets_a_signal(runs: WaitingRuns, ann: Api) -> None:
    runs.driver.store({"start": []})
    run_id = runs.driver.trigger(run_token="order-17")
    sent = ann.post("/api/pipelines/driven/signals/paid?runToken=order-17", 1)
    assert sent.status_code == 202
    assert len(ann.get(f"/api/runs/{run_of(run_id)}/signals").json["signals"]) == 1
    assert problem(ann.post("/api/pipelines/driven/signals/paid?runToken=nobody", 1)) == (404, "NOT_FOUND")


def test_a_run_that_is_final_takes_no_signal(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    with runs.driver.database.transaction() as tx:
        triggering.cancel(tx, runs.driver.tenant, run_id)
    assert problem(ann.post(f"/api/runs/{run_of(run_id)}/signals/paid", 1)) == (409, "RUN_ENDED")


def test_a_run_takes_a_thousand_signals_that_nobody_takes(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    runs.driver.rows(
        """INSERT INTO signals (run_id, id, tenant_id, name, size, sent_at, once)
        SELECT :run, gen_random_uuid(), :tenant, 'other', 4, now(), CAST(n AS text)
        FROM generate_series(1, 1000) AS n RETURNING 1""",
        run=run_id,
        tenant=runs.driver.tenant,
    )
    refused = ann.post(f"/api/runs/{run_of(run_id)}/signals/more", 1)
    assert problem(refused) == (429, "TOO_MANY_SIGNALS")


def test_wrong_signals_are_refused(runs: WaitingRuns, ann: Api, api: Api) -> None:
    run_id = run_of(runs.begin({"paid": SignalWait(("paid",))}))
    assert problem(ann.post(f"/api/runs/{run_of(ids.new_id())}/signals/paid", 1)) == (404, "NOT_FOUND")
    assert problem(ann.post(f"/api/runs/{run_id}/signals/approval:x", 1)) == (400, "INVALID_INPUT")
    assert problem(ann.post(f"/api/runs/{run_id}/signals/paid", "x" * 300_000)) == (400, "INVALID_INPUT")
    reader = person(runs, api, "reader", READ)
    assert problem(reader.post(f"/api/runs/{run_id}/signals/paid", 1)) == (403, "FORBIDDEN")
    # Of another tenant, as if it were not there.
    assert problem(api.post(f"/api/runs/{run_id}/signals/paid", 1)) == (404, "NOT_FOUND")


# --- approvals --------------------------------------------------------------------------------------------


def test_an_approval_is_listed_shown_and_decided(runs: WaitingRuns, ann: Api) -> None:
    step = Approval("Ship?", form=FORM, context={"order": 17}, assignees=("group:finance", "ann"))
    run_id = runs.begin({"ok": step})
    wait = wait_of(runs, run_id)
    [listed] = ann.get("/api/waits?assignee=me&kind=approval").json["waits"]
    assert listed == ann.get(f"/api/waits/{wait}").json
    assert (listed["taskRunId"], listed["title"], listed["context"]) == (wait, "Ship?", {"order": 17})
    assert (listed["form"], listed["isMine"], listed["votes"]) == (FORM, True, [])
    answer = ann.post(f"/api/waits/{wait}/approve", {"form": {"amount": 900}, "comment": "fine"})
    assert (answer.status_code, answer.json["status"]) == (200, "completed")
    output = runs.output(run_id, "ok")
    assert (output["approved"], output["form"], output["comment"]) == (True, {"amount": 900}, "fine")
    over = ann.post(f"/api/waits/{wait}/reject")
    assert problem(over) == (409, "WAIT_OVER")
    assert (over.json["by"], over.json["cause"], over.json["taskRunStatus"]) == (
        "ann",
        "approval",
        "completed",
    )
    assert problem(ann.get(f"/api/waits/{wait}")) == (409, "WAIT_OVER")


def test_a_form_with_mistakes_is_refused_field_by_field(runs: WaitingRuns, ann: Api) -> None:
    wait = wait_of(runs, runs.begin({"ok": Approval("Ship?", form=FORM)}))
    answer = ann.post(f"/api/waits/{wait}/approve", {"form": {"amount": "much"}})
    assert problem(answer) == (400, "INPUT_VALIDATION_FAILED")
    assert [each["field"] for each in answer.json["errors"]] == ["form.amount"]
    assert problem(ann.post(f"/api/waits/{wait}/approve")) == (400, "INPUT_VALIDATION_FAILED")
    # A no needs no form.
    assert ann.post(f"/api/waits/{wait}/reject").json["status"] == "completed"


def test_several_people_must_agree_and_one_person_counts_once(runs: WaitingRuns, ann: Api, api: Api) -> None:
    wait = wait_of(runs, runs.begin({"ok": Approval("Ship?", needs=2)}))
    for _ in range(2):
        assert ann.post(f"/api/waits/{wait}/approve").json["status"] == "waiting"
    assert problem(ann.post(f"/api/waits/{wait}/reject")) == (409, "CONFLICT")
    assert [each["by"] for each in ann.get(f"/api/waits/{wait}").json["votes"]] == ["ann"]
    bob = person(runs, api, "bob", APPROVE)
    assert bob.post(f"/api/waits/{wait}/approve").json["status"] == "completed"


def test_the_vote_that_decided_may_be_repeated_by_who_gave_it(runs: WaitingRuns, ann: Api, api: Api) -> None:
    """Its answer may have been lost on the way."""
    run_id = runs.begin({"ok": Approval("Ship?", needs=2)})
    wait, bob = wait_of(runs, run_id), person(runs, api, "bob", APPROVE)
    assert bob.post(f"/api/waits/{wait}/approve").json["status"] == "waiting"
    first = ann.post(f"/api/waits/{wait}/approve", {"comment": "fine"})
    for who in (ann, bob):
        again = who.post(f"/api/waits/{wait}/approve", {"comment": "fine"})
        assert (again.status_code, again.json) == (200, first.json)
        assert problem(who.post(f"/api/waits/{wait}/reject")) == (409, "WAIT_OVER")
    eve = person(runs, api, "eve", APPROVE)
    assert problem(eve.post(f"/api/waits/{wait}/approve")) == (409, "WAIT_OVER")
    assert [each["by"] for each in runs.output(run_id, "ok")["votes"]] == ["bob", "ann"]


def test_a_no_and_an_option_that_decided_may_be_repeated(runs: WaitingRuns, ann: Api) -> None:
    refused = wait_of(runs, runs.begin({"ok": Approval("Ship?")}))
    chosen = wait_of(runs, runs.begin({"ok": Approval("What now?", options=("ship", "refund"))}))
    for _ in range(2):
        assert ann.post(f"/api/waits/{refused}/reject").json["status"] == "completed"
        assert ann.post(f"/api/waits/{chosen}/approve", {"choice": "ship"}).json["status"] == "completed"
    assert problem(ann.post(f"/api/waits/{chosen}/approve", {"choice": "refund"})) == (409, "WAIT_OVER")


def test_only_assignees_decide_by_name_or_by_group(runs: WaitingRuns, ann: Api, api: Api) -> None:
    wait = wait_of(runs, runs.begin({"ok": Approval("Ship?", assignees=("group:finance",))}))
    assert ann.get("/api/waits?assignee=me").json["waits"] == []
    assert problem(ann.post(f"/api/waits/{wait}/approve")) == (403, "FORBIDDEN")
    bob = person(runs, api, "bob", APPROVE, groups=("finance",))
    assert bob.post(f"/api/waits/{wait}/approve").json["status"] == "completed"


def test_who_began_the_run_does_not_decide_where_four_eyes_are_asked_for(runs: WaitingRuns, ann: Api) -> None:
    runs.store({"ok": Approval("Ship?", four_eyes=True)})
    run_id = runs.driver.trigger(triggered_by=TriggeredBy(actor="ann"))
    runs.start(run_id)
    wait = wait_of(runs, run_id)
    assert ann.get(f"/api/waits/{wait}").json["isMine"] is False
    assert problem(ann.post(f"/api/waits/{wait}/approve")) == (403, "FORBIDDEN")


def test_an_option_is_chosen(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"ok": Approval("What now?", options=("ship", "refund"))})
    wait = wait_of(runs, run_id)
    for body in ({}, {"choice": "shipp"}):
        assert problem(ann.post(f"/api/waits/{wait}/approve", body)) == (400, "INVALID_INPUT")
    ann.post(f"/api/waits/{wait}/approve", {"choice": "refund"})
    assert runs.output(run_id, "ok")["choice"] == "refund"
    [voted] = runs.driver.events(run_id, "task_run.voted")
    assert "approved" not in voted.data
    assert voted.data["choice"] == "refund"


def test_a_rejection_may_fail_the_step(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"ok": Approval("Ship?", fails_when_rejected=True)})
    assert ann.post(f"/api/waits/{wait_of(runs, run_id)}/reject").json["status"] == "failed"
    assert runs.driver.run(run_id).status == "failed"


def test_who_rejected_a_step_votes_again_when_it_is_retried(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"ok": Approval("Ship?", fails_when_rejected=True)})
    wait = wait_of(runs, run_id)
    ann.post(f"/api/waits/{wait}/reject")
    [letter] = runs.driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)
    assert ann.post(f"/api/dlq/{ids.show(ids.DEAD_LETTER, letter.id)}/retry").status_code == 200
    for _ in range(2):
        answer = ann.post(f"/api/waits/{wait}/approve")
        assert (answer.status_code, answer.json["status"], answer.json["attempt"]) == (200, "completed", 2)
    assert runs.output(run_id, "ok")["approved"] is True
    assert problem(ann.post(f"/api/waits/{wait}/reject")) == (409, "WAIT_OVER")


def test_the_waits_of_one_run_are_listed(runs: WaitingRuns, ann: Api) -> None:
    runs.begin({"ok": Approval("Ship?")})
    run_id = runs.begin({"ok": Approval("Ship?"), "paid": SignalWait(("paid",))})
    listed = ann.get("/api/waits", runId=run_of(run_id)).json["waits"]
    assert {each["stepId"] for each in listed} == {"ok", "paid"}
    assert [
        each["stepId"] for each in ann.get("/api/waits", runId=run_of(run_id), assignee="me").json["waits"]
    ] == ["ok"]


# --- what a run says of its waits ------------------------------------------------------------------------


def test_the_states_of_steps_say_until_when_they_wait(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"night": Sleep(ms=DAY_MS), "paid": SignalWait(("paid",), timeout_ms=2 * DAY_MS)})
    states = ann.get(f"/api/runs/{run_of(run_id)}/steps").json
    kinds = {ordinal: each["kind"] for ordinal, each in states["waits"].items()}
    assert kinds == {"2": "timer", "3": "signal"}
    since = ann.get(f"/api/waits/{wait_of(runs, run_id, 'night')}").json["wakesAt"]
    assert states["waits"]["2"]["until"] == since
    runs.send(run_id, "paid")
    after = ann.get(f"/api/runs/{run_of(run_id)}/steps", after=states["cursor"]).json
    assert (after["ordinals"], after["waits"]) == ([3], {})


@pytest.mark.parametrize(
    ("step", "kind", "label", "waits_for"),
    [
        (Sleep(ms=DAY_MS), "asleep", "asleep", None),
        (
            Approval("Ship?", ("group:finance", "bob")),
            "approval",
            "waiting for the approval of finance, bob",
            "finance, bob",
        ),
        (Approval("Ship?", ("${input.who}",)), "approval", "waiting for an approval", None),
        (Approval("Ship?"), "approval", "waiting for an approval", None),
        (SignalWait(("paid", "gone")), "signal", "for signal paid or gone", "paid or gone"),
    ],
)
def test_the_ledger_says_for_whom_or_what_a_run_waited(
    runs: WaitingRuns, ann: Api, step: WaitStep, kind: str, label: str, waits_for: str | None
) -> None:
    runs.store({"wait": step})
    run_id = runs.driver.trigger(input={"who": "ann"})
    runs.start(run_id)
    ledger = ann.get(f"/api/runs/{run_of(run_id)}/ledger").json
    [told] = [each for each in ledger["sums"] if each["kind"] == kind]
    assert (told["label"], told["waitsFor"]) == (label, waits_for)
    [row] = [
        each
        for each in ann.get(f"/api/runs/{run_of(run_id)}/timeline").json["steps"]
        if each["stepId"] == "wait"
    ]
    assert (row["waitsFor"], [bar["kind"] for bar in row["bars"]]) == (waits_for, [kind])


# --- repairs ----------------------------------------------------------------------------------------------


def test_a_wait_is_resolved_woken_and_extended_and_the_audit_says_why(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",)), "sleep": Sleep(ms=DAY_MS)})
    paid, sleep = (wait_of(runs, run_id, each) for each in ("paid", "sleep"))
    later = ann.post(f"/api/waits/{paid}/extend", {"timeoutMs": 30 * DAY_MS}).json
    assert later["timeoutAt"] > ann.get(f"/api/waits/{sleep}").json["wakesAt"]
    assert problem(ann.post(f"/api/waits/{paid}/wake")) == (409, "CONFLICT")
    assert ann.post(f"/api/waits/{sleep}/wake", {"reason": "no need"}).json["status"] == "completed"
    body = {"output": {"by": "phone"}, "reason": "the sender is gone"}
    assert ann.post(f"/api/waits/{paid}/resolve", body).json["status"] == "completed"
    assert runs.output(run_id, "paid") == {"by": "phone"}
    told = runs.driver.rows(
        "SELECT reason FROM audit WHERE tenant_id = :tenant AND verb = 'waits.resolve'",
        tenant=runs.driver.tenant,
    )
    assert [each.reason for each in told] == ["the sender is gone"]


def test_a_wait_may_be_resolved_with_an_error(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    wait = wait_of(runs, run_id, "paid")
    for body in ({}, {"output": 1, "error": {"code": "GONE", "message": "m"}}):
        assert problem(ann.post(f"/api/waits/{wait}/resolve", body)) == (400, "INVALID_INPUT")
    error = {"error": {"code": "GONE", "message": "nobody pays"}}
    assert ann.post(f"/api/waits/{wait}/resolve", error).json["status"] == "failed"
    assert problem(ann.post(f"/api/waits/{wait}/resolve", {"output": 1})) == (409, "WAIT_OVER")


def test_what_does_not_wait_is_not_found(runs: WaitingRuns, ann: Api, api: Api) -> None:
    run_id = runs.begin({"ok": Approval("Ship?")})
    assert problem(ann.post(f"/api/waits/{wait_of(runs, run_id, 'start')}/approve")) == (404, "NOT_FOUND")
    assert problem(api.get(f"/api/waits/{wait_of(runs, run_id)}")) == (404, "NOT_FOUND")


def test_the_list_of_waits_goes_page_by_page(runs: WaitingRuns, ann: Api) -> None:
    run_id = runs.begin({f"w{number}": SignalWait(("paid",)) for number in range(5)})
    shown: list[str] = []
    cursor = None
    while True:
        page = ann.get("/api/waits", limit=2, **({} if cursor is None else {"cursor": cursor})).json
        shown += [each["stepId"] for each in page["waits"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert shown == [f"w{number}" for number in range(5)]
    assert ann.get("/api/waits?olderThan=1h").json["waits"] == []
    assert run_of(run_id) == page["waits"][0]["runId"]
