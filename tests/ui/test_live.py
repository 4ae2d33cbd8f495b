"""Open pages stay fresh by one stream of the browser, whichever of its tabs leads."""

from __future__ import annotations

from playwright.sync_api import Page, Route
from support.browser import Visit
from support.run_driver import RunDriver
from support.servers import wait_until

from pipeweave import ids


def streams(page: Page) -> list[str]:
    """Keeps the streams that a page opens."""
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url) if "/api/live" in request.url else None)
    return opened


def trigger(driver: RunDriver) -> str:
    driver.store({"a": []})
    return ids.show(ids.RUN, driver.trigger("driven"))


def test_a_page_follows_the_announcements(visit: Visit, driver: RunDriver) -> None:
    opened = streams(visit.page)
    with visit.page.expect_request(lambda request: "/api/live" in request.url):
        visit.open("/runs")
    visit.see("No run yet.")
    shown = trigger(driver)
    visit.page.locator(f"#{shown}").wait_for()
    assert len(opened) == 1


def test_a_page_can_be_stopped_and_goes_on(visit: Visit, driver: RunDriver) -> None:
    visit.open("/runs")
    visit.see("live")
    visit.page.keyboard.press(".")
    visit.page.locator("#live[data-state=paused]").wait_for()
    shown = trigger(driver)
    visit.page.keyboard.press(".")
    visit.page.locator(f"#{shown}").wait_for()


def test_tabs_share_one_stream_and_another_leads_when_one_closes(visit: Visit, driver: RunDriver) -> None:
    first = visit.page
    opened = streams(first)
    with first.expect_request(lambda request: "/api/live" in request.url):
        visit.open("/runs")
    second = visit.context.new_page()
    later = streams(second)
    second.goto(f"{visit.root}/runs?status=running")
    second.get_by_text("No run matches.").wait_for()
    shown = trigger(driver)
    second.locator(f"#{shown}").wait_for()
    assert later == []
    assert opened
    with second.expect_request(lambda request: "/api/live" in request.url):
        first.close()
    trigger(driver)
    second.get_by_text("1 new ↑").wait_for()


def test_without_locks_a_page_asks_every_few_seconds(visit: Visit, driver: RunDriver) -> None:
    visit.context.add_init_script("Object.defineProperty(navigator, 'locks', {value: undefined})")
    opened = streams(visit.page)
    visit.open("/runs")
    visit.see("No run yet.")
    shown = trigger(driver)
    visit.page.locator(f"#{shown}").wait_for()
    assert opened == []


def test_what_somebody_types_and_where_they_are_stays(visit: Visit, driver: RunDriver) -> None:
    visit.open("/runs")
    field = visit.page.get_by_label("Pipeline")
    field.fill("half a na")
    visit.page.locator("details.requests summary").click()
    field.focus()
    shown = trigger(driver)
    visit.page.locator(f"#{shown}").wait_for()
    assert field.input_value() == "half a na"
    assert visit.page.locator("details.requests").get_attribute("open") is not None
    assert field.evaluate("node => node === document.activeElement")


def test_news_whose_fetch_failed_are_fetched_again(visit: Visit, driver: RunDriver) -> None:
    visit.open("/runs")
    visit.see("live")
    visit.expected += ["ERR_FAILED", "status of 429"]
    answers = iter(("abort", "busy"))

    def fail(route: Route) -> None:
        answer = next(answers, "")
        if "x-pipeweave-fragment" not in route.request.headers or not answer:
            route.continue_()
        elif answer == "abort":
            route.abort()
        else:
            route.fulfill(status=429, headers={"Retry-After": "1"})

    visit.page.route("**/runs", fail)
    shown = trigger(driver)
    visit.page.locator(f"#{shown}").wait_for()


def test_a_fragment_of_an_address_that_was_left_is_not_shown(visit: Visit, driver: RunDriver) -> None:
    page = visit.page
    shown = trigger(driver)
    visit.open("/runs")
    visit.see("live")
    held: list[Route] = []
    page.route("**/runs", lambda route: held.append(route))

    def looks_again() -> bool:
        # A look that was under way before may show a run that is triggered now: so another one is.
        driver.trigger("driven")
        # The browser works while it is asked for something.
        return page.evaluate("1") == 1 and bool(held)

    wait_until(looks_again, what="it looks again")
    page.evaluate(
        "history.pushState(null, '', '?status=failed'); document.dispatchEvent(new Event('pw-moved'))"
    )
    held[0].continue_()
    visit.see("No run matches.")
    assert page.locator(f"#{shown}").count() == 0


def test_a_stream_that_hangs_is_given_up_for_another(visit: Visit) -> None:
    held: list[Route] = []

    def hang(route: Route) -> None:
        # As after the loss of a host: the connection stays open, and nothing comes.
        if held:
            route.continue_()
        else:
            held.append(route)

    visit.page.clock.install()
    visit.page.route("**/api/live*", hang)
    visit.open("/runs")
    wait_until(lambda: visit.page.evaluate("1") == 1 and bool(held), what="the stream is asked for")
    with visit.page.expect_response(lambda answer: "/api/live" in answer.url and answer.ok):
        visit.page.clock.fast_forward(60_000)
