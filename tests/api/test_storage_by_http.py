"""Stored objects are read through the API by the tenant whose rows refer to them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from flask import Flask

from pipeweave import ids
from pipeweave.orchestrator import kept
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.reading.log_search import find_in_log
from pipeweave.orchestrator.security import ADMIN, EVERY_TENANT
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import ObjectRef, Storage

if TYPE_CHECKING:
    from conftest import Api, Tokens

LARGE = {"text": "x" * INLINE_BYTES}


@pytest.fixture
def storage(deployment: Deployment) -> Storage:
    return deployment.values.backends.default


@pytest.fixture
def task_run(api: Api, run_id: str) -> str:
    """The id of a run's first task run."""
    return str(api.get(f"/api/runs/{run_id}/task-runs").json["taskRuns"][0]["id"])


def test_the_backends_are_listed_without_credentials(reader: Api) -> None:
    shown = reader.get("/api/storage/backends")
    one = {
        "id": "local",
        "provider": "local",
        "endpoint": None,
        "bucket": None,
        "region": None,
        "isDefault": True,
    }
    assert shown.json == {"backends": [one], "default": "local"}


# --- whose an object is -----------------------------------------------------------------------------------


def test_a_large_input_is_read_by_its_tenant_alone(api: Api, neighbour: Api, pipeline: str) -> None:
    path = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": LARGE}).json["inputPath"]
    assert api.get(f"/api/storage/{path}").json == {"path": path, "backend": "local", "content": LARGE}
    assert neighbour.get(f"/api/storage/{path}").status_code == 404


def test_a_reference_of_an_older_version_is_found(api: Api, deployment: Deployment, pipeline: str) -> None:
    answer = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {**LARGE, "older": True}}).json
    with deployment.database.transaction() as tx:
        run = ids.read(ids.RUN, answer["pipelineRunId"])
        tx.execute(
            "UPDATE runs SET input_path = :path WHERE id = :id", {"path": answer["inputPath"], "id": run}
        )
    assert api.get(f"/api/storage/{answer['inputPath']}").status_code == 200


def test_an_object_that_no_row_names_is_not_found(api: Api, deployment: Deployment) -> None:
    kept = deployment.values.keep({**LARGE, "nobody": "names it"})
    path = ObjectRef.parse(str(kept.path), "local").path
    assert api.get(f"/api/storage/{path}").status_code == 404


@pytest.mark.parametrize("rest", [".1/output.json", ".1/assets/a.json", "/note.json"])
def test_objects_of_a_task_run_belong_to_its_tenant(
    api: Api, neighbour: Api, storage: Storage, task_run: str, rest: str
) -> None:
    path = f"runs/{task_run}{rest}"
    storage.put(path, b'{\n  "n": 1\n}')
    assert api.get(f"/api/storage/{path}").json["content"] == {"n": 1}
    assert neighbour.get(f"/api/storage/{path}").status_code == 404


@pytest.mark.parametrize("folder", ["pipelines", "standalone"])
def test_objects_of_a_run_belong_to_its_tenant(
    api: Api, neighbour: Api, storage: Storage, run_id: str, folder: str
) -> None:
    path = f"{folder}/{run_id}/input.json"
    storage.put(path, b"[1]")
    assert api.get(f"/api/storage/{path}").json["content"] == [1]
    assert neighbour.get(f"/api/storage/{path}").status_code == 404


def test_an_object_that_is_not_there_is_not_found(api: Api, task_run: str) -> None:
    answer = api.get(f"/api/storage/runs/{task_run}.1/output.json")
    assert (answer.status_code, answer.json["code"]) == (404, "NOT_FOUND")
    assert api.get(f"/api/storage/runs/{task_run}.1/output.json", backend="nowhere").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "runs/{task_run}.1/../../../secret",
        "runs/{task_run}.1/%2e%2e/secret",
        "runs/{task_run}.1/..%2fsecret",
        "runs/{task_run}.1/a%00b",
        "runs/{task_run}.1/a%5Cb",
        "runs/{task_run}.1/",
        "/etc/passwd",
        "//etc/passwd",
        "local//runs/{task_run}.1/output.json",
        "archive/runs/index.json",
        "%FF%FE",
        "runs/" + "a" * 3000,
    ],
)
def test_a_hostile_path_is_not_found(api: Api, storage: Storage, task_run: str, path: str) -> None:
    storage.put("archive/runs/index.json", b"{}")
    storage.put("secret", b"{}")
    answer = api.http.get(f"/api/storage/{path.format(task_run=task_run)}", headers=api.headers)
    assert answer.status_code == 404
    assert answer.json["code"] == "NOT_FOUND"


# --- bytes ------------------------------------------------------------------------------------------------


