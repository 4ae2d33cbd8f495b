"""The worker of the examples in plain Node keeps to the protocol."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.fake_orchestrator import SECRET, FakeOrchestrator
from support.pages import ROOT

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")
WORKER = ROOT / "examples/node_worker/worker.js"


@pytest.fixture
def worker(orchestrator: FakeOrchestrator) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [NODE or "node", WORKER],
        env={
            "PATH": os.environ["PATH"],
            "PIPEWEAVE_ORCHESTRATOR_URL": f"{orchestrator.url}/",
            "PIPEWEAVE_SECRET_KEY": SECRET,
            "PORT": "0",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    orchestrator.wait(lambda: orchestrator.registrations)
    yield process
    process.kill()
    process.communicate()


def test_it_is_small_and_needs_nothing() -> None:
    lines = WORKER.read_text().splitlines()
    assert len(lines) < 150
    assert not [each for each in lines if "require(" in each and "'node:" not in each]


def test_it_registers_takes_dispatches_and_reports(
    orchestrator: FakeOrchestrator, worker: subprocess.Popen[str]
) -> None:
    (body,) = orchestrator.registrations
    assert (body["serviceId"], body["storageAccess"]) == ("ranking", "urls")
    assert [each["id"] for each in body["tasks"]] == ["rank_words"]
    given = {"counts": {"a": 1, "b": 3, "c": 3}, "top": 2}
    status, answer = orchestrator.dispatch("rank_words", input=given, heartbeatIntervalMs=50)
    assert (status, answer["runId"]) == (202, "trun_1.1.mac")
    report = orchestrator.report()
    assert json.loads(orchestrator.objects[report["outputPath"]]) == [
        {"word": "b", "count": 3},
        {"word": "c", "count": 3},
    ]
    (line,) = orchestrator.objects[report["logsPath"]].splitlines()
    assert json.loads(line)["message"] == "ranking 3 words"


def test_a_failure_is_reported_with_its_log(
    orchestrator: FakeOrchestrator, worker: subprocess.Popen[str]
) -> None:
    orchestrator.dispatch("rank_words", input={})
    report = orchestrator.report()
    assert (report["status"], report["errorCode"]) == ("failed", "TypeError")
    assert report["logsPath"] in orchestrator.objects


def test_a_report_is_sent_until_it_is_durable(
    orchestrator: FakeOrchestrator, worker: subprocess.Popen[str]
) -> None:
    orchestrator.answers["complete"] = [(500, None), (429, None)]
    orchestrator.dispatch("rank_words", input={"counts": {}, "top": 1})
    assert orchestrator.report()["status"] == "success"
    assert orchestrator.dispatch("rank_words")[0] == 202
    assert len(orchestrator.reports()) == 1


def test_wrong_dispatches_are_refused_and_it_lives_on(
    orchestrator: FakeOrchestrator, worker: subprocess.Popen[str]
) -> None:
    path = "/tasks/rank_words"
    assert orchestrator.post("/tasks/other", {})[0] == 404
    assert orchestrator.post(path, {}, "another secret")[0] == 401
    assert orchestrator.post(path, {}, None)[0] == 401
    for body in (b"{", b"null", b"[]", {}, {"runId": "../a", "inputUrl": "/", "upload": {"output": "/"}}):
        assert orchestrator.post(path, body)[0] == 400
    assert orchestrator.dispatch("rank_words", input={"counts": {}, "top": 1})[0] == 202


def test_term_lets_it_leave(orchestrator: FakeOrchestrator, worker: subprocess.Popen[str]) -> None:
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert ("leave", orchestrator.registrations[0]["baseUrl"], None) in orchestrator.asked
