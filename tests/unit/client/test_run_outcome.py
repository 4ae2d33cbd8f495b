"""What a run says about its end, and how `wait` raises it."""

from __future__ import annotations

from typing import Any

import pytest
from support.stub_http_server import Served

from pipeweave import Client, errors
from pipeweave.client import Run, RunError


def failed_step(step: str, code: str = "CARD_DECLINED", **more: Any) -> dict[str, Any]:
    error = {"code": code, "message": f"{step} went wrong"}
    return {"stepId": step, "status": "failed", "errorCode": code, "error": error, **more}


def run(status: str, *task_runs: dict[str, Any], **more: Any) -> Run:
    return Run("prun_1", "report", status, {"id": "prun_1", "status": status, "taskRuns": task_runs, **more})


def test_the_error_of_a_run_is_that_of_its_first_failed_step() -> None:
    ended = run("failed", {"stepId": "list", "status": "completed"}, failed_step("charge"), failed_step("b"))
    assert ended.error == RunError("CARD_DECLINED", "charge went wrong", "charge")
    assert ended.failed_steps == ("charge", "b")


def test_a_time_limit_of_the_run_is_its_error() -> None:
    timeout = {"code": "RUN_TIMEOUT", "message": "the run took too long"}
    ended = run("failed", {"stepId": "a", "status": "cancelled"}, error=timeout, errorCode="RUN_TIMEOUT")
    assert ended.error == RunError("RUN_TIMEOUT", "the run took too long")


def test_a_failure_that_ended_the_run_names_its_step() -> None:
    step = failed_step("charge")
    ended = run("failed", step, error=step["error"], errorCode=step["errorCode"])
    assert ended.error == RunError("CARD_DECLINED", "charge went wrong", "charge")


@pytest.mark.parametrize("status", ["completed", "running", "pending"])
def test_a_run_that_is_well_is_handed_back(status: str) -> None:
    assert run(status).checked().status == status
    assert run(status).error is None


@pytest.mark.parametrize("status", ["failed", "partial", "cancelled"])
def test_wait_raises_when_asked(served: Served, status: str) -> None:
    document = {**run(status, failed_step("charge"), failed_step("ship")).document}
    served.put("GET /api/runs/prun_1", (200, document))
    with Client(served.url, "t") as client:
        assert client.wait("prun_1").status == status
        with pytest.raises(errors.RunFailed) as caught:
            client.wait(client.run("prun_1"), check=True)
    error = caught.value
    assert (error.run_id, error.run_status, error.run_code) == ("prun_1", status, "CARD_DECLINED")
    assert error.failed_steps == ("charge", "ship")
    assert str(error) == (
        f"run prun_1 ended {status}: step charge: CARD_DECLINED: charge went wrong (also failed: ship)"
    )


def test_a_client_without_a_tenant_sends_no_header(served: Served) -> None:
    served.put("GET /api/info", (200, {"version": "1"}))
    with Client(served.url, "t") as client:
        client.info()
    assert "X-Tenant" not in served.asked[0][1]
