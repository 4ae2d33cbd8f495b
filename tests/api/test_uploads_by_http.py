"""Files come by HTTP before the run that uses them."""

from __future__ import annotations

import hashlib
import importlib
import io
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from pipeweave import ids
from pipeweave.api.http import form_file
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.size_limits import MAX_BODY_BYTES

if TYPE_CHECKING:
    from conftest import Api

# The room hands on the routes under the module's name.
upload_routes: Any = importlib.import_module("pipeweave.api.routes.uploads")


def send(api: Api, content: bytes, name: str | None = "a.csv", **more: Any) -> TestResponse:
    fields = {"file": (io.BytesIO(content), name) if name is not None else "text", **more}
    return api.http.post("/api/upload/temp", data=fields, headers=api.headers)


def content_of(api: Api, path: str) -> bytes:
    answer = api.get(f"/api/storage/{path}", raw="true")
    assert answer.status_code == 200
    return answer.data


def test_an_upload_is_stored_with_its_name_and_hash(api: Api) -> None:
    answer = send(api, b"a;b\n", "Größe 1.csv")
    assert answer.status_code == 200
    upload = answer.json
    assert (upload["filename"], upload["size"], upload["mimeType"]) == ("Größe 1.csv", 4, "text/csv")
    assert upload["sha256"] == hashlib.sha256(b"a;b\n").hexdigest()
    assert upload["storagePath"] == f"temp-uploads/{upload['uploadId']}/Gr_e_1.csv"
    assert content_of(api, upload["storagePath"]) == b"a;b\n"
    shown = api.get(f"/api/upload/temp/{upload['uploadId']}").json
    assert (shown["claimed"], shown["expired"], shown["deleted"]) == (False, False, False)
    assert (shown["uploadedBy"], shown["storageBackendId"]) == ("test", "local")
    assert api.get("/api/upload/temp", limit=1).json["uploads"] == [shown]


def test_an_upload_may_be_larger_than_any_other_body(api: Api) -> None:
    content = bytes(MAX_BODY_BYTES + 1)
    # Written by hand: werkzeug's client would leave a temporary file open.
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="zeros.bin"\r\n\r\n'
    body = head + content + b"\r\n--b--\r\n"
    answer = api.raw("POST", "/api/upload/temp", body, "multipart/form-data; boundary=b")
    assert answer.json["size"] == len(content)
    assert content_of(api, answer.json["storagePath"]) == content


def test_a_file_that_is_too_large_is_refused_and_not_stored(
    api: Api, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = api.get("/api/upload/stats").json
    monkeypatch.setattr(upload_routes, "MAX_UPLOAD_BYTES", 10)
    assert send(api, bytes(11)).status_code == 413
    monkeypatch.setattr(form_file, "MAX_UPLOAD_BYTES", 10)
    assert send(api, bytes(70_000)).json["code"] == "PAYLOAD_TOO_LARGE"
    assert api.get("/api/upload/stats").json == before


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "file"),
        ({"file": "a text"}, "file"),
        ({"other": (io.BytesIO(b"x"), "a.csv")}, "other"),
        ({"file": (io.BytesIO(b"x"), "a.csv"), "note": "x"}, "note"),
        ({"file": [(io.BytesIO(b"x"), "a.csv"), (io.BytesIO(b"y"), "b.csv")]}, "file"),
        ({"file": (io.BytesIO(b"x"), "a" * 256)}, "file"),
    ],
)
def test_a_form_without_exactly_one_file_is_refused(api: Api, data: dict[str, Any], field: str) -> None:
    answer = api.http.post(
        "/api/upload/temp", data=data, headers=api.headers, content_type="multipart/form-data"
    )
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == field


def test_a_body_that_is_no_form_is_refused(api: Api) -> None:
    assert api.raw("POST", "/api/upload/temp", b"{}").json["code"] == "UNSUPPORTED_MEDIA_TYPE"
    broken = api.raw("POST", "/api/upload/temp", b"--x\r\nnonsense", "multipart/form-data; boundary=x")
    assert broken.status_code == 400


def test_only_so_many_uploads_are_received_at_a_time(api: Api) -> None:
    places = upload_routes._places
    for _ in range(upload_routes.AT_ONCE):
        assert places.acquire(blocking=False)
    try:
        answer = send(api, b"x")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    finally:
        for _ in range(upload_routes.AT_ONCE):
            places.release()
    assert send(api, b"x").status_code == 200


# --- claiming and deleting --------------------------------------------------------------------------------


def test_a_run_claims_its_upload_which_then_cannot_be_deleted(api: Api, pipeline: str) -> None:
    upload_id = send(api, b"x").json["uploadId"]
    run_id = api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {"file": upload_id}}).json[
        "pipelineRunId"
    ]
    shown = api.get(f"/api/upload/temp/{upload_id}").json
    assert (shown["claimed"], shown["claimedByRunId"]) == (True, run_id)
    refused = api.delete(f"/api/upload/temp/{upload_id}")
    assert (refused.status_code, refused.json["claimedByRunId"]) == (409, run_id)


def test_a_deleted_upload_is_gone_and_refuses_runs(api: Api, pipeline: str) -> None:
    upload = send(api, b"x").json
    path = f"/api/upload/temp/{upload['uploadId']}"
    assert api.delete(path).json == {"success": True, "uploadId": upload["uploadId"]}
    assert api.delete(path).status_code == 410
    assert api.get(f"/api/storage/{upload['storagePath']}").status_code == 404
    for refused in (
        api.post(f"/api/pipelines/{pipeline}/trigger", {"input": {"file": upload["uploadId"]}}),
        api.post("/api/queue/task", {"taskId": "report", "input": [upload["uploadId"]]}),
    ):
        assert (refused.status_code, refused.json["code"]) == (422, "UPLOAD_NOT_USABLE")


def test_another_tenant_sees_no_upload(api: Api, neighbour: Api) -> None:
    upload = send(api, b"x").json
    assert neighbour.get(f"/api/upload/temp/{upload['uploadId']}").status_code == 404
    assert neighbour.delete(f"/api/upload/temp/{upload['uploadId']}").status_code == 404
    assert neighbour.get(f"/api/storage/{upload['storagePath']}").status_code == 404
    assert neighbour.get("/api/upload/temp").json["uploads"] == []


def test_an_unknown_upload_is_not_found(api: Api) -> None:
    assert api.get(f"/api/upload/temp/{ids.show(ids.UPLOAD, ids.new_id())}").status_code == 404
    assert api.get("/api/upload/temp/nonsense").status_code == 404


def test_uploading_takes_a_token_that_may_write(app: Flask, reader: Api) -> None:
    assert send(reader, b"x").status_code == 403
