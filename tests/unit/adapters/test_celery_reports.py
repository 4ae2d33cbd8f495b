"""What a Celery worker reports to a callback URL, and how often it tries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from celery import Celery
from support.stub_http_server import Served

from pipeweave.adapters import celery_reports
from pipeweave.adapters.celery_reports import REPORT, REPORT_ERROR, ReportUndelivered
from pipeweave.up.ports import free_port


@pytest.fixture
def app() -> Celery:
    """An application that runs its tasks where they are sent, with the reports installed."""
    own = Celery("shop", set_as_current=False)
    own.conf.update(task_always_eager=True, task_eager_propagates=True)
    celery_reports.install(own)
    return own


@pytest.mark.parametrize("status", [200, 202, 404, 409, 410])
def test_a_result_is_reported_once_whoever_else_has_reported(
    app: Celery, served: Served, status: int
) -> None:
    served.put("POST /callback", (status, {}))
    result = {"at": datetime(2026, 1, 2, tzinfo=UTC)}
    app.tasks[REPORT].apply_async((result,), {"url": f"{served.url}/callback"})
    [(_, _, body)] = served.asked
    assert body == {"status": "completed", "result": {"at": "2026-01-02T00:00:00Z"}}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_report_that_is_not_taken_is_tried_again(served: Served, status: int) -> None:
    served.put("POST /callback", (status, {}))
    with pytest.raises(ReportUndelivered) as undelivered:
        celery_reports._report(1, f"{served.url}/callback")
    assert str(undelivered.value) == f"it answered {status}"


def test_no_error_names_the_url_of_a_callback() -> None:
    with pytest.raises(ReportUndelivered) as undelivered:
        celery_reports._report(1, f"http://127.0.0.1:{free_port()}/secret")
    assert "secret" not in str(undelivered.value)
    assert undelivered.value.__cause__ is None


def test_a_result_that_is_never_taken_becomes_a_failure(served: Served) -> None:
    served.put("POST /callback", (413, {}), (202, {}))
    celery_reports._report("x", f"{served.url}/callback")
    assert served.asked[1][2]["status"] == "failed"
    assert "413" in served.asked[1][2]["error"]["message"]


def test_a_result_that_is_no_json_is_reported_as_a_failure(served: Served) -> None:
    served.put("POST /callback", (202, {}))
    celery_reports._report(object(), f"{served.url}/callback")
    assert "is not JSON" in served.asked[0][2]["error"]["message"]


def test_a_failure_is_reported_with_its_text_by_a_message_of_its_own(app: Celery, served: Served) -> None:
    served.put("POST /callback", (202, {}))
    app.tasks[REPORT_ERROR].run(None, ValueError("no paper"), None, url=f"{served.url}/callback")
    assert served.asked[0][2] == {"status": "failed", "error": {"message": "no paper", "type": "ValueError"}}
