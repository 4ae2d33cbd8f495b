"""The client against a small real HTTP server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.stub_http_server import Served

from pipeweave import errors
from pipeweave.client import Client


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url, "secret-token", "acme", timeout=5) as client:
        yield client


def run_document(status: str, **more: Any) -> dict[str, Any]:
    return {"id": "prun_1", "pipelineId": "report", "status": status, **more}


def test_every_request_names_tenant_and_token(served: Served, client: Client) -> None:
    served.put("GET /api/info", (200, {"version": "1"}))
    client.info()
    _, headers, _ = served.asked[0]
    assert (headers["X-Tenant"], headers["Authorization"]) == ("acme", "Bearer secret-token")


def test_trigger_sends_only_what_was_given(served: Served, client: Client) -> None:
    served.put("POST /api/pipelines/report/trigger", (200, {"pipelineRunId": "prun_1", "status": "running"}))
    run = client.trigger("report", {"n": 1}, failure_mode="continue")
    assert (run.id, run.status) == ("prun_1", "running")
    assert served.asked[0][2] == {"input": {"n": 1}, "failureMode": "continue"}


@pytest.mark.parametrize("kind", [errors.InvalidSpec, errors.NotFound, errors.Conflict, errors.Forbidden])
def test_a_problem_becomes_the_error_its_code_names(
    served: Served, client: Client, kind: type[errors.PipeWeaveError]
) -> None:
    field = errors.FieldError("steps[0].needs", "names no step", "unknown", "a step's id")
    problem = kind("it is wrong", errors=[field], hint="mend it", pipelineId="report").to_problem()
    served.put("PUT /api/pipelines/report", (kind.status, problem))
    with pytest.raises(kind) as caught:
        client.put_pipeline("report", {"steps": []})
    assert type(caught.value) is kind
    assert (caught.value.detail, caught.value.errors, caught.value.hint) == (
        "it is wrong",
        (field,),
        "mend it",
    )
    assert caught.value.context == {"pipelineId": "report"}


def test_a_code_the_client_does_not_know_becomes_the_nearest_error(served: Served, client: Client) -> None:
    served.put("POST /api/queue/task", (409, {"code": "FROM_THE_FUTURE", "detail": "no"}))
    with pytest.raises(errors.Conflict) as caught:
        client.queue("count")
    assert caught.value.context["sent_code"] == "FROM_THE_FUTURE"


def test_an_error_page_of_a_proxy_is_still_one_clear_error(served: Served, client: Client) -> None:
    served.put("POST /api/queue/task", (502, b"<html>Bad gateway</html>"))
    with pytest.raises(errors.Unavailable, match="status 502"):
        client.queue("count")


def test_a_page_that_is_not_json_is_refused(served: Served, client: Client) -> None:
    served.put("GET /api/info", (200, b"<html>"))
    with pytest.raises(errors.PipeWeaveError, match="not JSON"):
        client.info()


def test_a_get_is_asked_again_and_a_post_is_not(served: Served, client: Client) -> None:
    served.put("GET /api/info", (503, b""), (503, b""), (200, {"version": "1"}))
    served.put("POST /api/queue/task", (503, b""), (200, {"runId": "trun_1"}))
    assert client.info() == {"version": "1"}
    with pytest.raises(errors.Unavailable):
        client.queue("count")
    assert [request for request, _, _ in served.asked].count("POST /api/queue/task") == 1


def test_a_refused_connection_is_unavailable_with_a_hint_how_to_start() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(errors.Unavailable, match="connection refused") as caught:
            Client(url).queue("count")
    assert "pipeweave up" in (caught.value.hint or "")


def test_wait_looks_until_the_run_is_final_and_tells_each_change_once(served: Served, client: Client) -> None:
    going = run_document("running", counts={"running": 1})
    served.put(
        "GET /api/runs/prun_1",
        (200, going),
        (200, going),
        (200, run_document("running", counts={"completed": 1})),
        (200, run_document("completed", counts={"completed": 2})),
    )
    seen: list[str] = []
    run = client.wait("prun_1", on_change=lambda each: seen.append(f"{each.status} {dict(each.counts)}"))
    assert run.status == "completed"
    assert seen == ["running {'running': 1}", "running {'completed': 1}", "completed {'completed': 2}"]


def test_wait_says_once_that_the_run_is_paused_and_goes_on(
    served: Served, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    paused = run_document("paused", pausedAt="2026-11-20T12:00:00Z", pauseReason="the bank is away")
    served.put("GET /api/runs/prun_1", (200, paused), (200, paused), (200, run_document("completed")))
    assert client.wait("prun_1").status == "completed"
    said = "run prun_1 is paused since 2026-11-20T12:00:00Z: the bank is away; it goes on when it is resumed"
    assert [each.getMessage() for each in caplog.records if "paused" in each.getMessage()] == [said]


def test_wait_outlives_a_restart_of_the_api(served: Served, client: Client) -> None:
    served.put("GET /api/runs/prun_1", *[(503, b"")] * 4, (200, run_document("completed")))
    assert client.wait("prun_1").is_final


def test_wait_gives_up_in_time(served: Served, client: Client) -> None:
    served.put("GET /api/runs/prun_1", (200, run_document("running")))
    with pytest.raises(errors.WaitTimeout, match="still running"):
        client.wait("prun_1", timeout=0.1)


def test_events_are_read_page_by_page(served: Served, client: Client) -> None:
    served.put(
        "GET /api/runs/prun_1/events?limit=500",
        (200, {"events": [{"id": 1}, {"id": 2}], "nextCursor": "c 2"}),
    )
    served.put(
        "GET /api/runs/prun_1/events?limit=500&cursor=c+2", (200, {"events": [{"id": 3}], "nextCursor": None})
    )
    assert [event["id"] for event in client.events("prun_1")] == [1, 2, 3]


def test_an_id_cannot_break_out_of_its_path(served: Served, client: Client) -> None:
    served.put("GET /api/runs/..%2F..%2Fhealth%3Fx", (404, errors.NotFound("no").to_problem()))
    with pytest.raises(errors.NotFound):
        client.run("../../health?x")


def test_an_input_is_converted_as_the_results_of_tasks_are(served: Served, client: Client) -> None:
    served.put("POST /api/pipelines/report/trigger", (200, {"pipelineRunId": "prun_1", "status": "running"}))
    client.trigger("report", {"day": date(2026, 11, 22), "tags": {"b", "a"}, "price": Decimal("1.50")})
    assert served.asked[0][2] == {"input": {"day": "2026-11-22", "tags": ["a", "b"], "price": "1.50"}}


def test_an_input_that_is_not_json_is_never_sent(served: Served, client: Client) -> None:
    with pytest.raises(errors.InvalidInput, match="not JSON"):
        client.trigger("report", {"when": object()})
    assert served.asked == []


@pytest.mark.parametrize("url", ["localhost:3000", "ftp://host", "", "http://", "http://me:pw@host"])
def test_a_url_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        Client(url)
    assert "pw" not in str(caught.value)


def test_threads_share_one_client(served: Served, client: Client) -> None:
    served.put("GET /api/info", (200, {"version": "1"}))
    found: list[Any] = []

    def work() -> None:
        found.extend(client.info() for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"version": "1"}] * 40


# --- files ------------------------------------------------------------------------------------------------


def test_a_download_appears_when_it_is_complete(served: Served, client: Client, tmp_path: Path) -> None:
    served.put("GET /api/storage/runs/x/a%20b.pdf?raw=true", (200, b"0123"))
    assert client.download("runs/x/a b.pdf", tmp_path / "a.pdf") == 4
    assert (tmp_path / "a.pdf").read_bytes() == b"0123"
    served.put("GET /api/storage/runs/x/none?raw=true", (404, errors.NotFound("gone").to_problem()))
    with pytest.raises(errors.NotFound, match="gone"):
        client.download("runs/x/none", tmp_path / "none")
    assert [each.name for each in tmp_path.iterdir()] == ["a.pdf"]


def test_a_stored_value_is_its_content(served: Served, client: Client) -> None:
    served.put("GET /api/storage/artifacts/x?backend=main", (200, {"path": "artifacts/x", "content": [1]}))
    assert client.stored_value("artifacts/x", "main") == [1]
    with pytest.raises(errors.InvalidInput):
        client.stored_value("/etc/passwd")


def test_a_file_that_cannot_be_read_is_not_uploaded(client: Client, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="cannot be read"):
        client.upload(tmp_path / "nothing.csv")
