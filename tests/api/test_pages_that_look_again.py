"""What a page costs that looks again: only what has changed on it is made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from support.counted_calls import counted_calls
from support.run_driver import RunDriver

from pipeweave.api.ui.live_views import FRAGMENT, READ_AT, moment
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ

if TYPE_CHECKING:
    from conftest import Api, Tokens

RUNS = 20


def looked(api: Api, path: str) -> Counter[str]:
    """The calls in the template of the rows, of a page that wants nothing older than now."""
    headers = {**api.headers, FRAGMENT: "1", READ_AT: f"{moment() + 0.001:.6f}"}
    with counted_calls() as calls:
        answer = api.http.get(f"/ui/{api.tenant}{path}", headers=headers)
    assert answer.status_code == 200, answer.text
    return Counter({name: number for name, number in calls.items() if "run_table.html" in name})


def test_a_list_that_looks_again_makes_only_the_rows_that_changed(
    api: Api, tokens: Tokens, deployment: Deployment
) -> None:
    driver = RunDriver(deployment.database)
    driver.store({"a": []}, id="listed")
    for _ in range(RUNS):
        driver.trigger("listed")
    api.token, api.tenant = tokens.make(READ, tenants=(driver.tenant,)), driver.tenant
    first = looked(api, "/runs").total()
    driver.trigger("listed")
    assert 0 < looked(api, "/runs").total() < first / 3
