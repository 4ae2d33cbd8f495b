"""Reports the ends of Celery tasks to the callback URLs of the steps that wait for them.

The user's Celery workers call `install(app)` once. It imports nothing of Celery: these workers have a version
of their own.
"""

from __future__ import annotations

from typing import Any

import orjson
import urllib3

from pipeweave.json_conversion import to_json_value
from pipeweave.safe_text import safe_text

# Names of the two tasks that `install` adds.
REPORT, REPORT_ERROR = "pipeweave.report", "pipeweave.report_error"

ANSWER_WITHIN_S = 10.0
# A report that does not arrive is sent again after 1, 2, 4 … seconds, at most every two minutes: for an hour.
TRIES, MAX_PAUSE_S = 36, 120
MAX_ERROR_CHARS = 4_000
# The report has come, it has come before, or nobody waits for it any more.
_SETTLED = frozenset({200, 202, 404, 409, 410})
_REFUSED = frozenset({400, 413, 415, 422})


def install(app: Any) -> None:
    """Let the workers of a Celery application report the results that steps of PipeWeave wait for.

    Args:
        app: the application (`Celery`), before its workers start.
    """
    report = app.task(
        name=REPORT,
        shared=False,
        ignore_result=True,
        autoretry_for=(ReportUndelivered,),
        retry_backoff=1,
        retry_backoff_max=MAX_PAUSE_S,
        max_retries=TRIES,
    )(_report)

    def report_error(request: Any, exc: Any, traceback: Any, url: str) -> None:
        """An errback: called where the task failed, so it sends nothing itself."""
        failed = _failed(safe_text(str, exc), type(exc).__name__)
        report.apply_async((failed,), {"url": url, "is_report": True}, kwargsrepr="{…}")

    app.task(name=REPORT_ERROR, shared=False, ignore_result=True)(report_error)


class ReportUndelivered(Exception):
    """The API did not take the report of a Celery task. Its text names no URL."""


def _report(value: Any, url: str, is_report: bool = False) -> None:
    """POST the result of a task, or a report, until it is taken."""
    body = value if is_report else _completed(value)
    status = _post(url, body)
    if status in _REFUSED and not is_report:
        # It will not be taken at another time either: too large, say.
        status = _post(url, _failed(f"the API refused the result of the Celery task: {status}"))
    if status not in _SETTLED:
        raise ReportUndelivered(f"it answered {status}")


def _completed(value: Any) -> dict[str, Any]:
    result, faults = to_json_value(value)
    if faults:
        return _failed(f"the result of the Celery task is not JSON: {faults[0].sentence()}")
    return {"status": "completed", "result": result}


def _failed(message: str, type: str = "") -> dict[str, Any]:
    return {"status": "failed", "error": {"message": message[:MAX_ERROR_CHARS], "type": type}}


def _post(url: str, body: Any) -> int:
    try:
        answer = urllib3.request(
            "POST",
            url,
            body=orjson.dumps(body),
            headers={"content-type": "application/json"},
            timeout=ANSWER_WITHIN_S,
            retries=False,
            redirect=False,
        )
    except (urllib3.exceptions.HTTPError, OSError) as error:
        # The texts of these errors hold the URL.
        raise ReportUndelivered(type(error).__name__) from None
    return answer.status
