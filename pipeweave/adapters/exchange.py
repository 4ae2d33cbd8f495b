"""Makes the requests of actions: one exchange each, to an address that was checked, with codes for errors.

Its errors name the host alone: the path and the query of a URL may be secrets, as those of most webhooks are.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit

from pipeweave.authoring import Context
from pipeweave.durations import DURATION_EXPECTED, milliseconds
from pipeweave.errors import FieldError, InvalidParams, TargetRefused, TaskError
from pipeweave.safe_text import storable
from pipeweave.sending import Networks, NoReply, Reply, Sender, path_of
from pipeweave.size_limits import MAX_ACTION_ANSWER_BYTES

MAX_URL_CHARS = 8_000
MAX_TIMEOUT_S = 300
MAX_QUOTED_CHARS = 300
MAX_DETAILS_CHARS = 4_000

# Codes of an exchange without an answer, or with one that cannot be used.
UNREACHABLE, UNANSWERED, TIMED_OUT = "HTTP_UNREACHABLE", "HTTP_UNANSWERED", "HTTP_TIMEOUT"
TOO_LARGE, UNREADABLE = "HTTP_ANSWER_TOO_LARGE", "HTTP_ANSWER_UNREADABLE"

# What another try may help against. A step that names codes (`retry.retryOn`) replaces them.
RETRIED: Final = (
    *("HTTP_408", "HTTP_425", "HTTP_429", "HTTP_500", "HTTP_502", "HTTP_503", "HTTP_504"),
    *(UNREACHABLE, UNANSWERED, TIMED_OUT),
    *("TIMEOUT", "HEARTBEAT_LOST", "WORKER_LOST", "WORKER_STOPPED", "UNAVAILABLE"),
    *("ASYNC_FAILED", "WAIT_TIMEOUT"),
)

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
# They belong to the exchange itself: another value would lead the request, or its end, somewhere else.
_OUR_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect", "upgrade"}
)
# A cookie is a secret of the other system.
_LEFT_OUT = frozenset({"set-cookie", "set-cookie2"})


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """What an action sends.

    Args:
        headers: by name.
        body: None for none.
        timeout_s: how long the exchange may take (s).
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout_s: float = 20.0

    @property
    def host(self) -> str:
        """The host of the URL: all that errors say of it."""
        return (urlsplit(self.url).hostname or "")[:300]


class Exchanges:
    """The exchanges of one adapter in one process: its actions are `async`, and threads wait for the answers.

    Args:
        at_once: so many at the same time.
    """

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, "exchange")

    async def send(self, ctx: Context, request: ActionRequest) -> Reply:
        """As the function `send`. A cancelled call ends at once, its exchange when its time is over."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, send, ctx, request)


def send(ctx: Context, request: ActionRequest) -> Reply:
    """Send a request, and return an answer of success.

    Raises:
        InvalidParams: the URL or a header cannot be used.
        TaskError: it may not be sent there, there was no answer, or one of failure (`HTTP_404`).
    """
    _check(request)
    try:
        target = Networks(ctx.deployment.networks if ctx.deployment else ()).resolve(request.url, ctx.tenant)
    except TargetRefused as error:
        raise TaskError(f"{error.detail}; {error.hint}", code=error.code, retryable=False) from None
    except (OSError, UnicodeError):
        raise TaskError(f"{request.host} cannot be resolved", code=UNREACHABLE) from None
    headers = {"user-agent": "PipeWeave", **request.headers, "accept-encoding": "identity"}
    sender = Sender(cuts=True, within_s=request.timeout_s, most_bytes=MAX_ACTION_ANSWER_BYTES)
    try:
        answer = sender.request(request.method, target, path_of(request.url), request.body, headers)
    finally:
        sender.close()
    return _successful(request, answer)


def _successful(request: ActionRequest, answer: Reply | NoReply) -> Reply:
    if isinstance(answer, NoReply):
        code = TIMED_OUT if answer.is_late else UNREACHABLE if answer.is_certain else UNANSWERED
        raise TaskError(f"{request.host} did not answer: {answer.reason}", code=code)
    if not 200 <= answer.status < 300:
        raise _failed(request, answer)
    if not answer.is_whole:
        raise TaskError(
            f"{request.host} answered more than {MAX_ACTION_ANSWER_BYTES:,} bytes",
            code=TOO_LARGE,
            retryable=False,
        )
    return answer


def _failed(request: ActionRequest, answer: Reply) -> TaskError:
    body = storable(answer.text[:MAX_DETAILS_CHARS])
    quoted = " ".join(body.split())[:MAX_QUOTED_CHARS]
    what = "redirects are not followed" if 300 <= answer.status < 400 else quoted
    return TaskError(
        f"{request.host} answered {answer.status}: {what}".rstrip(": "),
        code=f"HTTP_{answer.status}",
        details={"status": answer.status, "body": body, "retryAfter": answer.retry_after},
    )


def shown_headers(answer: Reply) -> dict[str, str]:
    """The headers of an answer by their names in lower case, without cookies."""
    return {name: storable(value) for name, value in answer.headers.items() if name not in _LEFT_OUT}


def seconds(timeout: float | str) -> float:
    """The time limit of an exchange in seconds.

    Raises:
        InvalidParams: it is no duration, or longer than MAX_TIMEOUT_S.
    """
    ms = milliseconds(timeout, longest_ms=MAX_TIMEOUT_S * 1_000)
    if ms is None:
        expected = DURATION_EXPECTED.replace("366 days", f"{MAX_TIMEOUT_S} s")
        raise refusal("timeout", f"must be {expected}")
    return ms / 1_000


def with_query(url: str, query: Mapping[str, str | int | float | bool] | None) -> str:
    """A URL with further parameters in its query, escaped."""
    if not query:
        return url
    texts = {name: _text(value) for name, value in query.items()}
    plain, mark, fragment = url.partition("#")
    return f"{plain}{'&' if '?' in plain else '?'}{urlencode(texts)}{mark}{fragment}"


def _text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def refusal(parameter: str, problem: str) -> InvalidParams:
    """The error of a parameter that cannot be used; it never repeats the value."""
    return InvalidParams(f"{parameter} {problem}", errors=[FieldError(parameter, problem, "invalid_value")])


def _check(request: ActionRequest) -> None:
    _check_url(request.url)
    for name, value in request.headers.items():
        if not _TOKEN.fullmatch(name):
            raise refusal("headers", "has a name that no header may have")
        if name.lower() in _OUR_HEADERS:
            raise refusal(f"headers.{name}", "is set by the exchange itself")
        if not _is_header_value(value):
            raise refusal(f"headers.{name}", "must be one line of Latin-1 text")


def _check_url(url: str) -> None:
    problem = f"must be an http or https URL of at most {MAX_URL_CHARS:,} printable ASCII characters"
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise refusal("url", problem)
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        raise refusal("url", problem) from None
    if not is_http:
        raise refusal("url", problem)
    if parts.username is not None or parts.password is not None:
        raise refusal("url", "must hold no user and no password; use `headers`")


def _is_header_value(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return not any((each < " " and each != "\t") or each == "\x7f" for each in value)
