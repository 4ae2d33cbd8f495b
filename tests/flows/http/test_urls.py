"""Workers that see no credentials read and write objects by signed URLs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from support.http_service import NO_REPORT, Dispatch, HttpService, http_service
from support.live_stack import LiveStack

from pipeweave import ids


def fetch(service: HttpService, url: str) -> Any:
    answer = service.pool.request("GET", _absolute(service, url), retries=False, timeout=30)
    assert answer.status == 200, answer.data
    return json.loads(answer.data)


def store(service: HttpService, url: str, content: bytes) -> int:
    answer = service.pool.request("PUT", _absolute(service, url), body=content, retries=False, timeout=30)
    return answer.status


def _absolute(service: HttpService, url: str) -> str:
    return service.orchestrator + url if url.startswith("/") else url


def register(service: HttpService) -> None:
    tasks = [{"id": name, "codeHash": "0" * 16, "retries": 0} for name in service.tasks]
    body = {"serviceId": service.service_id, "baseUrl": service.url, "tasks": tasks, "storageAccess": "urls"}
    assert service.post("/api/services", body)[0] == 200


def work_by_urls(dispatch: Dispatch) -> object:
    """Add one to the input, or to the output of the step before; write the result, a file and a log."""
    service, body = dispatch.service, dispatch.body
    refs = list(body["upstreamRefs"].values())
    value = fetch(service, refs[0]["outputUrl"] if refs else body["inputUrl"])
    assert store(service, body["upload"]["output"], json.dumps(value + 1).encode()) == 200
    assert store(service, body["upload"]["logs"], b'{"message":"added"}') == 200
    status, urls = service.post(f"/api/task-runs/{dispatch.run_id}/urls", {"put": ["sum.txt"]})
    assert status == 200
    made = urls["put"]["sum.txt"]
    assert store(service, made["url"], str(value + 1).encode()) == 200
    assets = {"sum.txt": {"path": made["path"], "size": 2, "type": "text"}}
    report = {
        "status": "success",
        "outputPath": f"runs/{dispatch.run_id}/output.json",
        "logsPath": f"runs/{dispatch.run_id}/logs.jsonl",
        "assets": assets,
    }
    assert service.report(dispatch.run_id, report)[0] == 200
    return NO_REPORT


def test_a_chain_without_credentials(http_stack: LiveStack, orchestrator_url: str, secret: str) -> None:
    tasks = {"plus": work_by_urls, "plus-again": work_by_urls}
    with http_service(orchestrator_url, secret, tasks, service_id="by-urls") as service:
        register(service)
        run = http_stack.ran({"id": "by-urls", "steps": [{"task": "plus"}, {"task": "plus-again"}]}, 40)
    assert (run.status, http_stack.steps(run.id)["plus-again"].output) == ("completed", 42)
    first, second = service.dispatches
    assert "storageToken" not in first.body
    assert "accessKey" not in json.dumps(first.body)
    [asset] = second.body["upstreamRefs"]["plus"]["assets"].values()
    assert (asset["size"], asset["type"]) == (2, "text")
    stored = http_stack.steps(run.id)["plus"]
    assert stored.assets["sum.txt"]["sha256"] == asset["sha256"] == hashlib.sha256(b"41").hexdigest()
    assert stored.logs_path == f"local//runs/{first.run_id}/logs.jsonl"


def test_a_url_stands_for_one_object(http_stack: LiveStack, orchestrator_url: str, secret: str) -> None:
    with http_service(
        orchestrator_url, secret, {"holds": lambda _: NO_REPORT}, service_id="holding"
    ) as service:
        register(service)
        http_stack.store({"id": "holding", "steps": [{"task": "holds"}]})
        run_id = http_stack.trigger("holding", 1)
        http_stack.until(lambda: bool(service.of("holds")), "it was not dispatched")
        [dispatch] = service.of("holds")
        read, write = dispatch.body["inputUrl"], dispatch.body["upload"]["output"]
        assert store(service, read, b"2") == 401, "a URL to read does not write"
        other = write.replace("output.json", "elsewhere.json")
        assert store(service, other, b"2") == 401
        foreign = f"runs/{dispatch.run_id[:-1]}x/output.json"
        status, problem = service.post(f"/api/task-runs/{dispatch.run_id}/urls", {"get": [foreign]})
        assert (status, problem["code"]) == (400, "INVALID_INPUT")
        status, problem = service.report(
            dispatch.run_id, {"status": "success", "outputPath": "artifacts/sha256/00/00"}
        )
        assert (status, problem["errors"][0]["field"]) == (400, "outputPath")
        status, problem = service.report(
            dispatch.run_id, {"status": "success", "outputPath": f"runs/{dispatch.run_id}/output.json"}
        )
        assert (status, problem["code"]) == (422, "INVALID_REPORT"), "nothing was stored there"
    assert http_stack.finished(run_id).status == "failed"
    assert ids.show(ids.RUN, run_id) == dispatch.body["pipelineRunId"]
