"""What a task returns whose work goes on elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Context, Suspend, TaskResult
from pipeweave.authoring import outcome_of
from pipeweave.errors import InvalidAsyncResult, InvalidSetting

URL = "https://jobs.example/7?key=1"


def read(returned: Any) -> Suspend | None:
    return outcome_of(returned, takes_pending=True).suspend


def test_a_callback_and_a_poll_are_results() -> None:
    assert read(Suspend.callback()) == Suspend()
    assert read(Suspend.callback(timeout="2h")) == Suspend(timeout_ms=7_200_000)
    poll = Suspend.poll(URL, interval=10, tries=3, timeout="1m")
    assert read(poll) == Suspend(URL, 60_000, 10_000, 3)
    assert read(TaskResult(Suspend.callback())) == Suspend()


@pytest.mark.parametrize("name", ["poll_url", "pollUrl"])
def test_a_dict_with_a_url_to_poll_suspends(name: str) -> None:
    assert read({"status": "pending", name: URL}) == Suspend(URL)
    more = {"intervalMs": 2_000, "maxAttempts": 4, "timeoutMs": 9_000}
    assert read({"status": "pending", name: URL, **more}) == Suspend(URL, 9_000, 2_000, 4)


@pytest.mark.parametrize("name", ["callback_url", "callbackUrl"])
@pytest.mark.parametrize("value", ["https://anything.example", True])
def test_a_dict_with_a_callback_url_suspends(name: str, value: object) -> None:
    assert read({"status": "pending", name: value}) == Suspend()


def test_a_dict_with_neither_says_what_it_lacks() -> None:
    with pytest.raises(InvalidAsyncResult, match="must provide callback_url or poll_url"):
        read({"status": "pending"})


def test_any_other_value_is_an_output_and_so_is_a_dict_where_the_step_does_not_say_async() -> None:
    assert read({"status": "completed", "poll_url": URL}) is None
    assert read("pending") is None
    pending = {"status": "pending", "poll_url": URL}
    outcome = outcome_of(pending)
    assert (outcome.suspend, outcome.output) == (None, pending)


NO_URLS = (
    *("", "jobs.example", "ftp://jobs.example/", "http://", "http://a:x/", "http://a b/", "http://ü/", 7),
    *("http://user:secret@a/", "http://a/" + "x" * 2_000),
)


@pytest.mark.parametrize("url", NO_URLS)
def test_a_url_that_cannot_be_polled_is_refused(url: Any) -> None:
    with pytest.raises(InvalidAsyncResult):
        Suspend.poll(url)


@pytest.mark.parametrize(
    "options",
    [
        {"interval": 0.5},
        {"interval": "soon"},
        {"tries": 0},
        {"tries": 100_001},
        {"tries": True},
        {"timeout": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidAsyncResult):
        Suspend.poll(URL, **options)


def test_a_call_that_suspends_itself_chooses_no_successors() -> None:
    with pytest.raises(InvalidAsyncResult):
        read(TaskResult(Suspend.callback(), run_next=["a"]))


def test_the_callback_url_is_made_once_and_only_where_somebody_could_report() -> None:
    made: list[str] = []
    ctx = Context(make_callback_url=lambda: made.append("") or f"https://a/{len(made)}")  # type: ignore[func-returns-value]
    assert (ctx.callback_url, ctx.callback_url) == ("https://a/1", "https://a/1")
    with pytest.raises(InvalidSetting):
        _ = Context().callback_url
