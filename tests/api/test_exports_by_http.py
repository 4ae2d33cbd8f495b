"""Exports over HTTP: lines, cursors, compression, and what is refused."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from pipeweave import ids
from pipeweave.api.http import ndjson
from pipeweave.errors import Busy
from pipeweave.orchestrator.export import KINDS, Export

if TYPE_CHECKING:
    from conftest import Api


def lines_of(answer: Any) -> list[dict[str, Any]]:
    content = answer.data
    if answer.headers.get("Content-Encoding") == "gzip":
        content = gzip.decompress(content)
    assert content.endswith(b"\n")
    return [orjson.loads(each) for each in content.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_is_lines_with_cursors_and_says_when_it_is_complete(
    api: Api, run_id: str, kind: str
) -> None:
    answer = api.get(f"/api/export/{kind}", run=run_id)
    assert (answer.status_code, answer.mimetype) == (200, ndjson.NDJSON)
    *lines, end = lines_of(answer)
    rows = [each for each in lines if "cursor" not in each]
    assert (end["isComplete"], end["rows"]) == (True, len(rows))
    begun = {"attempts", "logs"}
    assert {each.get("runId", each.get("id")) for each in rows} == (set() if kind in begun else {run_id})
    rest = lines_of(api.get(f"/api/export/{kind}", run=run_id, after=end["cursor"]))
    assert [each["isComplete"] for each in rest] == [True]


def test_an_export_takes_the_filters_of_the_list_of_runs(api: Api, run_id: str) -> None:
    listed = api.get("/api/runs", limit=1000, status=["pending", "running"], text=run_id).json["runs"]
    *rows, _ = lines_of(api.get("/api/export/runs", status=["pending", "running"], text=run_id))
    assert [each["id"] for each in rows if "id" in each] == [each["id"] for each in listed] == [run_id]
    *rows, _ = lines_of(api.get("/api/export/runs", status=["failed", "partial"], text=run_id))
    assert [each for each in rows if "id" in each] == []
    assert api.get("/api/export/runs", text="prun_" + "z" * 26).json["code"] == "NOT_FOUND"


def test_an_export_is_compressed_if_the_client_asks(api: Api, run_id: str) -> None:
    plain = lines_of(api.get("/api/export/events", run=run_id))
    api.sent["Accept-Encoding"] = "gzip, br"
    answer = api.get("/api/export/events", run=run_id)
    del api.sent["Accept-Encoding"]
    assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert lines_of(answer) == plain


def test_an_answer_ends_early_when_its_time_is_up(
    api: Api, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ndjson, "MOST_S", -1.0)
    *rows, end = lines_of(api.get("/api/export/events", run=run_id))
    assert end["isComplete"] is False
    assert len(rows) == end["rows"] > 0
    monkeypatch.undo()
    assert lines_of(api.get("/api/export/events", run=run_id, after=end["cursor"]))[-1]["isComplete"]


def test_what_fails_in_the_middle_is_said_in_the_last_line(
    api: Api, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Export.parts

    def broken(self: Export, position: Any) -> Any:
        yield next(original(self, position))
        raise Busy("PostgreSQL did not answer in time")

    monkeypatch.setattr(Export, "parts", broken)
    end = lines_of(api.get("/api/export/events", run=run_id))[-1]
    assert end["isComplete"] is False
    assert end["error"]["code"] == "BUSY"
    monkeypatch.undo()
    assert lines_of(api.get("/api/export/events", run=run_id, after=end["cursor"]))[-1]["isComplete"]


def test_what_fails_at_once_is_a_problem(api: Api, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Export, position: Any) -> Any:
        raise Busy("PostgreSQL did not answer in time")
        yield

    monkeypatch.setattr(Export, "parts", broken)
    for _ in range(ndjson.MOST_AT_ONCE + 1):
        assert api.get("/api/export/events", run=run_id).json["code"] == "BUSY"


def test_only_some_exports_are_written_at_once(api: Api, run_id: str) -> None:
    held = [ndjson._places.acquire(blocking=False) for _ in range(ndjson.MOST_AT_ONCE)]
    try:
        answer = api.get("/api/export/runs", run=run_id)
        assert (answer.status_code, answer.json["code"]) == (429, "TOO_MANY_REQUESTS")
        assert int(answer.headers["Retry-After"]) > 0
    finally:
        for _ in held:
            ndjson._places.release()
    assert api.get("/api/export/runs", run=run_id).status_code == 200


def test_all_mistakes_of_an_export_are_said_at_once(api: Api) -> None:
    answer = api.get(
        "/api/export/runs", run="latest", status="lost", createdAfter="yesterday", after="AAAA", limit=1
    )
    assert answer.status_code == 400
    assert {each["field"] for each in answer.json["errors"]} == {
        *("run", "status", "createdAfter", "after", "limit")
    }


def test_a_cursor_goes_only_with_its_export(api: Api, run_id: str) -> None:
    cursor = lines_of(api.get("/api/export/runs", run=run_id))[-1]["cursor"]
    for path, filters in (("events", {"run": run_id}), ("runs", {})):
        answer = api.get(f"/api/export/{path}", after=cursor, **filters)
        assert answer.status_code == 400
        assert [each["field"] for each in answer.json["errors"]] == ["after"]


def test_another_tenants_run_is_exported_to_nobody(api: Api, neighbour: Api, run_id: str) -> None:
    assert [each["rows"] for each in lines_of(neighbour.get("/api/export/events", run=run_id))] == [0]
    assert lines_of(api.get("/api/export/runs", run=ids.show(ids.RUN, ids.new_id(0))))[-1]["rows"] == 0
