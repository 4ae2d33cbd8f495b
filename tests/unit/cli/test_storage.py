"""`pipeweave storage | upload | uploads`, and the stored logs: what they ask and print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.cli.support import run_logs, stored_logs
from pipeweave.errors import Conflict, NotFound

Call = Callable[..., Result]
UPLOAD = "tmp_01m80arwk4es7bk8x0dg000000"
RUN = "prun_01m80arwk4es7bk8x0dg000000"
TASK_RUN = "trun_01m80arwk4es7bk8x0dg000001"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    monkeypatch.setenv("PIPEWEAVE_API_TOKEN", "t")
    return lambda *arguments: CliRunner().invoke(main, arguments)


def report(**counts: Any) -> dict[str, Any]:
    found = {"seen": 5, "kept": 1, "deleted": 2, "bytes": 2048, "young": 1, "unknown": 1}
    return {"dryRun": True, **found, "examples": ["local//runs/x", "local//runs/y"], "next": None, **counts}


# --- storage ----------------------------------------------------------------------------------------------


def test_the_backends_are_listed(call: Call, served: Served) -> None:
    backend = {"id": "main", "provider": "aws-s3", "bucket": "values", "endpoint": None, "region": "eu"}
    document = {"backends": [{**backend, "isDefault": True}], "default": "main"}
    served.put("GET /api/storage/backends", (200, document))
    assert call("storage").output.splitlines()[1].split() == ["main", "aws-s3", "values", "-", "eu", "yes"]
    assert json.loads(call("storage", "list", "--json").output) == document


def test_use_says_how_exact_it_is(call: Call, served: Served) -> None:
    values = {"prefix": "artifacts/sha256/", "objects": 12_800, "bytes": 38_400, "newest": None}
    runs = {"prefix": "runs/", "objects": 5_000, "bytes": 7, "newest": "2026-11-01T00:00:00Z"}
    prefixes = [
        {**values, "isEstimate": True, "isCapped": False},
        {**runs, "isEstimate": False, "isCapped": True},
    ]
    document = {"backend": "local", "prefixes": prefixes, "seen": 5_300, "largest": []}
    served.put("GET /api/storage/usage", (200, document))
    served.put("GET /api/storage/usage?prefix=r", (200, document))
    lines = call("storage", "usage", "--prefix", "r").output.splitlines()
    assert lines[1].split() == ["artifacts/sha256/", "~12,800", "~38,400", "-"]
    assert lines[2].split()[:3] == ["runs/", "5,000+", "7+"]
    assert json.loads(call("storage", "usage", "--json").output) == document


def test_a_sweep_goes_on_until_all_was_seen(call: Call, served: Served) -> None:
    served.put("POST /api/storage/sweep", (200, report(next="local//runs/y")), (200, report()))
    result = call("storage", "sweep", "--dry-run", "--backend", "local")
    assert result.exit_code == 0
    assert "would be deleted  4 (4,096 bytes)" in result.output
    assert result.output.count("local//runs/x") == 2
    bodies = [body for _, _, body in served.asked]
    assert bodies == [
        {"dryRun": True, "backend": "local", "adopt": False},
        {"dryRun": True, "backend": "local", "adopt": False, "after": "local//runs/y"},
    ]


def test_a_report_is_json_for_programs(call: Call, served: Served) -> None:
    served.put("POST /api/storage/sweep", (200, report(dryRun=False)))
    found = json.loads(call("storage", "sweep", "--adopt", "--json").output)
    assert (found["deleted"], found["bytes"], found["dryRun"]) == (2, 2048, False)


def test_a_refused_sweep_is_one_line(call: Call, served: Served) -> None:
    problem = Conflict("the objects may be of another deployment", hint="adopt them").to_problem()
    served.put("POST /api/storage/sweep", (409, problem))
    result = call("storage", "sweep")
    assert result.exit_code == 1
    assert result.stderr == "pipeweave: CONFLICT: the objects may be of another deployment; adopt them\n"


# --- uploads ----------------------------------------------------------------------------------------------


def test_an_upload_prints_its_id(call: Call, served: Served, tmp_path: Path) -> None:
    (tmp_path / "Größe 1.csv").write_bytes(b"a;b\n")
    served.put("POST /api/upload/temp", (200, {"uploadId": UPLOAD}))
    assert call("upload", "Größe 1.csv").output == f"{UPLOAD}\n"
    _, headers, body = served.asked[0]
    assert headers["Content-Type"].startswith("multipart/form-data; boundary=")
    assert 'name="file"; filename="Größe 1.csv"\r\nContent-Type: text/csv\r\n\r\na;b\n\r\n--' in body.decode()


def test_a_file_that_is_not_there_is_a_usage_error(call: Call) -> None:
    assert call("upload", "nothing.csv").exit_code == 2


def test_uploads_are_listed_with_their_state(call: Call, served: Served) -> None:
    upload = {
        "uploadId": UPLOAD,
        "filename": "a.csv",
        "size": 1234,
        "uploadedAt": "2026-11-20T12:00:00.000Z",
        "claimedByRunId": None,
        "expired": False,
        "claimed": False,
        "deleted": False,
    }
    listed = {"uploads": [upload, {**upload, "claimed": True}], "nextCursor": None}
    served.put("GET /api/upload/temp?limit=500", (200, listed))
    first, second = call("uploads").output.splitlines()[1:]
    assert first.split()[:4] == [UPLOAD, "a.csv", "1,234", "waiting"]
    assert "claimed" in second
    assert len(json.loads(call("uploads", "-n", "1", "--json").output)["uploads"]) == 1


# --- stored logs ------------------------------------------------------------------------------------------


def line(message: str, **more: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-20T12:00:00.123Z", "level": "info", "message": message, **more}


def test_the_stored_log_of_a_task_run_is_shown(call: Call, served: Served) -> None:
    answer = {"logs": [line("began", runId="x", rows=7)], "attempt": 1, "isComplete": True, "nextOffset": 9}
    served.put(f"GET /api/task-runs/{TASK_RUN}/logs?attempt=1&tail=5", (200, answer))
    result = call("logs", TASK_RUN, "--attempt", "1", "-n", "5")
    assert result.output.split(maxsplit=1)[1] == "info    began rows=7\n"
    shown = json.loads(call("logs", TASK_RUN, "--attempt", "1", "-n", "5", "--json").output)
    assert shown["message"] == "began"


def test_the_stored_log_is_that_of_the_named_tenant(call: Call, served: Served) -> None:
    answer = {"logs": [line("began")], "attempt": 1, "isComplete": True, "nextOffset": 9}
    served.put(f"GET /api/task-runs/{TASK_RUN}/logs?attempt=1&tail=5", (200, answer))
    assert call("logs", TASK_RUN, "--attempt", "1", "-n", "5", "--tenant", "shop").exit_code == 0
    assert served.asked[-1][1]["X-Tenant"] == "shop"
    assert "--tenant needs" in call("logs", "worker-1", "--tenant", "shop").output


def test_a_log_is_followed_until_its_attempt_ended(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_logs, "POLL_INTERVAL_S", 0.0)
    path = f"GET /api/task-runs/{TASK_RUN}/logs"
    first = {"logs": [line("one")], "attempt": 2, "isComplete": False, "nextOffset": 9}
    served.put(f"{path}?tail=100", (200, first))
    waiting = {**first, "logs": []}
    last = {**first, "logs": [line("two")], "isComplete": True, "nextOffset": 18}
    served.put(f"{path}?attempt=2&offset=9", (200, waiting), (200, last))
    served.put(f"GET /api/task-runs/{TASK_RUN}", (200, {"id": TASK_RUN, "attempt": 2}))
    result = call("logs", TASK_RUN, "-f")
    assert [each.split()[-1] for each in result.output.splitlines()] == ["one", "two"]


def test_a_log_is_followed_from_attempt_to_attempt(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_logs, "POLL_INTERVAL_S", 0.0)
    path = f"GET /api/task-runs/{TASK_RUN}/logs"
    lost = {"logs": [line("one")], "attempt": 1, "isComplete": True, "nextOffset": 9}
    served.put(f"{path}?tail=100", (200, lost))
    served.put(f"{path}?attempt=2&offset=0", (200, {**lost, "logs": [line("two")], "attempt": 2}))
    served.put(f"GET /api/task-runs/{TASK_RUN}", (200, {"id": TASK_RUN, "attempt": 2}))
    said = [each.split()[-1] for each in call("logs", TASK_RUN, "-f").output.splitlines()]
    assert said == ["one", "two"]


def test_the_log_of_a_run_is_one_answer_however_many_attempts_it_has(call: Call, served: Served) -> None:
    served.put(f"GET /api/runs/{RUN}", (200, {"id": RUN, "pipelineId": "p", "status": "failed"}))
    of = {"taskRunId": TASK_RUN, "tenant": "t", "pipelineId": "p", "traceId": "0af7", "runId": RUN}
    lines: list[dict[str, Any]] = [
        {
            **of,
            "stepId": "a",
            "mapIndex": 3,
            "attempt": 1,
            **line("second"),
            "timestamp": "2026-11-20T12:00:02Z",
        },
        {
            **of,
            "stepId": "a",
            "mapIndex": 3,
            "attempt": 2,
            **line("third", rows=7),
            "timestamp": "2026-11-21T00:00:00Z",
        },
        {**of, "stepId": "b", "attempt": 1, **line("first"), "timestamp": "2026-11-20T12:00:00Z"},
        {"cursor": "c", "rows": 3, "isComplete": True},
    ]
    content = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    served.put(f"GET /api/export/logs?run={RUN}&standalone=false", (200, content))
    said = [each.split(maxsplit=2)[-1] for each in call("logs", RUN).output.splitlines()]
    assert said == ["first step=b", "second step=a[3]", "third step=a[3] attempt 2 rows=7"]
    assert len(served.asked) == 2
    (last,) = map(json.loads, call("logs", RUN, "-n", "1", "--json").output.splitlines())
    assert (last["step"], last["message"], last["taskRunId"]) == ("a[3] attempt 2", "third", TASK_RUN)


def test_the_last_lines_of_a_large_run_are_asked_for_by_pages_that_go_backwards(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_logs, "_MOST_ON_A_PAGE", 2)
    large = {"id": RUN, "pipelineId": "p", "status": "failed", "counts": {"completed": 2_001}}
    served.put(f"GET /api/runs/{RUN}", (200, large))
    of = {"taskRunId": TASK_RUN, "stepId": "a", "mapIndex": 3, "attempt": 2, "time": "2026-11-20T12:00:00Z"}
    logs = [{**of, "line": {"level": "info", "message": each}} for each in ("one", "two", "three")]
    page = {"attempts": 2_003, "attemptsRead": 50, "nextCursor": "c"}
    served.put(f"GET /api/runs/{RUN}/logs?limit=2", (200, {**page, "logs": logs[1:]}))
    served.put(f"GET /api/runs/{RUN}/logs?limit=1&cursor=c", (200, {**page, "logs": logs[:1]}))
    result = call("logs", RUN, "-n", "3")
    said = [each.split(maxsplit=2)[-1] for each in result.stdout.splitlines()]
    assert said == [f"{each} step=a[3] attempt 2" for each in ("one", "two", "three")]
    assert result.stderr == "Of 2,003 attempts, the logs of the 50 that failed or began last are shown.\n"
    first = json.loads(call("logs", RUN, "-n", "3", "--json").stdout.splitlines()[0])
    assert (first["step"], first["message"], first["taskRunId"]) == ("a[3] attempt 2", "one", TASK_RUN)


def test_the_last_lines_of_a_large_run_come_from_its_attempts_where_an_older_api_has_no_log_of_a_run(
    call: Call, served: Served
) -> None:
    large = {"id": RUN, "pipelineId": "p", "status": "failed", "counts": {"completed": 2_001}}
    served.put(f"GET /api/runs/{RUN}", (200, large))
    served.put(f"GET /api/runs/{RUN}/logs?limit=3", (404, {"status": 404, "code": "NOT_FOUND"}))
    began = {"type": "task_run.started", "attempt": 1, "taskRunId": TASK_RUN}
    events = f"GET /api/runs/{RUN}/events?type=task_run.started&limit=500"
    served.put(events, (200, {"events": [began], "nextCursor": None}))
    served.put(f"GET /api/task-runs/{TASK_RUN}", (200, {"stepId": "a", "mapIndex": 3}))
    logged = {"attempt": 1, "isComplete": True, "nextOffset": 9, "logs": [line("one"), line("two")]}
    served.put(f"GET /api/task-runs/{TASK_RUN}/logs?attempt=1&tail=3", (200, logged))
    said = [each.split(maxsplit=2)[-1] for each in call("logs", RUN, "-n", "3").stdout.splitlines()]
    assert said == ["one step=a[3]", "two step=a[3]"]


def test_the_log_of_a_run_that_logged_nothing_says_so(call: Call, served: Served) -> None:
    served.put(f"GET /api/runs/{RUN}", (200, {"id": RUN, "pipelineId": None, "status": "completed"}))
    served.put(
        f"GET /api/export/logs?run={RUN}&standalone=true",
        (200, b'{"cursor":"c","rows":0,"isComplete":true}\n'),
    )
    assert call("logs", RUN).stderr == f"The tasks of {RUN} have logged nothing.\n"


def test_the_log_of_a_run_is_followed_until_the_run_has_ended(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_logs, "POLL_INTERVAL_S", 0.0)
    monkeypatch.setattr(run_logs, "_PAGE", 1)
    other = f"{TASK_RUN[:-1]}2"
    began = {"type": "task_run.started", "attempt": 1, "taskRunId": TASK_RUN}
    again = {**began, "attempt": 2, "taskRunId": other}
    events = f"GET /api/runs/{RUN}/events?type=task_run.started&limit=1"
    served.put(
        events, (200, {"events": [began], "nextCursor": None}), (200, {"events": [began], "nextCursor": "c"})
    )
    served.put(f"{events}&cursor=c", (200, {"events": [again], "nextCursor": None}))
    served.put(
        f"GET /api/runs/{RUN}",
        (200, {"id": RUN, "status": "running"}),
        (200, {"id": RUN, "status": "failed"}),
    )
    served.put(f"GET /api/task-runs/{TASK_RUN}", (200, {"stepId": "a", "mapIndex": 3}))
    served.put(f"GET /api/task-runs/{other}", (200, {"stepId": "b", "mapIndex": None}))
    logged = {"attempt": 1, "isComplete": False, "nextOffset": 9}
    first, second = line("one"), {**line("two"), "timestamp": "2026-11-22T11:00:02Z"}
    logs = f"GET /api/task-runs/{TASK_RUN}/logs?attempt=1"
    served.put(f"{logs}&tail=100", (200, {**logged, "logs": [first]}))
    served.put(
        f"{logs}&offset=9",
        (200, {**logged, "logs": []}),
        (200, {**logged, "logs": [second], "isComplete": True}),
    )
    of_other = f"GET /api/task-runs/{other}/logs?attempt=2&offset=0"
    served.put(of_other, (200, {**logged, "logs": [{**second, "message": "three"}], "isComplete": True}))
    lines = call("logs", RUN, "-f").output.splitlines()
    assert [each.split(maxsplit=2)[-1] for each in lines] == [
        "one step=a[3]",
        "three step=b attempt 2",
        "two step=a[3]",
    ]


def test_a_log_without_lines_says_so(call: Call, served: Served) -> None:
    answer = {"logs": [], "attempt": 1, "isComplete": False, "nextOffset": 0}
    served.put(f"GET /api/task-runs/{TASK_RUN}/logs?tail=100", (200, answer))
    assert call("logs", TASK_RUN).stderr == f"Attempt 1 of {TASK_RUN} has logged nothing.\n"
    served.put(
        f"GET /api/task-runs/{TASK_RUN}/logs?tail=100", (404, NotFound("no such task run").to_problem())
    )
    assert call("logs", TASK_RUN).stderr.startswith("pipeweave: NOT_FOUND: ")


def test_the_id_of_a_task_run_stands_alone(call: Call) -> None:
    assert call("logs", TASK_RUN, "worker-1").exit_code == 2
    assert call("logs", "--attempt", "1").exit_code == 2
    assert call("logs", RUN, "--attempt", "1").exit_code == 2