@pytest.fixture
def asset(storage: Storage, task_run: str) -> str:
    """The path of a file of ten bytes."""
    path = f"runs/{task_run}.1/assets/page.html"
    storage.put(path, b"0123456789")
    return path


def test_a_file_is_saved_and_never_shown_by_a_browser(api: Api, asset: str) -> None:
    answer = api.get(f"/api/storage/{asset}")
    assert (answer.data, answer.content_type) == (b"0123456789", "text/html")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''page.html"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert answer.headers["Content-Length"] == "10"


@pytest.fixture
def kept_file(api: Api, deployment: Deployment, task_run: str) -> str:
    """The path of a file that lies by its content and belongs to a task run."""
    where = deployment.values.keep_bytes(b"<p>hi", "local", "text/html")
    with deployment.database.transaction() as tx:
        tx.execute(
            """INSERT INTO asset_claims (path, run_id, task_run_id, attempt, tenant_id)
            VALUES (:path, :run_id, :id, 1, 'default') ON CONFLICT DO NOTHING""",
            {"path": str(where), "run_id": ids.run_id_of(id_of(task_run)), "id": id_of(task_run)},
        )
    return where.path


def test_a_file_by_its_content_has_the_name_that_is_asked_for(
    api: Api, neighbour: Api, kept_file: str
) -> None:
    answer = api.get(f"/api/storage/{kept_file}", name="page.html")
    assert (answer.data, answer.content_type) == (b"<p>hi", "text/html")
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''page.html"
    assert api.get(f"/api/storage/preview/{kept_file}", name="page.html").json["text"] == "<p>hi"
    assert api.get(f"/api/storage/{kept_file}").json["code"] == "NOT_JSON"
    wrong = api.get(f"/api/storage/{kept_file}", name="../page.html")
    assert (wrong.status_code, wrong.json["errors"][0]["field"]) == (400, "name")
    assert neighbour.get(f"/api/storage/{kept_file}", name="page.html").status_code == 404


def test_head_tells_the_size_without_the_content(api: Api, asset: str) -> None:
    answer = api.http.head(f"/api/storage/{asset}", headers=api.headers)
    assert (answer.status_code, answer.data, answer.headers["Content-Length"]) == (200, b"", "10")


@pytest.mark.parametrize(
    ("given", "status", "content", "shown"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-30", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=5-500", 206, b"56789", "bytes 5-9/10"),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=4-2", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
    ],
)
def test_one_range_is_answered(
    api: Api, asset: str, given: str, status: int, content: bytes, shown: str | None
) -> None:
    api.sent = {"Range": given}
    answer = api.get(f"/api/storage/{asset}")
    assert (answer.status_code, answer.data) == (status, content)
    assert answer.headers.get("Content-Range") == shown


@pytest.mark.parametrize("given", ["bytes=10-", "bytes=-0", "bytes=99-100"])
def test_a_range_behind_the_end_is_refused(api: Api, asset: str, given: str) -> None:
    api.sent = {"Range": given}
    answer = api.get(f"/api/storage/{asset}")
    assert (answer.status_code, answer.json["code"]) == (416, "RANGE_NOT_SATISFIABLE")
    assert answer.headers["Content-Range"] == "bytes */10"


def test_an_unchanged_object_is_not_sent_again(api: Api, storage: Storage, asset: str) -> None:
    etag = api.get(f"/api/storage/{asset}").headers["ETag"]
    api.sent = {"If-None-Match": etag}
    for address in (f"/api/storage/{asset}", f"/ui/{api.tenant}/storage/file?path={asset}"):
        unchanged = api.get(address)
        assert unchanged.status_code == 304
        assert unchanged.headers["Content-Security-Policy"].startswith("sandbox")
    api.sent = {"Range": "bytes=0-0", "If-Range": '"another"'}
    assert api.get(f"/api/storage/{asset}").status_code == 200
    api.sent = {"Range": "bytes=0-0", "If-Range": etag}
    assert api.get(f"/api/storage/{asset}").status_code == 206


def test_json_is_answered_as_bytes_on_request(api: Api, storage: Storage, task_run: str) -> None:
    path = f"runs/{task_run}.1/output.json"
    storage.put(path, b'{ "n": 1 }')
    answer = api.get(f"/api/storage/{path}", raw="true")
    assert (answer.data, answer.content_type) == (b'{ "n": 1 }', "application/json")


def test_what_should_be_json_and_is_not_says_so(api: Api, storage: Storage, task_run: str) -> None:
    path = f"runs/{task_run}.1/output.json"
    storage.put(path, b"nonsense")
    answer = api.get(f"/api/storage/{path}")
    assert (answer.status_code, answer.json["code"]) == (422, "NOT_JSON")


