"""Reports on suspended calls over HTTP: by whoever has the URL, once, and never by a look at it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from support.run_driver import RunDriver, header
from support.suspended_runs import ONE_RETRY, SuspendedRuns

from pipeweave import Suspend, callback_tokens, ids
from pipeweave.api.serve import redacted
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits import callback_urls

if TYPE_CHECKING:
    from conftest import Api

_numbers = itertools.count(1)


@pytest.fixture
def runs(deployment: Deployment) -> Iterator[SuspendedRuns]:
    """Of a tenant of this test alone."""
    database = Database(deployment.database.url, react=reactions_to)
    yield SuspendedRuns(RunDriver(database, f"suspended-{next(_numbers)}"))
    database.dispose()


@pytest.fixture
def ann(runs: SuspendedRuns, api: Api) -> Api:
    """The API as somebody of the tenant asks it."""
    with runs.driver.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="ann", tenants=[runs.driver.tenant], scopes=(READ, WRITE))
    return type(api)(api.http, token, runs.driver.tenant)


@pytest.fixture
def url(runs: SuspendedRuns, deployment: Deployment) -> Any:
    """Gives the path of the callback of a run's step."""

    def path_of(run_id: UUID, attempt: int = 1, lives: timedelta | None = None) -> str:
        id, secret = ids.task_run_id(run_id, 1), str(deployment.settings.secret_key)
        if lives is not None:
            token = callback_tokens.make(secret, id, attempt, deployment.database.now() + lives)
            return f"{callback_tokens.PATH}{token}"
        with runs.driver.database.transaction() as tx:
            run = header(tx, run_id)
        [task_run] = [each for each in [runs.task_run(run_id)] if each.attempt == attempt]
        return callback_urls.path_of(deployment.settings, run, task_run, deployment.database.now())

    return path_of


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def test_a_report_needs_nothing_but_its_url(runs: SuspendedRuns, api: Api, url: Any) -> None:
    run_id = runs.begin()
    path = url(run_id)
    answer = api.http.post(path, json={"status": "completed", "result": {"score": 3}})
    assert (answer.status_code, answer.json) == (202, {"isRepeated": False})
    assert "Set-Cookie" not in answer.headers
    assert runs.row(run_id).output == {"score": 3}
    again = api.http.post(path, json={"result": {"score": 3}, "status": "completed"})
    assert (again.status_code, again.json) == (200, {"isRepeated": True})
    assert problem(api.http.post(path, json=7)) == (409, "CALLBACK_TAKEN")


@pytest.mark.parametrize(("body", "output"), [(b"", None), (b"null", None), (b'"x"', "x"), (b"[1]", [1])])
def test_any_json_is_a_result_and_so_is_nothing(
    runs: SuspendedRuns, api: Api, url: Any, body: bytes, output: Any
) -> None:
    run_id = runs.begin()
    assert api.http.post(url(run_id), data=body).status_code == 202
    assert (runs.row(run_id).status, runs.row(run_id).output) == ("completed", output)


def test_a_look_at_the_url_changes_nothing(runs: SuspendedRuns, api: Api, url: Any) -> None:
    run_id = runs.begin()
    for look in (api.http.get, api.http.head, api.http.put, api.http.delete):
        assert look(url(run_id)).status_code == 405
    api.http.options(url(run_id))
    assert runs.row(run_id).status == "waiting"


def test_a_forged_url_says_no_more_than_one_that_never_was(runs: SuspendedRuns, api: Api, url: Any) -> None:
    run_id = runs.begin()
    path = url(run_id)
    other = url(runs.begin())
    forged = [
        f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}",
        path.replace(".1.", ".2."),
        f"{path.rpartition('.')[0]}.{other.rpartition('.')[2]}",
        "/api/callbacks/nothing",
    ]
    for each in forged:
        answer = api.http.post(each, data=b"no JSON")
        assert (problem(answer), answer.json["detail"]) == ((404, "NOT_FOUND"), "there is no such callback")
    assert runs.row(run_id).status == "waiting"


def test_an_expired_url_is_gone(runs: SuspendedRuns, api: Api, url: Any) -> None:
    run_id = runs.trigger()
    runs.claim(run_id)
    path = url(run_id, lives=timedelta(seconds=-2))
    assert problem(api.http.post(path, json=1)) == (410, "CALLBACK_EXPIRED")


def test_the_url_of_an_attempt_that_is_over_is_refused(runs: SuspendedRuns, api: Api, url: Any) -> None:
    run_id = runs.begin(step={"retry": ONE_RETRY})
    path = url(run_id)
    failed = {"status": "failed", "error": "no money"}
    assert api.http.post(path, json=failed).status_code == 202
    assert (runs.row(run_id).status, runs.row(run_id).attempt) == ("pending", 2)
    assert problem(api.http.post(path, json=7)) == (409, "CALLBACK_TAKEN")
    assert api.http.post(path, json=failed).status_code == 200
    next_path = url(run_id, attempt=2)
    early = api.http.post(next_path, json=7)
    assert problem(early) == (409, "WAIT_OVER")
    assert early.json["taskRunStatus"] == "pending"


@pytest.mark.parametrize(("body", "status"), [(b"no JSON", 400), (b'"' + b"x" * 1_000_001 + b'"', 413)])
def test_what_cannot_be_stored_is_refused(
    runs: SuspendedRuns, api: Api, url: Any, body: bytes, status: int
) -> None:
    run_id = runs.begin()
    assert api.http.post(url(run_id), data=body).status_code == status
    assert runs.row(run_id).status == "waiting"


def test_the_token_is_in_no_log_and_no_answer(
    runs: SuspendedRuns, ann: Api, api: Api, url: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    run_id = runs.begin()
    path = url(run_id)
    token = path.removeprefix(callback_tokens.PATH)
    api.http.post(path, json=7)
    signature = token.rpartition(".")[2]
    assert signature not in caplog.text
    assert redacted(path) == "/api/callbacks/***"
    shown = ids.show(ids.RUN, run_id)
    for asked in (f"/api/runs/{shown}", f"/api/runs/{shown}/events", f"/api/runs/{shown}/signals"):
        assert signature not in ann.get(asked).text


def test_people_see_what_is_waited_for(runs: SuspendedRuns, ann: Api) -> None:
    called, polled = runs.begin(), runs.begin(Suspend.poll("https://jobs.example/7?key=secret"))
    listed = {each["kind"]: each for each in ann.get("/api/waits").json["waits"]}
    assert (listed["poll"]["tries"], listed["poll"]["maxTries"]) == (0, 60)
    for run_id, code in ((called, "waits_for_callback"), (polled, "polls")):
        shown = ids.show(ids.RUN, run_id)
        said = ann.get(f"/api/runs/{shown}/why")
        assert code in said.text
        assert "secret" not in said.text


def test_somebody_may_give_the_result_by_hand(runs: SuspendedRuns, ann: Api, api: Api, url: Any) -> None:
    run_id = runs.begin()
    wait = ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 1))
    assert ann.post(f"/api/waits/{wait}/resolve", {"output": 5}).status_code == 200
    assert problem(api.http.post(url(run_id), json=7)) == (409, "WAIT_OVER")
