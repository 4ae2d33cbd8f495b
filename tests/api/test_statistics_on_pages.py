"""What the dashboard's pages ask for statistics: few statements, and none again within seconds."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from support.counted_events import fold_all
from support.factories import a_worker, register
from support.run_driver import PERMANENT, RunDriver
from support.sent_statements import sent_statements

from pipeweave.api.ui import kept_answers, periods
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.domain.queue_names import service_queue
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.security.access_tokens import READ
from pipeweave.orchestrator.state import claiming

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)
_STATISTICS = re.compile(r"run_stats|task_stats|stats_place|GROUP BY l\.status")


@pytest.fixture
def driver(deployment: Deployment) -> RunDriver:
    """A tenant with runs of two pipelines, all of them counted."""
    driver = RunDriver(deployment.database, f"pages-{next(_numbers)}")
    for pipeline in ("two", "worse"):
        driver.store({"a": [], "b": ["a"]}, id=pipeline, tasks={"b": "limited"})
        driver.finish(driver.trigger(pipeline), "a", "b")
    for _ in range(2):
        driver.finish(driver.trigger("worse"), "a", failure=PERMANENT)
    # Others may be counting at the same time.
    while any(fold_all(driver.database) for _ in range(2)):
        pass
    return driver


@pytest.fixture
def api(api: Api, tokens: Tokens, driver: RunDriver) -> Api:
    api.token, api.tenant = tokens.make(READ, tenants=(driver.tenant,)), driver.tenant
    return api


def page(api: Api, path: str) -> str:
    answer = api.get(f"/ui/{api.tenant}{path}")
    assert answer.status_code == 200, answer.text[:2_000]
    return answer.text


# Page -> the most statements of a first look, and those of statistics among them.
PAGES = {
    # Young statistics are asked once more, over a shorter time.
    "/": (35, 7),
    # Names that filters offer are two statements, once in ten seconds.
    # How many runs each status has is one more.
    "/runs": (13, 5),
    "/runs?pipelineId=worse&status=failed": (13, 5),
    # The last runs of each pipeline are a statement of their own.
    "/pipelines": (13, 2),
    "/pipelines/two?tab=statistics": (19, 6),
    "/tasks": (11, 2),
    "/tasks/noop": (19, 2),
}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_little_for_statistics_and_nothing_when_it_looks_again(
    api: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr(periods, "_now", lambda: now)
    monkeypatch.setattr(kept_answers, "KEPT_S", 3_600.0)
    most, most_of_statistics = PAGES[path]
    with sent_statements() as first:
        page(api, path)
    assert len(first) <= most, first
    assert 0 < sum(bool(_STATISTICS.search(each)) for each in first) <= most_of_statistics
    with sent_statements() as again:
        page(api, path)
    assert not [each for each in again if _STATISTICS.search(each)]


def test_queues_show_what_left_them_and_do_not_ask_for_it_again(
    api: Api, driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "KEPT_S", 3_600.0)
    name = quote(service_queue(driver.tenant, "python"))
    for path in ("/queues", f"/queues?queue={name}"):
        with sent_statements() as first:
            text = page(api, path)
        assert "that ended in the last hour, every two minutes" in text
        with sent_statements() as again:
            page(api, path)
        # Where there is one queue, its screen asks what the list has asked.
        asked = [sum("GROUP BY q.queue, x.at" in each for each in sent) for sent in (first, again)]
        assert asked == [1 if path == "/queues" else 0, 0]
        assert not any("stats_place" in each for each in again), "how current it is comes with it"


def test_the_overview_says_what_runs_came_to(api: Api) -> None:
    text = page(api, "/")
    assert "2 completed" in text
    assert "2 failed" in text
    assert "50.0 %" in text
    failing = text[text.index('id="failing"') :]
    assert "2 of 3" in failing
    assert "two" not in failing.partition("</section>")[0]


def test_a_chart_shows_the_statuses_that_are_chosen(api: Api) -> None:
    assert "2 failed" in page(api, "/runs")
    text = page(api, "/runs?status=failed")
    assert "2 failed" in text
    assert "2 completed" not in text
    assert "Nothing in this time." in page(api, "/runs?status=cancelled")
    assert "figure" not in page(api, "/runs?status=running")


def test_each_status_says_how_many_runs_of_the_list_have_it(api: Api) -> None:
    def counts(path: str) -> list[tuple[str, str]]:
        return re.findall(r'</svg>(\w+)</span> <span class="muted">([\d+]+)</span></a>', page(api, path))

    assert counts("/runs") == [("completed", "2"), ("failed", "2")]
    assert counts("/runs?pipelineId=two&status=failed") == [("completed", "1")]
    assert counts("/runs?pipelineId=two&text=a") == [], "not beside what would have to be looked for"


def test_lists_say_what_their_rows_came_to(api: Api) -> None:
    rows = page(api, "/pipelines").split("<tr id=")
    assert "100 %" in rows[1]
    assert "33.3 %" in rows[2]
    tasks = page(api, "/tasks").split("<tr id=")
    assert "100 %" in tasks[1]
    assert "50.0 %" in tasks[2]
    assert "%" not in tasks[3]


def test_tasks_that_pipeweave_brings_are_folded_below_the_others(api: Api, driver: RunDriver) -> None:
    assert 'id="built-in"' not in page(api, "/tasks")
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, "http.request")
    own, _, folded = page(api, "/tasks").partition('<details id="built-in"')
    assert 'id="t-limited"' in own and 'id="t-http.request"' not in own
    assert ">Show 1<" in folded and 'id="t-http.request"' in folded


def test_a_pipeline_has_charts_and_its_slowest_tasks(api: Api) -> None:
    text = page(api, "/pipelines/worse?tab=statistics&window=1h")
    assert text.count("<figure") == 4
    assert "1 completed" in text
    assert "v1 is new" in text
    assert text.index('id="slow-') < text.index("/tasks/noop")


def test_a_task_says_why_its_attempts_failed(api: Api) -> None:
    text = page(api, "/tasks/noop")
    assert "2 completed, 2 failed" in text
    assert "errorCode=BOOM" in text
    assert "No attempt failed" in page(api, "/tasks/limited")


@pytest.mark.parametrize(
    "query",
    [
        "pipelineId=two&pipelineId=worse",
        "createdAfter=2999-01-01T00:00:00Z",
        "createdAfter=1900-01-01T00:00:00Z",
    ],
)
def test_what_has_no_statistics_has_no_chart(api: Api, query: str) -> None:
    assert "<figure" not in page(api, f"/runs?{query}")


def test_a_worker_shows_what_its_processes_ran_in_the_last_hour(api: Api, driver: RunDriver) -> None:
    with driver.database.transaction() as tx:
        worker = a_worker(tx, driver.tenant, "noop")
        other = a_worker(tx, driver.tenant, "noop")
    run_id = driver.trigger("two")
    with driver.database.transaction() as tx:
        claiming.start(tx, run_id, [1], 1, worker=worker_processes.child_of(worker, 12))
    listed = api.get(f"/api/task-runs?worker={quote(worker)}").json["taskRuns"]
    assert [each["taskId"] for each in listed] == ["noop"]
    text = page(api, f"/workers/{quote(worker)}")
    assert listed[0]["id"] in text.partition("Last hour")[2]
    assert "Nothing of the runs" in page(api, f"/workers/{quote(other)}")