# --- looked at --------------------------------------------------------------------------------------------


def test_what_an_object_holds_is_shown_as_data(api: Api, neighbour: Api, asset: str) -> None:
    found = api.get(f"/api/storage/preview/{asset}").json
    assert found.pop("modifiedAt")
    assert found == {
        "path": asset,
        "backend": "local",
        "size": 10,
        "kind": "text",
        "mediaType": "text/html",
        "content": None,
        "text": "0123456789",
        "rows": None,
        "isCut": False,
    }
    assert neighbour.get(f"/api/storage/preview/{asset}").status_code == 404
    assert api.get(f"/api/storage/preview/{asset}", backend="nowhere").status_code == 404
    assert api.get("/api/storage/preview/archive/x").status_code == 404


# --- logs -------------------------------------------------------------------------------------------------


def id_of(task_run: str) -> UUID:
    return ids.read(ids.TASK_RUN, task_run)


def test_a_log_is_read_while_it_grows(api: Api, storage: Storage, task_run: str) -> None:
    path = f"runs/{task_run}.1/logs.jsonl"
    empty = api.get(f"/api/task-runs/{task_run}/logs").json
    assert empty == {
        "taskRunId": task_run,
        "attempt": 1,
        "logs": [],
        "isComplete": False,
        "nextOffset": 0,
        "lineNumbers": None,
    }
    storage.put(path, b'{"message":"one"}\n{"message":"tw')
    first = api.get(f"/api/task-runs/{task_run}/logs").json
    assert (first["logs"], first["nextOffset"]) == ([{"message": "one"}], 18)
    storage.put(path, b'{"message":"one"}\n{"message":"two"}\nnonsense\n')
    second = api.get(f"/api/task-runs/{task_run}/logs", offset=18).json
    assert second["logs"] == [{"message": "two"}, {"message": "nonsense"}]
    assert api.get(f"/api/task-runs/{task_run}/logs", tail=1).json["logs"] == [{"message": "nonsense"}]


def test_a_last_line_without_a_line_feed_is_shown_when_it_is_whole(
    api: Api, storage: Storage, task_run: str
) -> None:
    path = f"runs/{task_run}.1/logs.jsonl"
    storage.put(path, b'{"message":"one"}\n{"message":"two"}')
    first = api.get(f"/api/task-runs/{task_run}/logs").json
    assert [each["message"] for each in first["logs"]] == ["one", "two"]
    assert not first["isComplete"]
    storage.put(path, b'{"message":"one"}\n{"message":"two"}\n{"message":"three"}')
    second = api.get(f"/api/task-runs/{task_run}/logs", offset=first["nextOffset"]).json
    assert second["logs"] == [{"message": "three"}]


def test_the_log_of_an_attempt_that_ended_is_complete(
    api: Api, deployment: Deployment, storage: Storage, task_run: str
) -> None:
    with deployment.database.transaction() as tx:
        tx.execute(
            """UPDATE task_runs SET attempt = 2 WHERE run_id = :run_id AND id = :id""",
            {"run_id": ids.run_id_of(id_of(task_run)), "id": id_of(task_run)},
        )
    # The SDK writes no line feed at the end.
    storage.put(f"runs/{task_run}.1/logs.jsonl", b'{"message":"one"}\n{"message":"two"}')
    answer = api.get(f"/api/task-runs/{task_run}/logs", attempt=1).json
    assert (answer["isComplete"], [each["message"] for each in answer["logs"]]) == (True, ["one", "two"])
    assert api.get(f"/api/task-runs/{task_run}/logs").json["attempt"] == 2
    assert api.get(f"/api/task-runs/{task_run}/logs", attempt=3).status_code == 404


def test_a_long_log_comes_in_parts(api: Api, storage: Storage, task_run: str) -> None:
    line = b'{"message":"' + b"x" * 1000 + b'"}\n'
    storage.put(f"runs/{task_run}.1/logs.jsonl", line * 2500)
    offset, count, answers = 0, 0, 0
    while offset < len(line) * 2500:
        answer = api.get(f"/api/task-runs/{task_run}/logs", offset=offset).json
        offset, count, answers = answer["nextOffset"], count + len(answer["logs"]), answers + 1
    assert (count, answers) == (2500, 3)
    assert len(api.get(f"/api/task-runs/{task_run}/logs", tail=7).json["logs"]) == 7


