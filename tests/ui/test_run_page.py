"""The screen of a run: it opens on what matters, and each of its tabs can be read, linked and acted on."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, Visit, visiting
from support.failed_runs import TWO
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.spec import StepSpec

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
TRACEBACK = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/lib.py", line 3, in call
    f()
  File "work.py", line 41, in resize
    raise OSError("no space left")
OSError: no space left"""
FULL = Failure("DISK_FULL", "no space left on device", "OSError", False, TRACEBACK)


def id_of(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


@pytest.fixture
def failed(worker: InlineWorker) -> str:
    """A run of which step b failed, in front of c."""
    worker.driver.store(TWO, id="report")
    worker.fails = {"b": FULL}
    run_id = worker.driver.trigger("report", {"day": 1, "lines": [{"price": 2}]})
    worker.consume_all()
    return id_of(run_id)


def test_from_the_list_to_the_traceback_and_to_the_end(
    visit: Visit, worker: InlineWorker, failed: str
) -> None:
    visit.open("/runs")
    visit.page.locator(f"#{failed} [data-opens]").click()
    visit.see("no space left on device")
    assert 'File "work.py", line 41' in visit.page.locator(".traceback .tb-own").first.inner_text()
    library = visit.page.locator(".traceback .tb-library")
    assert library.inner_text() == "1 frame of lib"
    library.get_by_text("1 frame").click()
    expect(library).to_contain_text("site-packages/lib.py")
    visit.axe()
    worker.fails = {}
    visit.page.locator("#step").get_by_role("link", name="Retry").click()
    dialog = visit.page.get_by_role("dialog")
    assert "POST /api/dlq/" in dialog.inner_text()
    dialog.get_by_role("button", name="Retry").click()
    visit.see("The task run is tried again.")
    worker.take_over()
    visit.page.locator(".run-head strong", has_text="completed").wait_for()


def test_a_step_runs_again_with_other_parameters_and_the_new_run_shows_them(
    visit: Visit, worker: InlineWorker
) -> None:
    steps = (
        StepSpec("load", "noop"),
        StepSpec("send", "noop", ("load",), {"to": "old", "what": "${steps.load}"}),
    )
    worker.driver.store_steps(*steps, id="mail")
    run_id = worker.driver.trigger("mail", {"day": 1})
    worker.consume_all()
    page = visit.open(f"/runs/{id_of(run_id)}?step=send")
    page.locator("#step").get_by_role("link", name="Run again from here").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Parameters of that step")
    assert '"what": "${steps.load}"' in field.input_value()
    field.fill('{"to": "new", "what": "${steps.load}"}')
    dialog.get_by_label("Another input").fill('{"day": 2}')
    dialog.get_by_role("button", name="Run again").click()
    visit.see("Its own parameters for send")
    visit.see("Its input is not the one that load has read")
    visit.axe()
    page.get_by_role("link", name="send", exact=True).first.click()
    visit.see("They were edited for this run alone.")


def test_without_scripts_and_on_a_phone_the_same_way_is_open(
    browser: Browser, server: str, worker: InlineWorker, failed: str, make_token: Callable[..., str]
) -> None:
    token, tenant = make_token(READ, WRITE), worker.driver.tenant
    with visiting(browser, server, tenant, token, java_script_enabled=False, viewport=PHONE) as visit:
        visit.open("/runs")
        visit.page.locator(f"#{failed} [data-opens]").click()
        assert "work.py" in visit.page.locator(".traceback").inner_text()
        worker.fails = {}
        visit.page.locator("#step").get_by_role("link", name="Retry").click()
        visit.page.get_by_role("button", name="Retry").click()
        visit.see("The task run is tried again.")
        worker.take_over()
        visit.page.reload()
        assert visit.page.locator(".run-head strong").inner_text() == "completed"


def test_with_the_keyboard_alone_a_step_is_chosen_and_its_log_opened(visit: Visit, failed: str) -> None:
    visit.open(f"/runs/{failed}?tab=steps")
    page = visit.page
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**step=a**")
    expect(page.locator("#step .name")).to_have_text("a")
    page.keyboard.press("i")
    page.wait_for_url("**tab=data**")
    expect(page.get_by_role("heading", name="Input")).to_be_visible()
    page.keyboard.press(page.get_by_role("link", name="Events").first.get_attribute("data-tab") or "")
    page.wait_for_url("**tab=events**")


TABS = (
    "steps",
    "timeline",
    "events",
    "events&raw=1",
    "data",
    "log",
    "log&step=b",
    "attempts",
    "data&step=b&diff=last",
)


def test_every_tab_keeps_the_rules_of_accessibility(
    browser: Browser,
    server: str,
    worker: InlineWorker,
    failed: str,
    make_token: Callable[..., str],
) -> None:
    with visiting(browser, server, worker.driver.tenant, make_token(READ, WRITE)) as visit:
        for tab in TABS:
            visit.open(f"/runs/{failed}?tab={tab}")
            visit.axe_in_both_themes()


def test_a_link_restores_what_was_looked_at(visit: Visit, failed: str) -> None:
    visit.open(f"/runs/{failed}?tab=steps&step=c")
    expect(visit.page.locator("#step .name")).to_have_text("c")
    visit.page.get_by_role("link", name="a", exact=True).click()
    expect(visit.page.locator("#step .name")).to_have_text("a")
    visit.page.go_back()
    expect(visit.page.locator("#step .name")).to_have_text("c")
    visit.page.reload()
    expect(visit.page.locator("#step .name")).to_have_text("c")


def test_the_slider_shows_the_run_at_each_event(visit: Visit, failed: str) -> None:
    visit.open(f"/runs/{failed}?tab=events")
    visit.page.locator("tr", has_text="run.created").get_by_role("link").first.click()
    state = visit.page.locator("#state-at")
    expect(state).to_contain_text("after 1 events")
    state.get_by_role("link", name="Event after").click()
    expect(state).to_contain_text("after 2 events")
    expect(state.get_by_role("slider")).to_have_value("2")
    visit.axe()


def test_a_run_that_waits_says_why_and_what_clears_it(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]})
    run_id = id_of(driver.trigger())
    visit.open(f"/runs/{run_id}")
    expect(visit.page.locator("#why")).to_contain_text("no running worker serves")
    visit.open(f"/runs/{run_id}?tab=why")
    visit.see("2 wait: 1 for a worker, 1 for predecessors")
    visit.axe()
    visit.page.get_by_role("link", name="Pause run").click()
    visit.page.get_by_label("Reason").fill("holiday")
    visit.page.get_by_role("dialog").get_by_role("button", name="Pause run").click()
    visit.see("The run is paused.")
    visit.see(": holiday")
    visit.page.keyboard.press("c")
    effects = visit.page.get_by_role("dialog").locator(".effects")
    expect(effects).to_contain_text("Task runs that end with it: 1 pending, 1 ")


