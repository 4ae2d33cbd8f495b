"""Runs that are put off over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Api

BODY = {"key": "k", "waitMs": 60_000, "longestMs": 120_000, "input": {"folder": "/srv"}}


def test_requests_of_a_key_get_the_same_run_which_is_listed_until_it_starts(api: Api, pipeline: str) -> None:
    path = f"/api/pipelines/{pipeline}/debounce"
    first, second = (api.post(path, {**BODY, "key": "same"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json["id"] == second.json["id"]
    assert [first.json["requests"], second.json["requests"]] == [1, 2]
    assert second.json["dueAt"] < second.json["latestAt"]
    assert first.json["id"] in {each["id"] for each in api.get("/api/enqueued").json["enqueuedRuns"]}
    run = api.get(f"/api/runs/{first.json['id']}")
    assert (run.status_code, run.json["code"]) == (404, "RUN_ENQUEUED")


def test_what_makes_no_sense_is_refused_with_its_field(api: Api, pipeline: str) -> None:
    for change, field in (
        ({"waitMs": 0}, "waitMs"),
        ({"key": ""}, "key"),
        ({"longestMs": 10**9}, "longestMs"),
    ):
        refused = api.post(f"/api/pipelines/{pipeline}/debounce", {**BODY, **change})
        assert (refused.status_code, refused.json["errors"][0]["field"]) == (400, field)


def test_an_unknown_pipeline_is_refused_at_once_and_a_reader_may_not_ask(
    api: Api, reader: Api, pipeline: str
) -> None:
    assert api.post("/api/pipelines/nobody/debounce", BODY).status_code == 404
    assert reader.post(f"/api/pipelines/{pipeline}/debounce", BODY).status_code == 403
