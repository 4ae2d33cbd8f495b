"""The limit of the whole deployment, over HTTP: for administrators of all tenants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pipeweave.orchestrator.security.access_tokens import ADMIN, EVERY_TENANT

if TYPE_CHECKING:
    from conftest import Api, Tokens

PATH = "/api/deployment/limit"


@pytest.fixture
def operator(api: Api, tokens: Tokens) -> Iterator[Api]:
    caller = replace(api, token=tokens.make(ADMIN, tenants=(EVERY_TENANT,)))
    yield caller
    caller.put(PATH, {"maxRunningTaskRuns": None})


def test_it_is_set_shown_and_in_the_audit(operator: Api) -> None:
    assert operator.get(PATH).json["maxRunningTaskRuns"] is None
    assert operator.put(PATH, {"maxRunningTaskRuns": 1000}).json["maxRunningTaskRuns"] == 1000
    shown = operator.get(PATH).json
    assert (shown["maxRunningTaskRuns"], shown["runningTaskRuns"] >= 0) == (1000, True)
    [row] = operator.get("/api/audit", verb="deployment.put_limit", limit=1).json["entries"]
    assert row["after"]["maxRunningTaskRuns"] == 1000


@pytest.mark.parametrize("wrong", [0, 1_000_001, "30", 1.5])
def test_a_wrong_limit_is_refused(operator: Api, wrong: object) -> None:
    answer = operator.put(PATH, {"maxRunningTaskRuns": wrong})
    assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "maxRunningTaskRuns")


def test_an_administrator_of_a_tenant_may_not(api: Api, tokens: Tokens) -> None:
    caller = replace(api, token=tokens.make(ADMIN))
    assert caller.get(PATH).status_code == 403
    assert caller.put(PATH, {"maxRunningTaskRuns": 5}).status_code == 403
