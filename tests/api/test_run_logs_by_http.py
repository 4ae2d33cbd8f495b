"""What the attempts of a run have logged is read as one log, by time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from support.run_driver import PERMANENT, RunDriver, claim
from support.sent_statements import sent_statements

from pipeweave import ids
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.reading import run_logs
from pipeweave.orchestrator.security import READ, WORKER
from pipeweave.orchestrator.state import claiming
from pipeweave.storage.local import LocalStorage

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = count(1)
Write = Callable[..., None]


@pytest.fixture
def driver(deployment: Deployment) -> RunDriver:
    return RunDriver(deployment.database, f"logging-{next(_numbers)}")


@pytest.fixture
def own(driver: RunDriver, reader: Api, tokens: Tokens) -> Api:
    """A client that may only read."""
    return replace(reader, token=tokens.make(READ, tenants=(driver.tenant,)), tenant=driver.tenant)


@pytest.fixture
def run_id(driver: RunDriver) -> UUID:
    """a has failed, b runs; c waits for them."""
    id = driver.begin({"a": [], "b": [], "c": ["a", "b"]}, failureMode="continue")
    driver.finish(id, "a", failure=PERMANENT)
    with driver.database.transaction() as tx:
        claim(tx, id, 2)
    return id


@pytest.fixture
def write(deployment: Deployment, run_id: UUID) -> Write:
    """Stores the log of the first attempt of a step."""
    storage = deployment.values.backends.default

    def stored(ordinal: int, *lines: dict[str, Any] | str) -> None:
        task_run = ids.show(ids.TASK_RUN, ids.task_run_id(run_id, ordinal))
        text = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
        storage.put(f"runs/{task_run}.1/logs.jsonl", text.encode())

    return stored


def line(second: int, message: str, level: str = "info") -> dict[str, Any]:
    return {"timestamp": f"2026-11-20T12:00:{second:02}Z", "level": level, "message": message}


def address(run_id: UUID) -> str:
    return f"/api/runs/{ids.show(ids.RUN, run_id)}/logs"


def said(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["stepId"], each["line"]["message"]) for each in page["logs"]]


def test_the_lines_of_all_attempts_come_by_time(own: Api, run_id: UUID, write: Write) -> None:
    write(1, line(1, "one"), "Traceback", line(4, "four"))
    write(2, line(2, "two"), {**line(0, "three"), "timestamp": "2026-11-20T13:00:03+01:00"})
    page = own.get(address(run_id)).json
    expected = [("a", "one"), ("a", "Traceback"), ("b", "two"), ("b", "three"), ("a", "four")]
    assert said(page) == expected
    assert page["logs"][1]["time"] == page["logs"][0]["time"], "a line without a time follows the one before"
    assert (page["attempts"], page["attemptsRead"], page["isCut"]) == (2, 2, False)
    assert not page["isComplete"]


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_have_each_line_once_also_of_one_moment(
    own: Api, run_id: UUID, write: Write, order: str
) -> None:
    write(1, *(line(each // 3, f"a{each}") for each in range(7)))
    write(2, *(line(each // 3, f"b{each}") for each in range(7)))
    whole = said(own.get(address(run_id)).json)
    pages, cursor = [], None
    while True:
        given = {"cursor": cursor} if cursor else {}
        page = own.get(address(run_id), limit=4, order=order, **given).json
        pages.append(said(page))
        if (cursor := page["nextCursor"]) is None:
            break
    ordered = pages if order == "oldest" else pages[::-1]
    assert [each for page in ordered for each in page] == whole
    assert len(pages) == 4


def test_lines_are_chosen_by_step_level_and_text(own: Api, run_id: UUID, write: Write) -> None:
    write(1, line(1, "Straße"), line(3, "late", "warn"))
    write(2, line(2, "street", "error"), {**line(4, "x"), "exception": "STRASSE"})
    assert said(own.get(address(run_id), stepId="b").json) == [("b", "street"), ("b", "x")]
    assert said(own.get(address(run_id), level="warning").json) == [("b", "street"), ("a", "late")]
    assert said(own.get(address(run_id), text="strasse").json) == [("a", "Straße"), ("b", "x")]
    assert own.get(address(run_id), level="loud").status_code == 400


def test_of_many_attempts_those_that_failed_and_began_last_are_read(
    own: Api, run_id: UUID, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1, line(1, "failed"))
    write(2, line(2, "runs"))
    monkeypatch.setattr(run_logs, "MOST_ATTEMPTS", 1)
    page = own.get(address(run_id)).json
    assert (said(page), page["attempts"], page["attemptsRead"]) == ([("a", "failed")], 2, 1)
    write(1)
    shown = own.get(f"/ui/{own.tenant}/runs/{ids.show(ids.RUN, run_id)}", tab="log").text
    assert "Of 2 attempts, the logs of the 1 that failed or began last are shown." in shown
    assert "These attempts have logged nothing" in shown


def test_of_a_long_log_the_end_is_read(
    own: Api, run_id: UUID, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1, *(line(each, f"line {each}") for each in range(50)))
    monkeypatch.setattr(run_logs, "MOST_BYTES", 600)
    page = own.get(address(run_id), stepId="a").json
    assert page["isCut"]
    assert said(page) == [("a", f"line {each}") for each in range(50 - len(page["logs"]), 50)]
    assert 0 < len(page["logs"]) < 10


def test_a_log_that_is_over_is_read_once_and_one_that_grows_is_read_again(
    own: Api, driver: RunDriver, run_id: UUID, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(1, line(1, "one"))
    write(2, line(2, "two"))
    with driver.database.transaction() as tx:
        tx.execute(
            """UPDATE task_runs SET finished_at = finished_at - INTERVAL '1 minute',
                started_at = started_at - INTERVAL '1 minute', created_at = created_at - INTERVAL '1 minute'
            WHERE run_id = :run_id AND finished_at IS NOT NULL""",
            {"run_id": run_id},
        )
        tx.execute(
            """UPDATE attempts SET finished_at = finished_at - INTERVAL '1 minute',
                started_at = started_at - INTERVAL '1 minute' WHERE run_id = :run_id""",
            {"run_id": run_id},
        )
    calls = asked_of_storage(monkeypatch)
    assert len(said(own.get(address(run_id)).json)) == 2
    assert calls == ["stat", "open", "stat", "open"]
    calls.clear()
    assert len(said(own.get(address(run_id)).json)) == 2
    assert calls == ["stat"], "one is over, and the other has not grown"
    write(2, line(2, "two"), line(3, "three"))
    assert len(said(own.get(address(run_id)).json)) == 3


def test_the_page_of_a_standalone_task_shows_its_log_with_its_times(api: Api, deployment: Deployment) -> None:
    made = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    lines = line(1, "alone"), {"message": "by hand", "time": "2026-11-20 13:00:02,5+01:00"}, {"time": "soon"}
    stored = "".join(f"{json.dumps(each)}\n" for each in lines)
    deployment.values.backends.default.put(f"runs/{made}.1/logs.jsonl", stored.encode())
    page = api.get(f"/ui/{api.tenant}/task-runs/{made}", tab="log")
    assert page.status_code == 200
    assert "alone" in page.text
    times = re.findall(r"<time [^>]*data-clock>[^<]*</time>|soon", page.text)
    assert times[0].endswith(">12:00:01.000</time>")
    assert 'title="2026-11-20T12:00:02.500Z"' in times[1], "the zone of who wrote it is not that of the page"
    assert times[2] == "soon", "what says no time stays as it is"


def asked_of_storage(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that ask storage about an object, as they come."""
    calls: list[str] = []
    for name in ("stat", "open"):
        asked = getattr(LocalStorage, name)

        def noting(*args: Any, _asked: Callable[..., Any] = asked, _name: str = name, **more: Any) -> Any:
            calls.append(_name)
            return _asked(*args, **more)

        monkeypatch.setattr(LocalStorage, name, noting)
    return calls


