"""What examples of Serverless Workflow do with events, said in documents of ours, comes to the same."""

from __future__ import annotations

from typing import Any

import pytest
from support.stubbed_runs import StubbedRuns, documents_of

DOCUMENTS = documents_of("serverless-workflow")
FEVER, COOL = {"value": 39.2}, {"value": 37}
RACING, CALM = {"value": 120}, {"value": 70}


def begin(runs: StubbedRuns, id: str, input: Any = None, **options: Any) -> Any:
    """Store a document of the page, and begin a run of it."""
    runs.put(DOCUMENTS[id])
    return runs.begin(id, input, **options)


def test_listen_to_one_starts_the_car_when_the_race_has_started(runs: StubbedRuns) -> None:
    runs.serve(start_car=lambda car: f"{car} drives")
    run_id = begin(runs, "listen-to-one", {"car": 9})
    assert runs.called == []
    runs.signal(run_id, "race-started")
    assert runs.outcome(run_id) == ("completed", "9 drives")


def test_listen_to_one_takes_an_event_that_came_too_early(runs: StubbedRuns) -> None:
    """Two steps wait one after the other; the second event comes first."""
    runs.put({"id": "race", "steps": [{"id": "ready", "signal": "ready"}, {"id": "go", "signal": "go"}]})
    run_id = runs.begin("race")
    runs.signal(run_id, "go", 1)
    runs.signal(run_id, "ready")
    assert runs.outcome(run_id)[0] == "completed"


def test_listen_to_any_ends_with_the_first_of_its_events(runs: StubbedRuns) -> None:
    run_id = begin(runs, "listen-to-any")
    runs.signal(run_id, "bpm", RACING)
    status, event = runs.outcome(run_id)
    assert (status, event["name"], event["payload"]) == ("completed", "bpm", RACING)


def test_listen_to_any_filter_passes_over_events_that_are_not_meant(runs: StubbedRuns) -> None:
    run_id = begin(runs, "listen-to-any-filter")
    runs.signal(run_id, "temperature", COOL)
    runs.signal(run_id, "bpm", CALM)
    assert runs.step(run_id, "called") == "waiting"
    runs.signal(run_id, "bpm", RACING)
    status, event = runs.outcome(run_id)
    assert (status, event["payload"]) == ("completed", RACING)


def test_listen_to_any_until_condition_ends_after_its_fourth_event(runs: StubbedRuns) -> None:
    """The condition there is a list longer than three."""
    run_id = begin(runs, "listen-to-any-until-condition")
    for number in range(3):
        runs.signal(run_id, "temperature", {"value": number})
    assert runs.step(run_id, "called") == "waiting"
    runs.signal(run_id, "bpm", CALM)
    assert runs.outcome(run_id) == ("completed", [{"value": 0}, {"value": 1}, {"value": 2}, CALM])


def test_listen_to_any_until_consumed_collects_until_the_patient_has_gone(runs: StubbedRuns) -> None:
    """The event that ends it is no part of the result: null stands for it."""
    run_id = begin(runs, "listen-to-any-until-consumed")
    for name, payload in (("temperature", FEVER), ("bpm", RACING), ("checked-out", None)):
        assert runs.step(run_id, "called") == "waiting"
        runs.signal(run_id, name, payload)
    assert runs.outcome(run_id) == ("completed", [FEVER, RACING, None])


def test_listen_to_any_forever_foreach_posts_each_event_before_it_takes_the_next(runs: StubbedRuns) -> None:
    runs.serve(post_to_chat=lambda room, event: None)
    run_id = begin(runs, "listen-to-any-forever-foreach", {"room": 4})
    for said in ("a", "b", "c"):
        runs.signal(run_id, "gossip", said)
    assert runs.calls("post_to_chat") == [{"room": 4, "event": said} for said in ("a", "b", "c")]
    assert runs.step(run_id, "listen") == "waiting"
    runs.cancel(run_id)
    assert {runs.driver.run(each).status for each in runs.children(run_id)} == {"completed", "cancelled"}


@pytest.mark.parametrize("id", ["listen-to-all", "listen-to-all-read-envelope"])
def test_listen_to_all_waits_for_each_of_its_events_in_any_order(runs: StubbedRuns, id: str) -> None:
    run_id = begin(runs, id)
    runs.signal(run_id, "bpm", CALM)
    runs.signal(run_id, "bpm", RACING)
    runs.signal(run_id, "temperature", COOL)
    assert runs.outcome(run_id)[0] == "running"
    runs.signal(run_id, "temperature", FEVER)
    status, events = runs.outcome(run_id)
    assert status == "completed"
    if id == "listen-to-all":
        assert events == [FEVER, RACING]
    else:
        assert [(each["name"], each["payload"], each["by"]) for each in events] == [
            ("temperature", FEVER, "sender"),
            ("bpm", RACING, "sender"),
        ]


def test_accumulate_room_readings_logs_each_reading_of_its_room_and_reports(runs: StubbedRuns) -> None:
    """Readings of two rooms go to two runs: each has the number of its room as its run token."""
    runs.serve(log_reading=lambda reading: reading, produce_report=lambda room: f"report of room {room}")
    kitchen = begin(runs, "accumulate-room-readings", {"room": "kitchen"}, run_token="kitchen")
    cellar = runs.begin("accumulate-room-readings", {"room": "cellar"}, run_token="cellar")
    for room, sensor, value in (
        ("kitchen", "humidity", 60),
        ("cellar", "temperature", 12),
        ("kitchen", "temperature", 21),
    ):
        runs.signal(runs.of_token("accumulate-room-readings", room), sensor, value)
    assert runs.outcome(kitchen) == ("completed", "report of room kitchen")
    assert [each["reading"] for each in runs.calls("log_reading")] == [21, 60]
    assert runs.step(cellar, "humidity") == "waiting"


def test_emit_hands_an_event_to_a_task_that_publishes_it(runs: StubbedRuns) -> None:
    runs.serve(publish=lambda type, data: None)
    assert runs.outcome(begin(runs, "emit"))[0] == "completed"
    [event] = runs.calls("publish")
    assert (event["type"], event["data"]["items"][0]["quantity"]) == ("order-placed", 101)