def test_the_lines_of_a_log_that_have_a_text_are_found(api: Api, storage: Storage, task_run: str) -> None:
    lines = [b'{"message":"Stra\\u00dfe 1"}', b"", b"plain 50%", b'{"message":"two","exception":"STRASSE"}']
    storage.put(f"runs/{task_run}.1/logs.jsonl", b"\n".join(lines))
    found = api.get(f"/api/task-runs/{task_run}/logs", find="strasse").json
    assert (found["lineNumbers"], [each["message"] for each in found["logs"]]) == (
        [1, 3],
        ["Straße 1", "two"],
    )
    assert found["isComplete"]
    assert api.get(f"/api/task-runs/{task_run}/logs", find="50%").json["lineNumbers"] == [2]
    whole = api.get(f"/api/task-runs/{task_run}/logs").json["logs"]
    assert whole[2] == found["logs"][1], "the numbers are places in the log"


def test_a_search_stops_in_time(api: Api, storage: Storage, task_run: str, deployment: Deployment) -> None:
    storage.put(f"runs/{task_run}.1/logs.jsonl", b"x\n" * 3_000)
    found = api.get(f"/api/task-runs/{task_run}/logs", find="x").json
    assert (len(found["lineNumbers"]), found["isComplete"], found["nextOffset"]) == (1_000, False, 2_000)
    values, secret = deployment.values, deployment.settings.secret_key
    with deployment.database.reading() as tx:
        place = kept.log_place(tx, api.tenant, id_of(task_run), None, values.backends, secret)
    ticks = iter(range(100))
    late = find_in_log(values.backends, place, "x", clock=lambda: next(ticks) * 0.125)
    assert (late["lineNumbers"], late["isComplete"]) == ([1, 2], False)


def test_another_tenant_sees_no_log(neighbour: Api, api: Api, task_run: str) -> None:
    assert neighbour.get(f"/api/task-runs/{task_run}/logs").status_code == 404
    assert api.get(f"/api/task-runs/{task_run}/logs", tail=1, offset=1).status_code == 400


# --- the sweep --------------------------------------------------------------------------------------------


@pytest.fixture
def admin(api: Api, tokens: Tokens) -> Api:
    """An administrator of every tenant."""
    return replace(api, token=tokens.make(ADMIN, tenants=(EVERY_TENANT,)))


def test_an_administrator_sweeps_what_nobody_refers_to(
    admin: Api, deployment: Deployment, storage: Storage
) -> None:
    path = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(ids.new_id(), 1))}.1/output.json"
    storage.put(path, b"[1]")
    file = Path(deployment.settings.data_dir) / "storage" / path
    os.utime(file, (0, 0))
    dry = admin.post("/api/storage/sweep", {"dryRun": True}).json
    assert (dry["dryRun"], dry["deleted"], dry["examples"]) == (True, 1, [f"local//{path}"])
    assert file.exists()
    done = admin.post("/api/storage/sweep").json
    assert (done["deleted"], done["bytes"], done["next"]) == (1, 3, None)
    assert done["young"] > 0
    assert not file.exists()


def test_sweeping_takes_an_administrator_of_every_tenant(api: Api, app: Flask, tokens: Tokens) -> None:
    assert api.post("/api/storage/sweep").status_code == 403
    of_one = replace(api, token=tokens.make(ADMIN))
    assert of_one.post("/api/storage/sweep").status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"backend": "nowhere"}, 404),
        ({"after": "nowhere//x"}, 400),
        ({"after": ""}, 400),
        ({"dryRun": "yes"}, 400),
        ({"rehearse": True}, 400),
    ],
)
def test_a_wrong_order_to_sweep_is_refused(admin: Api, body: dict[str, object], status: int) -> None:
    assert admin.post("/api/storage/sweep", body).status_code == status


# --- use --------------------------------------------------------------------------------------------------


def test_an_administrator_measures_a_backend(admin: Api, storage: Storage, task_run: str) -> None:
    storage.put(f"runs/{task_run}.1/assets/large.bin", bytes(3_000_000))
    found = admin.get("/api/storage/usage", prefix=f"runs/{task_run}").json
    assert (found["backend"], found["seen"]) == ("local", 1)
    [part] = found["prefixes"]
    assert (part["objects"], part["bytes"], part["isCapped"], part["isEstimate"]) == (
        1,
        3_000_000,
        False,
        False,
    )
    assert found["largest"][0]["path"] == f"runs/{task_run}.1/assets/large.bin"


def test_measuring_takes_an_administrator_of_every_tenant(api: Api, admin: Api, tokens: Tokens) -> None:
    assert replace(api, token=tokens.make(ADMIN)).get("/api/storage/usage").status_code == 403
    assert admin.get("/api/storage/usage", backend="nowhere").status_code == 404
    wrong = admin.get("/api/storage/usage", prefix="secret/")
    assert (wrong.status_code, wrong.json["errors"][0]["field"]) == (400, "prefix")