def test_the_log_of_a_run_of_500_attempts_costs_what_that_of_50_does(
    own: Api, driver: RunDriver, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.store({"m": []}, id="wide", maps={"m": "${input}"})
    run_id = driver.trigger("wide", list(range(500)))
    items = [ids.ordinal_of(each.id) for each in driver.task_runs(run_id) if each.map_index is not None]
    with driver.database.transaction() as tx:
        claimed = claiming.start(tx, run_id, items, 1, worker="w1")
    assert len(claimed) == 500
    storage = deployment.values.backends.default
    for each in claimed:
        storage.put(f"runs/{ids.show(ids.TASK_RUN, each.id)}.1/logs.jsonl", b'{"message": "begun"}\n')
    own.get("/api/runs")  # the token is known from now on
    calls = asked_of_storage(monkeypatch)
    with sent_statements(of_all_threads=False) as sent:
        page = own.get(address(run_id), stepId="m").json
    assert (page["attempts"], page["attemptsRead"], len(page["logs"])) == (500, 50, 50)
    assert len(sent) == 2, list(sent)
    assert calls == 50 * ["stat", "open"]


def test_a_token_that_may_not_read_reads_no_log(
    own: Api, driver: RunDriver, run_id: UUID, tokens: Tokens
) -> None:
    worker = replace(own, token=tokens.make(WORKER, tenants=(driver.tenant,)))
    assert worker.get(address(run_id)).status_code == 403


def test_another_tenant_reads_no_log(own: Api, neighbour: Api, run_id: UUID, write: Write) -> None:
    write(1, line(1, "secret of theirs"))
    refused = neighbour.get(address(run_id))
    assert refused.status_code == 404
    assert "secret of theirs" not in refused.text
    page = neighbour.get(f"/ui/{neighbour.tenant}/runs/{ids.show(ids.RUN, run_id)}", tab="log")
    assert page.status_code == 404
    assert "secret of theirs" not in page.text


def test_a_cursor_of_something_else_is_refused(own: Api, run_id: UUID) -> None:
    assert own.get(address(run_id), cursor="nonsense").status_code == 400
    assert own.get(address(run_id)).json["logs"] == []
