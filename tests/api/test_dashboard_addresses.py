"""Whatever stands in an address of the dashboard, a page answers: of the table of screens and of verbs, each
parameter that a screen reads is given what it does not expect.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from support.api_samples import TENANT
from support.factories import register

from pipeweave.api.ui import SCREENS, dashboard
from pipeweave.api.ui.verbs import VERBS
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security import ADMIN, READ, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens
    from flask import Flask

MARKUP = "<script>alert(1)</script>\"'&{{7*7}}"
ODD = (
    MARKUP,
    "-1",
    "9" * 30,
    "1e309",
    "nan",
    "²",  # a digit, and no number
    "\0\r\n\t\x1b[31m",
    "2026-13-45T99:99:99Z",
    "9999-12-31T23:59:59-14:00",
    '{"a": [',
    "x" * 2_000,
    "\u202ertl\ufeff\U0001f600",
    "../../etc",
    "%00%ff",
    "prun_" + "z" * 26,
    "a=b=c",
)
# What no encoder makes: bytes that are no text.
NO_TEXT = "%ff%fe%ed%a0%80"


_numbers = itertools.count(1)


def test_an_error_keeps_the_navigation_for_those_who_are_in(api: Api) -> None:
    found = api.http.get(f"/ui/{api.tenant}/nowhere", headers={"Authorization": f"Bearer {api.token}"})
    assert found.status_code == 404
    assert 'aria-label="Screens"' in found.text
    foreign = api.http.get("/ui/foreign/nowhere", headers={"Authorization": f"Bearer {api.token}"})
    assert foreign.status_code == 404
    assert 'aria-label="Screens"' not in foreign.text


def test_the_page_of_parts_is_not_there_unless_a_setting_asks_for_it(api: Api) -> None:
    found = api.http.get(f"/ui/{api.tenant}/parts", headers={"Authorization": f"Bearer {api.token}"})
    assert found.status_code == 404


class Read(dict[str, Any]):
    """Parameters of an address, which notes the names that a screen looks for."""

    names: set[str]

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.names.add(key)
        return super().__getitem__(key)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of all parameters that were looked for."""
    found: set[str] = set()
    make = dashboard.View

    def noting(inside: Any, caller: Any, path: str, given: Any, lists: Any, *rest: Any, **more: Any) -> Any:
        read = Read(given), Read(lists)
        for each in read:
            each.names = found
        return make(inside, caller, path, *read, *rest, **more)

    monkeypatch.setattr(dashboard, "View", noting)
    return found


@pytest.fixture
def person(app: Flask, api: Api, tokens: Tokens) -> Api:
    """Somebody who may do everything in the tenant."""
    return type(api)(app.test_client(), tokens.make(READ, WRITE, ADMIN))


@pytest.fixture
def known(api: Api, run_id: str) -> dict[str, str]:
    """Kind of screen -> an id that is there. The task run is standalone: that of a step leads to its run."""
    alone = api.post("/api/queue/task", {"taskId": "count", "input": {"path": "a"}}).json["runId"]
    return {
        "runs": run_id,
        "task-runs": alone,
        "pipelines": "files",
        "tasks": "count",
        "compare": run_id,
        "export": "runs",
        "tenants": TENANT,
    }


def path_of(screen: str, known: dict[str, str]) -> str:
    """The path of a screen with ids that are there, as far as some are."""
    id = known.get(screen.split("/")[1], "nothing")
    for part in ("<id>", "<left>", "<right>"):
        screen = screen.replace(part, id)
    return screen.replace("<step>", "count")


def ask(person: Api, path: str) -> str:
    """The page of an address below the tenant; it answers, and what was given stays text."""
    answer = person.get(f"/ui/{TENANT}{path}")
    assert answer.status_code < 500, f"{answer.status_code} at {path}"
    page = answer.get_data(as_text=True)
    assert "<script>alert" not in page, path
    assert "Traceback (most recent" not in page, path
    return page


def queries(names: list[str], turn: int) -> Iterator[str]:
    """Each parameter with something odd, alone; and all of them at once."""
    for number, name in enumerate(names):
        yield urlencode({name: ODD[(number + turn) % len(ODD)]})
    yield urlencode({name: ODD[turn % len(ODD)] for name in names})
    yield "&".join(f"{name}={NO_TEXT}" for name in names)
    yield urlencode([(name, value) for name in names[:5] for value in ODD[:4]])


TABS = {
    "/runs/<id>": ("graph", "timeline", "steps", "events", "data", "log", "attempts", "why"),
    "/task-runs/<id>": ("events", "data", "log", "attempts", "why"),
    "/pipelines/<id>": ("graph", "grid", "runs", "versions", "statistics", "trigger"),
}


