"""The health port of a process: what it answers, and that it is free when its process has ended."""

from __future__ import annotations

from datetime import timedelta

import pytest
import urllib3

from pipeweave.errors import PortInUse
from pipeweave.workers.process.health_reports import HealthReport, LastStored
from pipeweave.workers.process.health_server import HealthAddress, HealthServer, ProcessHealth


def ask(server: HealthServer, path: str = "/health") -> tuple[int, object]:
    answer = urllib3.request("GET", f"http://127.0.0.1:{server.port}{path}", retries=False, timeout=10)
    return answer.status, answer.json()


def test_health_is_200_and_trouble_503() -> None:
    found = ProcessHealth(True, {"status": "running"})
    with HealthServer(HealthAddress(0), lambda: found) as server:
        assert ask(server) == (200, {"status": "running"})
        assert ask(server, "/health?verbose=1")[0] == 200
        found = ProcessHealth(False, {"status": "stopping"})
        assert ask(server) == (503, {"status": "stopping"})
        assert ask(server, "/metrics") == (404, {"error": "there is only GET /health here"})


def test_a_port_that_is_taken_is_named() -> None:
    with HealthServer(HealthAddress(0), lambda: ProcessHealth(True, {})) as server:
        with pytest.raises(PortInUse, match=f"port {server.port} on 127.0.0.1 is in use") as raised:
            HealthServer(HealthAddress(server.port), lambda: ProcessHealth(True, {}))
        assert "--health-port" in raised.value.hint
        address = HealthAddress(server.port)
    with HealthServer(address, lambda: ProcessHealth(True, {})) as again:
        assert again.port == address.port


def test_a_process_that_stores_nothing_any_more_is_silent() -> None:
    stored = LastStored()
    assert HealthReport(stored).of({}, is_stopping=False, stored_as="lastTick").is_healthy
    late = HealthReport(stored, silent_after=timedelta()).of(
        {"busy": 2}, is_stopping=False, stored_as="lastTick"
    )
    assert not late.is_healthy
    assert (late.document["status"], late.document["busy"]) == ("silent", 2)
    assert late.document["lastTick"].endswith("Z")
    stopping = HealthReport(stored).of({}, is_stopping=True, stored_as="lastTick")
    assert (stopping.is_healthy, stopping.document["status"]) == (False, "stopping")
