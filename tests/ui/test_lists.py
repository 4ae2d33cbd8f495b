"""Overview, runs, pipelines, tasks and task runs, as people use them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from playwright.sync_api import Browser, expect
from support.browser import PHONE, Visit, visiting
from support.failed_runs import DIAMOND, MAP, TWO, failed_run
from support.inline_worker import InlineWorker
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.orchestrator.security import READ, WRITE

# What follows a verb may be a screen of another kind, which is not what these tests are about.
NO_PAGE = "status of 404"
HOSTILE = "<b>x</b>\"'&{{7*7}}"
FIELDS = [
    {"name": "day", "label": "Day", "type": "date", "required": True},
    {"name": "mail", "label": "Mail", "type": "email", "required": True},
    {"name": "rows", "label": "Rows", "type": "integer", "default": 10},
    {"name": "share", "label": "Share", "type": "number", "max": 1},
    {"name": "fast", "label": "Fast", "type": "boolean"},
    {
        "name": "kind",
        "label": "Kind",
        "type": "select",
        "options": [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}],
    },
    {
        "name": "tags",
        "label": "Tags",
        "type": "array",
        "items": {"name": "t", "label": "T", "type": "string"},
    },
    {
        "name": "to",
        "label": "To",
        "type": "object",
        "properties": [{"name": "name", "label": "Name", "type": "string"}],
    },
    {"name": "more", "label": "More", "type": "json"},
]
SCREENS = (
    "/",
    "/runs",
    "/runs?status=failed&text=broke&cols=status,pipeline,metadata",
    "/pipelines",
    "/pipelines/report",
    "/pipelines/report?tab=grid",
    "/pipelines/report?tab=runs",
    "/pipelines/report?tab=versions",
    "/pipelines/report?tab=trigger",
    "/do/pipelines.trigger?id=report",
    "/tasks",
    "/tasks/noop",
    "/task-runs?of=all",
)


def shown(run_id: UUID) -> str:
    return ids.show(ids.RUN, run_id)


def test_no_screen_breaks_a_rule_of_accessibility(
    browser: Browser, server: str, worker: InlineWorker, make_token: Callable[..., str]
) -> None:
    failed_run(worker, TWO, "c", id="report")
    worker.driver.store({**TWO, "d": ["c"]}, id="report", inputSchema={"fields": FIELDS})
    worker.driver.store(MAP, id="mapped", maps={"m": "${input}"})
    worker.driver.trigger("mapped", [1, 2])
    with visiting(browser, server, worker.driver.tenant, make_token(READ, WRITE)) as visit:
        for path in SCREENS:
            visit.open(path)
            visit.axe_in_both_themes()


def test_empty_screens_say_how_to_fill_them_also_on_a_phone(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    with visiting(browser, server, driver.tenant, make_token(READ), viewport=PHONE) as visit:
        for path, text in (
            ("/", "No run yet"),
            ("/runs", "No run yet."),
            ("/pipelines", "Define one in Python"),
            ("/task-runs", "No standalone task was queued yet."),
            ("/runs?status=failed", "No run matches."),
        ):
            visit.open(path)
            visit.see(text)
            width = visit.page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE["width"], path
            visit.axe()


# --- from an empty server to a green graph ----------------------------------------------------------------


def test_the_first_run_is_started_by_the_form_and_its_steps_turn_green(
    visit: Visit, driver: RunDriver
) -> None:
    visit.expected.append(NO_PAGE)
    visit.open("/")
    visit.see("No run yet")
    driver.store(DIAMOND, id="first")
    page = visit.open("/pipelines")
    page.get_by_role("link", name="first", exact=True).click()
    page.get_by_role("link", name="Trigger…").first.click()
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url(re.compile("/runs/prun_"))
    [run] = driver.rows("SELECT id FROM runs WHERE tenant_id = :t", t=driver.tenant)
    driver.finish(run.id, *DIAMOND)
    visit.open("/pipelines/first?tab=grid")
    assert page.locator("[data-grid] tbody use[href='#m-completed']").count() == 4


# --- the form of a trigger --------------------------------------------------------------------------------


def test_each_kind_of_field_is_sent_as_what_it_means(visit: Visit, driver: RunDriver) -> None:
    visit.expected.append(NO_PAGE)
    driver.store({"a": []}, id="formed", inputSchema={"fields": FIELDS})
    page = visit.open("/do/pipelines.trigger?id=formed")
    page.get_by_label("Day").fill("2026-11-22")
    page.get_by_label("Mail").fill("a@example.com")
    page.get_by_label("Share").fill("0.5")
    page.get_by_label("Fast").select_option("false")
    page.get_by_label("Kind").select_option("b")
    page.get_by_label("Tags").fill("one\ntwo")
    page.get_by_label("To · Name").fill("Ann")
    page.get_by_label("More").fill('{"deep": [1]}')
    page.get_by_role("button", name="Start run").click()
    page.wait_for_url(re.compile("/runs/prun_"))
    run = driver.rows("SELECT * FROM runs WHERE tenant_id = :t", t=driver.tenant)[0]
    assert run.input == {
        "day": "2026-11-22",
        "mail": "a@example.com",
        "rows": 10,
        "share": 0.5,
        "fast": False,
        "kind": "b",
        "tags": ["one", "two"],
        "to": {"name": "Ann"},
        "more": {"deep": [1]},
    }


def test_a_bad_input_marks_its_field_and_keeps_what_was_typed_also_without_scripts(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    driver.store({"a": []}, id="formed", inputSchema={"fields": FIELDS})
    token = make_token(READ, WRITE)
    with visiting(browser, server, driver.tenant, token, java_script_enabled=False) as visit:
        visit.expected.append("status of")
        page = visit.open("/do/pipelines.trigger?id=formed")
        page.get_by_label("Day").fill("2026-11-22")
        page.get_by_label("Mail").fill("a@b")
        page.get_by_label("Share").fill("7")
        page.get_by_label("Tags").fill(HOSTILE)
        page.get_by_role("button", name="Start run").click()
        wrong = page.locator("[aria-invalid='true']")
        assert sorted(wrong.evaluate_all("all => all.map(each => each.name)")) == [
            "input.mail",
            "input.share",
        ]
        assert page.get_by_label("Tags").input_value() == HOSTILE
        assert page.get_by_label("Rows").input_value() == "10"
    assert driver.rows("SELECT 1 FROM runs WHERE tenant_id = :t", t=driver.tenant) == []


def test_an_earlier_runs_input_fills_the_form(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []}, id="formed", inputSchema={"fields": FIELDS}, defaults={"rows": 20})
    driver.trigger("formed", {"day": "2026-01-02", "mail": "old@example.com", "fast": True})
    page = visit.open("/pipelines/formed?tab=trigger")
    expect(page.get_by_label("Rows")).to_have_attribute("placeholder", "20 by default")
    page.get_by_role("link", name="Use its input").click()
    expect(page.get_by_label("Mail")).to_have_value("old@example.com")
    expect(page.get_by_label("Fast")).to_have_value("true")


# --- many runs --------------------------------------------------------------------------------------------


def test_new_runs_wait_behind_a_pill(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []}, id="many")
    first = driver.trigger("many")
    page = visit.open("/runs")
    page.locator(f"#{shown(first)}").wait_for()
    second = driver.trigger("many")
    visit.see("1 new ↑")
    assert page.locator(f"#{shown(second)}").count() == 0
    page.keyboard.press("n")
    page.locator(f"#{shown(second)}").wait_for()
    assert page.locator("[data-pill]").count() == 0


# --- addresses --------------------------------------------------------------------------------------------


def test_filters_are_in_the_address_and_back_restores_them(visit: Visit, worker: InlineWorker) -> None:
    failed_run(worker, TWO, "c", id="report")
    worker.driver.store({"a": []}, id="fine")
    worker.driver.trigger("fine", metadata={"customer": HOSTILE})
    page = visit.open("/runs")
    page.get_by_role("link", name="failed 1", exact=True).click()
    page.wait_for_url(re.compile("status=failed"))
    page.get_by_label("Text").fill("it broke")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("text=it"))
    assert page.locator("[data-row]").count() == 1
    page.go_back()
    page.wait_for_url(lambda url: "text=" not in url and "status=failed" in url)
    visit.open("/runs?cols=status,pipeline,metadata")
    visit.see(f"customer={HOSTILE}")
    page.get_by_role("link", name=f"customer={HOSTILE}").click()
    assert page.locator("[data-row]").count() == 1


def test_a_grid_moves_to_older_runs_and_back(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"], "c": ["b"]}, id="grown")
    made = [shown(driver.trigger("grown")) for _ in range(5)]
    page = visit.open("/pipelines/grown?tab=grid&runs=2&steps=2")

    def columns() -> list[str]:
        links = page.locator("[data-grid] thead a")
        hrefs: list[Any] = links.evaluate_all("all => all.map(each => each.getAttribute('href'))")
        return [href.rpartition("/")[2] for href in hrefs]

    assert columns() == [made[3], made[4]]
    page.locator("[data-grid] thead a").last.focus()
    for key in ("ArrowDown", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.getAttribute('href')").endswith(f"{made[3]}?step=b")
    page.get_by_role("link", name="← Older").click()
    page.wait_for_url(re.compile("before="))
    assert columns() == [made[1], made[2]]
    page.get_by_role("link", name="Newer →").click()
    page.wait_for_url(re.compile("after="))
    assert columns() == [made[3], made[4]]
    page.get_by_role("link", name="Further steps").click()
    page.wait_for_url(re.compile("fromStep=c"))
    assert page.locator("[data-grid] tbody th").all_inner_texts() == ["c"]


def test_versions_are_compared(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": [], "b": ["a"]}, id="grown")
    driver.store({"a": [], "c": ["a"]}, id="grown")
    visit.open("/pipelines/grown?tab=versions")
    visit.see("From v1 to v2")
    text = visit.page.locator("main").inner_text()
    assert "+ added c" in text and "removed b" in text


def test_a_version_is_promoted_rolled_back_and_given_up_for_the_newest(
    visit: Visit, driver: RunDriver
) -> None:
    for steps in ({"a": []}, {"a": [], "b": ["a"]}):
        driver.store(steps, id="pinned-by-hand")
    page = visit.open("/pipelines/pinned-by-hand?tab=versions")
    page.locator("#v-1").get_by_role("link", name="Promote…").click()
    assert "version 1 starts instead of version 2" in page.locator("[data-confirm-form]").inner_text()
    page.get_by_role("button", name="Promote").click()
    visit.see("v1 is promoted, v2 is the newest")
    page.get_by_role("link", name="Roll back…").click()
    page.get_by_role("button", name="Roll back").click()
    visit.see("v2 is promoted, v2 is the newest")
    page.get_by_role("link", name="Follow the newest…").click()
    page.get_by_role("button", name="Follow the newest").click()
    page.get_by_text("is promoted").wait_for(state="detached")
    assert page.locator("#v-2").get_by_text("current").count() == 1


def test_the_palette_finds_a_run_by_its_id_and_a_pipeline_by_its_name(
    visit: Visit, driver: RunDriver
) -> None:
    driver.store({"a": []}, id="nightly-report")
    run_id = shown(driver.trigger("nightly-report"))
    page = visit.open("/runs")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill(run_id)
    page.get_by_role("option", name=re.compile(run_id)).wait_for()
    page.get_by_role("combobox", name="Search").fill("report")
    page.get_by_role("option", name=re.compile("^pipeline nightly-report")).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/pipelines/nightly-report"))


# --- tasks ------------------------------------------------------------------------------------------------


def test_a_task_is_paused_and_one_is_queued_from_its_page(visit: Visit, driver: RunDriver) -> None:
    visit.expected.append(NO_PAGE)
    page = visit.open("/tasks/noop")
    page.get_by_role("link", name="Pause…").click()
    page.get_by_label("Reason").fill("the bank is closed")
    page.get_by_role("button", name="Pause").click()
    visit.see("the bank is closed")
    page.get_by_role("link", name="Queue one…").click()
    page.get_by_label("Input").fill('{"n": 1}')
    page.get_by_role("button", name="Queue one").click()
    page.wait_for_url(re.compile("/task-runs/trun_"))
    visit.open("/task-runs")
    assert page.locator("[data-row]").count() == 1
    visit.open("/task-runs?status=completed")
    visit.see("Nothing matches.")


def test_a_row_opens_its_run_and_the_pipeline_its_page(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []}, id="nightly")
    shown = ids.show(ids.RUN, driver.trigger("nightly"))
    page = visit.open("/runs")
    row = page.locator(f"#{shown}")
    row.get_by_text("running").click()
    page.wait_for_url(f"**/runs/{shown}")
    visit.open("/runs")
    row.get_by_role("link", name="nightly").click()
    page.wait_for_url("**/pipelines/nightly")


def test_without_scripts_a_row_opens_its_run_and_a_button_filters(
    browser: Browser, server: str, driver: RunDriver, make_token: Callable[..., str]
) -> None:
    driver.store({"a": []}, id="nightly")
    shown = ids.show(ids.RUN, driver.trigger("nightly"))
    with visiting(browser, server, driver.tenant, make_token(READ), java_script_enabled=False) as stranger:
        page = stranger.open("/runs")
        page.get_by_label("Pipeline").fill("nightly")
        page.get_by_role("button", name="Filter", exact=True).click()
        page.wait_for_url("**pipelineId=nightly**")
        box = page.locator(f"#{shown} td.cut").bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_url(f"**/runs/{shown}")


def test_keys_work_while_the_focus_is_in_a_checkbox(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []})
    runs = [ids.show(ids.RUN, driver.trigger()) for _ in range(2)]
    page = visit.open("/runs")
    for each in runs:
        page.locator(f"#{each}").get_by_role("checkbox").check()
    page.keyboard.press("=")
    page.wait_for_url(re.compile("/compare/"))


def test_filters_that_were_left_empty_stay_out_of_the_address(visit: Visit, driver: RunDriver) -> None:
    driver.store({"a": []})
    driver.trigger()
    page = visit.open("/runs")
    page.get_by_label("Pipeline").fill("driven")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("pipelineId=driven"))
    assert page.url.endswith("/runs?pipelineId=driven")
