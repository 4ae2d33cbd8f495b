"""The adapter `webhook`: tells another system, or hands a step over to it until it calls back."""

from __future__ import annotations

from typing import Any

import orjson

from pipeweave.adapters import exchange
from pipeweave.adapters.exchange import ActionRequest, Exchanges
from pipeweave.authoring import Context, Suspend
from pipeweave.authoring.adapter import action, adapter

AT_ONCE = 16


@adapter("webhook")
class WebhookAdapter:
    """Systems that take a POST: n8n, Zapier, Make, Slack, or a service of one's own."""

    def __init__(self) -> None:
        self._exchanges = Exchanges(AT_ONCE)

    @action(retry_on=exchange.RETRIED, concurrent=AT_ONCE)
    async def send(
        self,
        ctx: Context,
        url: str,
        data: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float | str = 10,
    ) -> dict[str, Any]:
        """POST a value as JSON and go on; the output is the {status} of the answer.

        Args:
            url, headers, timeout: as of `http.request`.
            data: the body.
        """
        request = _request(ctx, url, data, headers, timeout)
        return {"status": (await self._exchanges.send(ctx, request)).status}

    @action(retry_on=exchange.RETRIED, concurrent=AT_ONCE)
    async def hand_off(
        self,
        ctx: Context,
        url: str,
        data: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float | str = 10,
        wait: float | str | None = None,
    ) -> Suspend:
        """POST {callbackUrl, data, runId, pipelineId, stepId, attempt}, and wait for the POST to callbackUrl.

        Its body is the output: `{"status": "completed", "result": …}`, `{"status": "failed", "error": …}` or
        any other JSON. The other system has to answer this POST at once, and works afterwards.

        Args:
            url, headers, timeout: as of `http.request`.
            data: what the other system needs.
            wait: how long its result may take, such as `2d`; 7 days by default.
        """
        suspend = Suspend.callback(timeout=wait)
        names = {"runId": ctx.run_id, "pipelineId": ctx.pipeline_id, "stepId": ctx.step_id}
        body = {"callbackUrl": ctx.callback_url, "data": data, **names, "attempt": ctx.attempt}
        await self._exchanges.send(ctx, _request(ctx, url, body, headers, timeout))
        return suspend


def _request(
    ctx: Context,
    url: str,
    body: Any,
    headers: dict[str, str] | None,
    timeout: float | str,
) -> ActionRequest:
    named = {name.lower(): value for name, value in (headers or {}).items()}
    ours = {"content-type": "application/json", "idempotency-key": ctx.task_run_id}
    content = orjson.dumps(body)
    return ActionRequest("POST", url, {**ours, **named}, content, exchange.seconds(timeout))
