"""The adapter `http`: sends one request, and gives what comes back."""

from __future__ import annotations

from typing import Any, Literal

import orjson

from pipeweave.adapters import exchange
from pipeweave.adapters.exchange import ActionRequest, Exchanges
from pipeweave.authoring import Context
from pipeweave.authoring.adapter import action, adapter
from pipeweave.errors import TaskError
from pipeweave.sending import Reply

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

# Requests of one process that are under way at the same time: as many threads wait for them.
AT_ONCE = 16
# A second request of these does what the first has done.
_SAFE_TO_REPEAT = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS")
_JSON = "application/json"


@adapter("http")
class HttpAdapter:
    """Requests to other systems."""

    def __init__(self) -> None:
        self._exchanges = Exchanges(AT_ONCE)

    @action(retry_on=exchange.RETRIED, concurrent=AT_ONCE, timeout=exchange.MAX_TIMEOUT_S)
    async def request(
        self,
        ctx: Context,
        url: str,
        method: Method = "GET",
        query: dict[str, str | int | float | bool] | None = None,
        headers: dict[str, str] | None = None,
        json: Any = None,
        body: str | None = None,
        timeout: float | str = 20,
    ) -> dict[str, Any]:
        """Send one HTTP request; the output is {status, headers, body} of the answer.

        An answer that is JSON is a value, any other a text, none null. An answer of 300 and more fails with
        its status as the code, such as `HTTP_404`.

        Args:
            url: http or https, where DISPATCH_NETWORKS allows it.
            query: further parameters of the URL; they are escaped.
            headers: by name.
            json: the body as a value.
            body: the body as a text; with a `content-type` of its own, if it is not plain text.
            timeout: how long the exchange may take, in seconds or as a text such as `30s`; at most 300 s.
        """
        content, kind = _content(json, body)
        named = {name.lower(): value for name, value in (headers or {}).items()}
        if kind is not None:
            named.setdefault("content-type", kind)
        if method not in _SAFE_TO_REPEAT:
            named.setdefault("idempotency-key", ctx.task_run_id)
        to = exchange.with_query(url, query)
        request = ActionRequest(method, to, named, content, exchange.seconds(timeout))
        answer = await self._exchanges.send(ctx, request)
        return {
            "status": answer.status,
            "headers": exchange.shown_headers(answer),
            "body": _body(request.host, answer),
        }


def _content(json: Any, body: str | None) -> tuple[bytes | None, str | None]:
    """The bytes of a body, and their type."""
    if json is not None and body is not None:
        raise exchange.refusal("body", "cannot be given together with `json`")
    if json is not None:
        return orjson.dumps(json), _JSON
    return (None, None) if body is None else (body.encode(), "text/plain; charset=utf-8")


def _body(host: str, answer: Reply) -> Any:
    if not answer.content:
        return None
    kind, _, parameters = answer.headers.get("content-type", "").lower().partition(";")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise _unreadable(host, "it is compressed, though nobody asked for that")
    text = _text(host, answer.content, parameters)
    if kind.strip() == _JSON or kind.strip().endswith("+json"):
        try:
            return orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            return text
    return text


def _text(host: str, content: bytes, parameters: str) -> str:
    charset = next((each.partition("=")[2] for each in parameters.split(";") if "charset=" in each), "utf-8")
    try:
        return content.decode(charset.strip().strip('"'))
    except (UnicodeDecodeError, LookupError):
        raise _unreadable(host, "it is neither JSON nor text") from None


def _unreadable(host: str, reason: str) -> TaskError:
    return TaskError(
        f"the answer of {host} cannot be read: {reason}", code=exchange.UNREADABLE, retryable=False
    )
