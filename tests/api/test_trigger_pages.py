"""The page of a trigger: how something is delivered to it, what came of it, and what may be done about it."""

from __future__ import annotations

import itertools
import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from support.api_samples import SERVICE, SPEC

from pipeweave import webhooks
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.spec.document import parse_spec

if TYPE_CHECKING:
    from conftest import Api, Tokens

_numbers = itertools.count(1)
SECRET = "s" * 40


@pytest.fixture
def api(api: Api, tokens: Tokens, deployment: Deployment) -> Api:
    """May read and write in a tenant of its own, which has the webhook `orders`."""
    api.tenant = f"trigger-pages-{next(_numbers)}"
    api.token = tokens.make(READ, WRITE, tenants=(api.tenant,))
    with deployment.database.transaction() as tx:
        service_registration.register(tx, api.tenant, SERVICE)
        pipelines.store(tx, api.tenant, parse_spec(SPEC, id="files"), source="api")
    put(api, "orders", kind="webhook", secret=SECRET)
    return api


def put(api: Api, id: str, **body: Any) -> None:
    assert api.put(f"/api/triggers/{id}", {"pipelineId": "files", **body}).status_code == 201


def page(api: Api, path: str, status: int = 200) -> str:
    answer = api.get(f"/ui/{api.tenant}{path}")
    assert answer.status_code == status
    return unescape(answer.get_data(as_text=True))


def do(api: Api, verb: str, status: int = 303, **form: str) -> Any:
    answer = api.http.post(f"/ui/{api.tenant}/do/{verb}", data=form, headers=api.headers)
    assert answer.status_code == status
    return answer


def deliver(api: Api, secret: str = SECRET) -> str:
    """Deliver to `orders`; the run that it started."""
    content = b'{"id": 7}'
    at = int(api.http.application.extensions["pipeweave"].database.now().timestamp())
    signed = {webhooks.HEADER: webhooks.sign(secret, at, content), webhooks.DELIVERY: f"order-{secret[:8]}"}
    path = f"/api/webhooks/{api.tenant}/orders"
    sent = api.http.post(path, data=content, headers=signed, content_type="application/json")
    assert sent.status_code == 200
    return str(sent.json["pipelineRunId"])


def test_a_webhook_says_where_deliveries_go_and_what_came_of_them(api: Api) -> None:
    run = deliver(api)
    assert f'href="/ui/{api.tenant}/triggers/orders"' in page(api, "/triggers")
    shown = page(api, "/triggers/orders")
    line = webhooks.delivery_line(f"http://localhost/api/webhooks/{api.tenant}/orders")
    assert line in shown and SECRET not in shown
    assert f'href="/ui/{api.tenant}/runs/{run}"' in shown and f"order-{SECRET[:8]}" in shown
    status = api.get(f"/api/runs/{run}").json["status"]
    assert re.search(rf"fired: .*{status}", shown)


def test_a_run_leads_to_the_trigger_that_began_it(api: Api) -> None:
    assert f'href="/ui/{api.tenant}/triggers/orders"' in page(api, f"/runs/{deliver(api)}")


def test_a_new_secret_is_shown_once_and_signs(api: Api) -> None:
    shown = do(api, "triggers.rotate", 200, id="orders", overlapSeconds="0").get_data(as_text=True)
    (secret,) = re.findall(r"<code>(whsec_[^<]+)</code>", shown)
    assert secret not in page(api, "/triggers/orders")
    deliver(api, secret)


def test_a_deleted_trigger_leads_back_to_the_list(api: Api) -> None:
    put(api, "after", kind="event", on="pipeline-completed", filter={"status": "failed"})
    assert "Each end of a run that fits its filter starts a run of" in page(api, "/triggers/after")
    assert "/triggers?done=" in do(api, "triggers.delete_trigger", id="after").headers["Location"]
    page(api, "/triggers/after", 404)


def test_a_paused_webhook_says_how_deliveries_are_answered(api: Api) -> None:
    do(api, "triggers.pause", id="orders")
    assert "deliveries are answered with 409" in page(api, "/triggers/orders")