def test_a_run_is_verified_and_run_again_from_a_step(visit: Visit, worker: InlineWorker, failed: str) -> None:
    visit.open(f"/runs/{failed}?verify=1")
    visit.see("events give the same rows")
    visit.page.get_by_role("link", name="Run again from here").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog.locator("#sent")).to_contain_text('"fromStep": "b"')
    expect(dialog.locator("#sent")).to_contain_text("--from b")
    dialog.get_by_role("button", name="Run again").click()
    visit.see("The new run has started.")
    expect(visit.page.locator(".run-head")).to_contain_text("from b")


def test_a_map_is_one_row_and_its_items_have_links(visit: Visit, worker: InlineWorker) -> None:
    worker.fails = {("m", 2): FULL}
    worker.driver.store({"m": []}, id="mapped", maps={"m": "${input.list}"}, failureMode="continue")
    run_id = id_of(worker.driver.trigger("mapped", {"list": list(range(30))}))
    worker.consume_all()
    visit.open(f"/runs/{run_id}?tab=steps")
    expect(visit.page.locator("tr[data-row]")).to_have_count(1)
    expect(visit.page.locator("tr[data-row]")).to_contain_text("1 failed of 30")
    visit.see("no space left on device")
    visit.page.get_by_role("link", name="m[2]").first.click()
    expect(visit.page.locator("#step .name")).to_have_text("m[2]")
    visit.see("no space left on device")
    visit.page.reload()
    expect(visit.page.locator("#step .name")).to_have_text("m[2]")
    visit.open(f"/runs/{run_id}?step=m&item=99")
    visit.see("has no item 99")


