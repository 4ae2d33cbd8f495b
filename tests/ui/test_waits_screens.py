"""The inbox: what waits, decided and repaired by people, with and without scripts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, WIDE, Visit, visiting
from support.run_driver import RunDriver
from support.stored_values import VALUES
from support.waiting_runs import WaitingRuns

from pipeweave import ids
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.orchestrator.waits import repairing
from pipeweave.orchestrator.waits.repairing import Resolution
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000
HOSTILE = "<img src=x onerror=alert(1)>"
FORM = {
    "strict": True,
    "fields": [
        {"name": "amount", "label": "Amount", "type": "number", "required": True, "max": 1000},
        {"name": "note", "label": "Note", "type": "string"},
    ],
}
ASKED = Approval("Ship order 17?", form=FORM, context={"order": 17})


@pytest.fixture
def runs(driver: RunDriver) -> WaitingRuns:
    return WaitingRuns(driver)


def wait_of(runs: WaitingRuns, run_id: UUID, step: str = "ok") -> str:
    return ids.show(ids.TASK_RUN, runs.task_run(run_id, step))


def run_of(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


def test_with_nothing_that_waits_the_inbox_says_so(visit: Visit) -> None:
    visit.open("/waits")
    visit.see("Nothing waits.")
    visit.axe()


def test_the_inbox_lists_what_waits_and_filters_it(visit: Visit, runs: WaitingRuns) -> None:
    runs.begin(
        {
            "ok": Approval(f"Ship {HOSTILE}?", ("group:finance", "bob"), needs=2, default={"approved": True}),
            "paid": SignalWait(("paid", "cancelled")),
            "night": Sleep(ms=DAY_MS),
        }
    )
    runs.begin({"ok": ASKED})
    visit.open("/waits")
    assert visit.page.locator("tbody tr").count() == 4
    row = visit.page.locator("tbody tr", has_text=HOSTILE)
    assert "finance" in row.inner_text() and "0 of 2 votes" in row.inner_text()
    assert '{"approved": true}' in row.inner_text()
    expect(
        visit.page.get_by_role("navigation", name="Screens").get_by_role("link", name="Waits 2")
    ).to_be_visible()
    visit.axe_in_both_themes(WIDE, PHONE)
    visit.page.set_viewport_size(WIDE)
    visit.page.get_by_role("link", name="Signals").click()
    assert visit.page.locator("tbody tr").count() == 1
    visit.see("cancelled")
    visit.page.get_by_role("link", name="For me").click()
    assert visit.page.locator("tbody tr").count() == 1
    visit.see("Ship order 17?")
    visit.page.get_by_label("Pipeline").fill("driven")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**assignee=me&pipelineId=driven")
    visit.see("Ship order 17?")
    visit.open("/waits?kind=poll")
    visit.see("Nothing of this kind waits.")


def test_an_approval_is_decided_by_its_form_with_the_keyboard_alone(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"ok": ASKED})
    visit.open("/waits")
    visit.page.keyboard.press("j")
    visit.page.keyboard.press("Enter")
    visit.page.get_by_role("heading", name="Ship order 17?").wait_for()
    visit.axe_in_both_themes()
    field = visit.page.get_by_label("Amount")
    for _ in range(60):
        if field.evaluate("each => each === document.activeElement"):
            break
        visit.page.keyboard.press("Tab")
    visit.page.keyboard.type("900")
    visit.page.keyboard.press("Enter")
    visit.see("Your vote is stored.")
    visit.page.locator("#over", has_text="a decision of alice").wait_for()
    assert runs.output(run_id, "ok")["form"] == {"amount": 900}
    visit.axe()


def test_without_scripts_a_mistake_is_told_beside_its_field(
    browser: Browser, server: str, runs: WaitingRuns, make_token: Callable[..., str]
) -> None:
    run_id = runs.begin({"ok": ASKED})
    token, tenant = make_token(READ, WRITE), runs.driver.tenant
    with visiting(browser, server, tenant, token, java_script_enabled=False, viewport=PHONE) as visit:
        visit.open(f"/waits/{wait_of(runs, run_id)}")
        visit.page.get_by_label("Amount").fill("5000")
        visit.expected.append("status of 4")
        visit.page.get_by_role("button", name="Approve").click()
        assert "1000" in visit.page.locator("[id='f-form.amount-wrong']").inner_text()
        visit.page.get_by_label("Amount").fill("50")
        visit.page.get_by_label("Comment").fill("as agreed")
        visit.page.get_by_role("button", name="Approve").click()
        visit.see("Your vote is stored.")
    assert runs.output(run_id, "ok")["comment"] == "as agreed"


def test_what_somebody_types_stays_when_the_page_looks_again(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"ok": ASKED, "other": Approval("Another?", ("bob",))})
    visit.open(f"/waits/{wait_of(runs, run_id)}")
    visit.page.get_by_label("Comment").fill("too expensive")
    visit.page.get_by_label("Amount").focus()
    # Something else of the page has changed, and is shown.
    with runs.driver.database.transaction() as tx:
        repairing.extend(tx, runs.driver.tenant, runs.task_run(run_id, "ok"), timedelta(minutes=30), by="ann")
    visit.page.locator("dl", has_text="in 29 min").wait_for()
    assert visit.page.get_by_label("Comment").input_value() == "too expensive"


def test_a_no_needs_no_form(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"ok": ASKED})
    visit.open(f"/waits/{wait_of(runs, run_id)}")
    visit.page.get_by_label("Comment").fill("too expensive")
    visit.page.get_by_role("button", name="Reject").click()
    visit.see("Your vote is stored.")
    output = runs.output(run_id, "ok")
    assert (output["approved"], output["comment"]) == (False, "too expensive")


def test_options_stand_in_place_of_yes_and_no(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"ok": Approval("What now?", options=("ship", "hold"))})
    visit.open(f"/waits/{wait_of(runs, run_id)}")
    assert visit.page.get_by_role("button", name="Reject").count() == 0
    visit.page.get_by_role("button", name="hold").click()
    visit.see("Your vote is stored.")
    assert runs.output(run_id, "ok")["choice"] == "hold"


def test_who_is_not_asked_is_told_so_also_after_the_page_has_looked_again(
    visit: Visit, runs: WaitingRuns
) -> None:
    mine = runs.begin({"ok": Approval("Mine?", ("alice",))})
    others = runs.begin({"ok": Approval("Theirs?", ("bob",))})
    visit.open(f"/waits/{wait_of(runs, others)}")
    visit.see("You are not asked")
    visit.axe()
    visit.open(f"/waits/{wait_of(runs, mine)}")
    with visit.page.expect_response(lambda each: "x-pipeweave-fragment" in each.request.headers):
        runs.begin({"ok": Approval("Another?")})
    expect(visit.page.get_by_role("button", name="Approve")).to_be_visible()


def test_a_wait_that_just_ended_says_how(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"ok": Approval("Ship?", default={"approved": False})})
    visit.open(f"/waits/{wait_of(runs, run_id)}")
    with runs.driver.database.transaction() as tx:
        repairing.resolve(
            tx, runs.driver.tenant, runs.task_run(run_id, "ok"), Resolution(VALUES.keep(1), None), by="bob"
        )
    visit.page.locator("#over", has_text="by a repair of bob").wait_for()


def test_a_vote_that_comes_too_late_is_told_how_the_wait_ended(
    browser: Browser, server: str, runs: WaitingRuns, make_token: Callable[..., str]
) -> None:
    run_id = runs.begin({"ok": Approval("Ship?")})
    token, tenant = make_token(READ, WRITE), runs.driver.tenant
    with visiting(browser, server, tenant, token, java_script_enabled=False) as visit:
        visit.open(f"/waits/{wait_of(runs, run_id)}")
        with runs.driver.database.transaction() as tx:
            repairing.resolve(
                tx, tenant, runs.task_run(run_id, "ok"), Resolution(None, ("GONE", "it is gone")), by="bob"
            )
        visit.expected.append("status of 4")
        visit.page.get_by_role("button", name="Approve").click()
        visit.see("has ended: it is failed (GONE)")


def test_an_approval_with_options_is_decided_and_not_approved(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"ok": Approval("Ship?", options=("ship", "hold"))})
    visit.open(f"/runs/{run_of(run_id)}?step=ok")
    visit.page.locator("#step").get_by_role("link", name="Decide…").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Decide about this?")
    expect(dialog).to_contain_text('"choice": "ship"')
    dialog.get_by_label("Choice").select_option("hold")
    dialog.get_by_role("button", name="Decide").click()
    visit.see("Your vote is stored.")
    assert runs.waits(run_id) == []


def test_several_approvals_of_the_same_form_are_decided_at_once(visit: Visit, runs: WaitingRuns) -> None:
    runs.store({"ok": ASKED})
    alike = [runs.driver.trigger() for _ in range(3)]
    for each in alike:
        runs.start(each)
    visit.open("/waits")
    for box in visit.page.locator("tbody input[type=checkbox]").all()[:2]:
        box.check()
    visit.page.get_by_role("button", name="Approve…").click()
    visit.see("Decides 2 approvals in the same way.")
    visit.page.get_by_label("Amount").fill("10")
    visit.axe()
    visit.page.get_by_role("button", name="Approve all").click()
    visit.see("Your votes are stored.")
    assert visit.page.locator("tbody tr").count() == 1
    assert [len(runs.waits(each)) for each in alike].count(0) == 2


def test_approvals_of_other_forms_are_not_decided_together(visit: Visit, runs: WaitingRuns) -> None:
    first, second = runs.begin({"ok": ASKED}), runs.begin({"ok": Approval("Ship?")})
    chosen = "&".join(f"ids={wait_of(runs, each)}" for each in (first, second))
    visit.open(f"/do/waits.approve:all?{chosen}", status=400)
    visit.see("choose approvals that ask for the same form and options")


def test_waits_are_repaired_with_a_reason(visit: Visit, runs: WaitingRuns) -> None:
    run_id = runs.begin({"night": Sleep(ms=DAY_MS), "paid": SignalWait(("paid",))})
    visit.open(f"/waits/{wait_of(runs, run_id, 'night')}")
    visit.page.get_by_role("link", name="Another end…").click()
    dialog = visit.page.get_by_role("dialog")
    dialog.get_by_label("Ends in").fill("2d")
    dialog.get_by_text(f"pipeweave wait extend {wait_of(runs, run_id, 'night')} 2d").wait_for()
    dialog.get_by_role("button", name="Give it another end").click()
    visit.see("The wait has another end.")
    visit.page.get_by_role("link", name="Wake it…").click()
    dialog = visit.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("no need to sleep")
    dialog.get_by_role("button", name="Wake it").click()
    visit.page.locator("#over", has_text="by a repair of alice").wait_for()
    visit.open(f"/waits/{wait_of(runs, run_id, 'paid')}")
    visit.see(f"pipeweave signal {run_of(run_id)} paid")
    visit.page.get_by_role("link", name="Give it a result…").click()
    dialog = visit.page.get_by_role("dialog")
    dialog.get_by_label("Output").fill('{"paid": true}')
    dialog.get_by_role("button", name="Give it a result").click()
    visit.page.locator("#over").wait_for()
    assert runs.output(run_id, "paid") == {"paid": True}


def test_who_may_only_read_sees_no_form(
    browser: Browser, server: str, runs: WaitingRuns, make_token: Callable[..., str]
) -> None:
    run_id = runs.begin({"ok": ASKED})
    with visiting(browser, server, runs.driver.tenant, make_token(READ)) as visit:
        visit.open(f"/waits/{wait_of(runs, run_id)}")
        visit.see("Your token may not decide")
        assert visit.page.locator("main form").count() == 0
        visit.open("/waits")
        assert visit.page.locator("main input[type=checkbox]").count() == 0
