"""Secrets of a source with hosts are for the requests of our actions to these hosts alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.actions import access, call
from support.stub_http_server import Served

from pipeweave import task
from pipeweave.adapters import HttpAdapter, StorageAdapter, WebhookAdapter
from pipeweave.authoring import Task
from pipeweave.authoring.secret_means import SecretReferences
from pipeweave.errors import SecretDenied, SecretNotFound
from pipeweave.secrets import AttemptSecrets
from pipeweave.spec import references
from pipeweave.workers.consumer import secret_params
from pipeweave.workers.consumer.deployment_access import DeploymentAccess

VALUE, OPEN = "0123456789abcdef", "https://rates.example/hooks"
HEADERS = {"Authorization": "Bearer ${secret.rates}"}
OURS: list[Task[..., Any]] = [HttpAdapter.request, WebhookAdapter.send, WebhookAdapter.hand_off]


@pytest.fixture
def here(tmp_path: Path) -> DeploymentAccess:
    """A secret for two hosts, and one for any use."""
    for folder, name, value in (("bound", "rates", VALUE), ("free", "url", OPEN)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(value)
    source = {"provider": "file", "tenants": ["*"]}
    bound = {**source, "path": str(tmp_path / "bound"), "hosts": ["127.0.0.1", "rates.example"]}
    free = {**source, "path": str(tmp_path / "free")}
    return access(tmp_path, "loopback", secrets=(bound, free))


def filled(secrets: AttemptSecrets, action: Task[..., Any] | None, params: dict[str, Any]) -> Any:
    def resolve(part: Any, values: Any) -> Any:
        return references.resolve(part, input={"host": "rates.example"}, steps={}, scope={"secret": values})

    return secret_params.resolved(action, params, secrets, resolve)


def test_a_header_has_the_secret_and_nothing_shows_it(here: DeploymentAccess, served: Served) -> None:
    served.put("GET /a", (200, {}))
    secrets = here.secrets_of("acme")
    params = filled(secrets, HttpAdapter.request, {"url": f"{served.url}/a", "headers": HEADERS})
    call(HttpAdapter.request, here, **params)
    assert served.asked[0][1]["authorization"] == f"Bearer {VALUE}"
    assert secrets.masks.text(f"got {VALUE}") == "got ***"


@pytest.mark.parametrize("action", OURS, ids=lambda each: each.id)
@pytest.mark.parametrize(
    "url",
    ["https://rates.example/a", "https://RATES.example:8443", "https://${input.host}/a", "${secret.url}"],
)
def test_the_hosts_of_its_source_get_it(here: DeploymentAccess, action: Task[..., Any], url: str) -> None:
    params = filled(here.secrets_of("acme"), action, {"url": url, "headers": HEADERS})
    assert params["headers"]["Authorization"] == f"Bearer {VALUE}"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://evil.example/a",
            "https://rates.example.evil.example",
            "https://rates.example@evil.example",
        ),
        *("https://evil.example?https://rates.example", "https://[", "", 7, None, "https://${secret.rates}"),
    ],
)
def test_no_other_host_gets_it(here: DeploymentAccess, url: Any) -> None:
    with pytest.raises(SecretDenied) as refused:
        filled(here.secrets_of("acme"), HttpAdapter.request, {"url": url, "headers": HEADERS})
    assert VALUE not in f"{refused.value} {refused.value.hint}"


def test_no_other_task_gets_it_whatever_it_is_called(here: DeploymentAccess) -> None:
    @task(id="http.request")
    def mine(url: str, headers: dict[str, str]) -> None: ...

    params = {"url": "https://rates.example", "headers": HEADERS}
    for other in (mine, StorageAdapter.put, None):
        with pytest.raises(SecretDenied, match="may not be read by a task"):
            filled(here.secrets_of("acme"), other, params)
    with pytest.raises(SecretDenied):
        here.secrets_of("acme").get("rates")


def test_a_name_that_no_source_has_is_not_found(here: DeploymentAccess) -> None:
    params = {"url": "https://rates.example", "headers": {"Authorization": "${secret.none}"}}
    with pytest.raises(SecretNotFound):
        filled(here.secrets_of("acme"), HttpAdapter.request, params)


def test_a_key_has_the_reference_in_place_of_the_secret() -> None:
    resolve = partial(references.resolve, input=None, steps={})
    params = {"url": "https://a.example", "headers": HEADERS}
    made = secret_params.resolved(
        HttpAdapter.request,
        params,
        SecretReferences(),
        lambda part, values: resolve(part, scope={"secret": values}),
    )
    assert made == params