def test_two_runs_are_compared(visit: Visit, worker: InlineWorker, failed: str) -> None:
    worker.fails = {}
    other = id_of(worker.driver.trigger("report", {"day": 2, "lines": [{"price": 2}]}))
    worker.consume_all()
    visit.open(f"/runs/{other}")
    visit.page.locator("#more > summary").click()
    visit.page.get_by_role("link", name="Compare with the run before").click()
    visit.see("Two runs of report")
    row = visit.page.locator("tr", has=visit.page.get_by_role("link", name="b", exact=True))
    expect(row).to_contain_text("failed")
    expect(visit.page.locator("tr", has_text=".day")).to_contain_text("changed")
    expect(
        visit.page.locator("tr", has=visit.page.get_by_role("link", name="a", exact=True))
    ).to_contain_text("the same")
    visit.axe()
    visit.open(f"/compare?run={other}&run={failed}")
    assert visit.page.url.endswith(f"/compare/{failed}/{other}"), "the older one is on the left"


def test_a_standalone_task_has_a_screen_and_a_step_leads_to_its_run(
    visit: Visit, driver: RunDriver, failed: str
) -> None:
    with driver.database.transaction() as tx:
        request = standalone_tasks.QueueRequest("noop", {"a": HOSTILE})
        [queued] = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [request])
    visit.open(f"/task-runs/{ids.show(ids.TASK_RUN, queued.task_run_id)}")
    visit.see("standalone task")
    visit.axe()
    visit.page.get_by_role("link", name="Data").first.click()
    visit.see("<img src=x")
    assert visit.page.locator("img").count() == 0
    step = ids.show(ids.TASK_RUN, ids.task_run_id(ids.read(ids.RUN, failed), 2))
    visit.page.goto(f"{visit.server}/ui/r/{step}")
    assert f"/runs/{failed}?step=b" in visit.page.url


def test_hostile_texts_stay_text(visit: Visit, worker: InlineWorker) -> None:
    failure = Failure(
        "BAD_CODE", HOSTILE, HOSTILE, False, f'Traceback\n  File "{HOSTILE}", line 1\n    {HOSTILE}'
    )
    worker.fails = {"a": failure}
    worker.driver.store({"a": []}, id="hostile")
    run_id = id_of(worker.driver.trigger("hostile", {HOSTILE: [HOSTILE]}, metadata={HOSTILE: HOSTILE}))
    worker.consume_all()
    tabs = (
        "steps",
        "events",
        "data",
        "attempts",
        "log&step=a",
        f"steps&step={HOSTILE}",
        f"steps&find={HOSTILE}",
    )
    for tab in tabs:
        visit.open(f"/runs/{run_id}?tab={tab}")
        assert visit.page.locator("img").count() == 0
        assert "49" not in visit.page.locator(".run-error, .traceback").all_inner_texts()
    visit.open(f"/runs/{run_id}?tab=steps&begin=x&item=-1&step=a&cursor=x&at=x&attempt=x&line=x")


def test_five_thousand_steps_cost_a_page_of_rows(visit: Visit, driver: RunDriver) -> None:
    driver.store({f"s{number:04}": [] for number in range(5_000)}, id="wide")
    visit.open(f"/runs/{id_of(driver.trigger('wide'))}?tab=steps")
    expect(visit.page.locator("tr[data-row]")).to_have_count(200)
    visit.page.get_by_role("link", name="After").click()
    expect(visit.page.locator("tr[data-row]").first).to_contain_text("s0200")
    visit.page.get_by_label("Step or task").fill("s4999")
    visit.page.get_by_role("button", name="Filter").click()
    expect(visit.page.locator("tr[data-row]")).to_have_count(1)
