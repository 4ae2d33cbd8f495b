"""The adapters `webhook`, `storage` and `log`, called as a worker calls them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.actions import TASK_RUN, access, call
from support.stub_http_server import Served

from pipeweave import Suspend
from pipeweave.adapters import LogAdapter, StorageAdapter, WebhookAdapter
from pipeweave.errors import InvalidAsyncResult, InvalidParams, InvalidSetting, TaskError
from pipeweave.workers.consumer.deployment_access import DeploymentAccess


def test_a_notification_is_posted_as_json_with_a_key_that_all_attempts_share(
    here: DeploymentAccess, served: Served
) -> None:
    served.put("POST /told", (204, b""))
    assert call(WebhookAdapter.send, here, url=f"{served.url}/told", data={"n": 1}).output == {"status": 204}
    [(_, headers, body)] = served.asked
    assert (body, headers["idempotency-key"]) == ({"n": 1}, TASK_RUN)


def test_a_step_is_handed_over_with_the_url_that_takes_its_result(
    here: DeploymentAccess, served: Served
) -> None:
    served.put("POST /webhook/scan", (200, {"message": "Workflow was started"}))
    result = call(WebhookAdapter.hand_off, here, url=f"{served.url}/webhook/scan", data=[1], wait="2d")
    assert result.suspend == Suspend.callback(timeout="2d")
    [(_, _, body)] = served.asked
    assert body["callbackUrl"] == "http://api/api/callbacks/token"
    assert (body["data"], body["attempt"]) == ([1], 1)
    assert body.keys() == {"callbackUrl", "data", "runId", "pipelineId", "stepId", "attempt"}


def test_a_step_that_nobody_takes_over_fails_and_does_not_wait(
    here: DeploymentAccess, served: Served
) -> None:
    with pytest.raises(TaskError) as failed:
        call(WebhookAdapter.hand_off, here, url=f"{served.url}/gone")
    assert failed.value.task_code == "HTTP_404"
    with pytest.raises(InvalidAsyncResult):
        call(WebhookAdapter.hand_off, here, url=f"{served.url}/gone", wait="never")


def test_a_value_is_read_under_the_name_that_it_was_stored_under(here: DeploymentAccess) -> None:
    assert call(StorageAdapter.get, here, name="last/day").output is None
    assert call(StorageAdapter.get, here, name="last/day", default=0).output == 0
    stored = call(StorageAdapter.put, here, name="last/day", value={"rows": 3})
    assert stored.output == {"name": "last/day", "size": 10}
    assert call(StorageAdapter.get, here, name="last/day", default=0).output == {"rows": 3}
    assert call(StorageAdapter.delete, here, name="last/day").output["wasThere"]
    assert not call(StorageAdapter.delete, here, name="last/day").output["wasThere"]


def test_names_are_listed_page_by_page(here: DeploymentAccess) -> None:
    for name in ("a", "day/1", "day/2", "day/3"):
        call(StorageAdapter.put, here, name=name, value=name)
    page = call(StorageAdapter.list, here, prefix="day/", limit=2).output
    assert [each["name"] for each in page["values"]] == ["day/1", "day/2"]
    rest = call(StorageAdapter.list, here, prefix="day/", after=page["next"], limit=2).output
    assert ([each["name"] for each in rest["values"]], rest["next"]) == (["day/3"], None)


def test_a_tenant_reads_its_own_values_alone(here: DeploymentAccess) -> None:
    call(StorageAdapter.put, here, name="a", value=1)
    assert here.named_values("acme").get("a") == b"1"
    assert here.named_values("other").get("a") is None


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "..", "a/../b", ".", "a b", "a\0", "ä", "x" * 201])
def test_a_name_that_could_lead_elsewhere_is_refused(here: DeploymentAccess, name: str) -> None:
    for action in (StorageAdapter.put, StorageAdapter.get, StorageAdapter.delete):
        with pytest.raises(InvalidParams):
            call(action, here, name=name)


@pytest.mark.parametrize("params", [{"prefix": "../"}, {"prefix": "a//"}, {"limit": 0}, {"limit": 1_001}])
def test_a_list_of_what_cannot_be_is_refused(here: DeploymentAccess, params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        call(StorageAdapter.list, here, **params)


def test_a_value_that_is_too_large_is_refused_before_it_is_stored(here: DeploymentAccess) -> None:
    with pytest.raises(TaskError) as failed:
        call(StorageAdapter.put, here, name="a", value="x" * 10_000_000)
    assert failed.value.task_code == "OBJECT_TOO_LARGE"
    assert call(StorageAdapter.get, here, name="a").output is None


def test_only_a_worker_with_a_deployment_has_named_values() -> None:
    with pytest.raises(InvalidSetting):
        call(StorageAdapter.get, None, name="a")


def test_a_line_is_logged_and_returned(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG):
        params = {"message": "100 % of %s", "level": "warning", "fields": {"name": "ann", "rows": 3}}
        assert call(LogAdapter.write, access(tmp_path), **params).output == params
    [record] = [each for each in caplog.records if each.name == "pipeweave.task.log.write"]
    assert (record.getMessage(), record.levelname) == ("100 % of %s", "WARNING")
    assert vars(record)["rows"] == 3