@pytest.mark.parametrize("screen", [each.path for each in SCREENS])
def test_a_screen_answers_whatever_its_address_says(
    person: Api, names: set[str], known: dict[str, str], screen: str
) -> None:
    path = path_of(screen, known)
    for turn, tab in enumerate(TABS.get(screen, ("",))):
        place = f"{path}?tab={tab}" if tab else f"{path}?"
        ask(person, place)
        for query in queries(sorted(names - {"tab"}), turn * 5):
            ask(person, f"{place}&{query}")
    ask(person, f"{path}?{urlencode({'tab': MARKUP})}")


@pytest.mark.parametrize("screen", [each.path for each in SCREENS if "<" in each.path])
def test_an_id_may_be_anything(person: Api, screen: str) -> None:
    for odd in ODD:
        given = quote(odd, safe="").replace(".", "%2E")
        path = screen
        for part in ("<id>", "<left>", "<right>", "<step>"):
            path = path.replace(part, given)
        ask(person, path)


@pytest.mark.parametrize("name", sorted(VERBS.rows))
def test_the_question_of_a_verb_answers_whatever_its_address_says(
    person: Api, names: set[str], known: dict[str, str], name: str
) -> None:
    for id in (known["pipelines"], known["runs"]):
        ask(person, f"/do/{name}?id={id}")
    wanted = {each.name for each in VERBS.rows[name].fields} | names
    for query in queries(sorted(wanted - {"id"}), len(name)):
        ask(person, f"/do/{name}?id={id}&{query}")
    ask(person, f"/do/{name}?{urlencode({'id': MARKUP, 'next': 'https://elsewhere.example/'})}")


@pytest.fixture
def apart(app: Flask, api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """An administrator of a tenant of this test's own, in which there is something to change."""
    tenant = f"posted-{next(_numbers)}"
    with deployment.database.transaction() as tx:
        register(tx, tenant, "count")
    made = type(api)(app.test_client(), tokens.make(READ, WRITE, ADMIN, tenants=(tenant,)), tenant)
    made.put("/api/pipelines/files", {"steps": [{"id": "count", "task": "count"}]})
    return made


@pytest.mark.parametrize("name", sorted(VERBS.rows))
def test_a_verb_answers_whatever_its_form_says(apart: Api, name: str) -> None:
    run = apart.post("/api/pipelines/files/trigger", {"input": {}}).json["pipelineRunId"]
    fields = [each.name for each in VERBS.rows[name].fields]
    forms: list[dict[str, str]] = [{} for _ in range(4)]
    forms += [{each: odd} for number, each in enumerate(fields) for odd in ODD[number % 5 :: 5]]
    forms += [dict.fromkeys(fields, odd) for odd in ODD[len(name) % 3 :: 3]]
    for form, id in zip(forms, itertools.cycle((run, "files", "count", MARKUP))):
        given = {"id": id, "next": "//elsewhere.example/", **form}
        answer = apart.http.post(f"/ui/{apart.tenant}/do/{name}", data=given, headers=apart.headers)
        assert answer.status_code < 500, f"{answer.status_code} of {given}"
        assert "elsewhere.example" not in answer.headers.get("Location", "")
        assert "<script>alert" not in answer.get_data(as_text=True)


def test_a_tenant_may_be_anything(person: Api) -> None:
    for odd in ODD:
        answer = person.get(f"/ui/{quote(odd, safe='')}/runs")
        assert answer.status_code < 500, odd
        assert "<script>alert" not in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/runs?pipeline=files", "did you mean &#39;pipelineId&#39;?"),
        ("/dead-letters?task=count", "did you mean &#39;taskId&#39;?"),
        ("/audit?verbs=tasks.pause", "did you mean &#39;verb&#39;?"),
        ("/schedules?pipeline=files", "did you mean &#39;pipelineId&#39;?"),
        ("/task-runs?task=count", "did you mean &#39;taskId&#39;?"),
        ("/workers?services=python", "did you mean &#39;service&#39;?"),
        ("/queues?task=count", "did you mean &#39;taskId&#39;?"),
        ("/enqueued?state=refused", "did you mean &#39;status&#39;?"),
    ],
)
def test_a_filter_that_a_list_does_not_have_is_refused(address: str, said: str, person: Api) -> None:
    answer = person.get(f"/ui/{TENANT}{address}")
    assert answer.status_code == 400
    assert said in answer.get_data(as_text=True)


def test_the_data_of_a_run_whose_input_lies_in_storage_are_told(person: Api, pipeline: str) -> None:
    given = {"input": {"text": "x" * 60_000}}
    run = person.post(f"/api/pipelines/{pipeline}/trigger", given).json["pipelineRunId"]
    answer = person.get(f"/ui/{TENANT}/runs/{run}?tab=data")
    assert answer.status_code == 200
    assert "Stored at" in answer.get_data(as_text=True)
