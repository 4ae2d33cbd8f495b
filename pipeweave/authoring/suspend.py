"""Define `Suspend`: what a task returns whose work goes on elsewhere, and how such a result is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pipeweave.durations import DURATION_EXPECTED, MAX_MS, milliseconds
from pipeweave.errors import InvalidAsyncResult
from pipeweave.spec.async_defaults import MOST_TRIES, SHORTEST_INTERVAL_MS

PENDING = "pending"
MAX_URL_CHARS = 2_000

_NEITHER = "Async operation must provide callback_url or poll_url"
# The members of a literal, by the words of the two notations.
_POLL_URLS = ("poll_url", "pollUrl")
_CALLBACK_URLS = ("callback_url", "callbackUrl")


@dataclass(frozen=True, slots=True)
class Suspend:
    """The result of a call whose work goes on elsewhere: no worker waits for it.

    Make one with `Suspend.callback` or `Suspend.poll`. What is None here is as the step says (`async`), or
    the default.

    Args:
        url: what is polled; None: somebody reports to `ctx.callback_url`.
        timeout_ms: how long the result may take in all (ms).
        interval_ms: between two polls (ms).
        tries: how often is polled at most.
    """

    url: str | None = None
    timeout_ms: int | None = None
    interval_ms: int | None = None
    tries: int | None = None

    @classmethod
    def callback(cls, *, timeout: float | str | None = None) -> Suspend:
        """Wait until somebody reports to `ctx.callback_url`, which the task has handed to the other system.

        Args:
            timeout: how long, in seconds or as a text such as `2d`; 7 days by default.

        Raises:
            InvalidAsyncResult: the timeout is no duration.
        """
        return cls(timeout_ms=_duration("timeout", timeout))

    @classmethod
    def poll(
        cls,
        url: str,
        *,
        interval: float | str | None = None,
        tries: int | None = None,
        timeout: float | str | None = None,
    ) -> Suspend:
        """Ask a URL again and again, by GET, until it answers `{"status": "completed"}` or `failed`.

        Args:
            url: http or https. The orchestrator asks it, without any header of yours.
            interval: between two tries, in seconds or as a text such as `30s`; at least 1 s, 5 s by default.
            tries: how many there are, 1 to 100,000; 60 by default.
            timeout: how long in all, as `interval`; 5 minutes by default.

        Raises:
            InvalidAsyncResult: one of these cannot be used.
        """
        return cls(
            _url(url),
            _duration("timeout", timeout),
            _interval(_duration("interval", interval)),
            _tries(tries),
        )


def read_literal(value: Any) -> Suspend | None:
    """Read `{"status": "pending", "callback_url" | "poll_url": …}`, as a dict says that its work goes on.

    Further members are `timeoutMs`, `intervalMs` and `maxAttempts`. None for any other value: it is a result.

    Raises:
        InvalidAsyncResult: it has neither URL, or another member cannot be used.
    """
    if not isinstance(value, Mapping) or value.get("status") != PENDING:
        return None
    timeout_ms = _whole("timeoutMs", value.get("timeoutMs"), 1, MAX_MS)
    if (url := _first(value, _POLL_URLS)) is not None:
        interval_ms = _whole("intervalMs", value.get("intervalMs"), 1, MAX_MS)
        return Suspend(_url(url), timeout_ms, _interval(interval_ms), _tries(value.get("maxAttempts")))
    if not _first(value, _CALLBACK_URLS):
        raise InvalidAsyncResult(_NEITHER, hint="return Suspend.callback() or Suspend.poll(url)")
    # Whatever it says: the URL of this attempt is the one that ends the wait.
    return Suspend(timeout_ms=timeout_ms)


def _first(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((value[each] for each in names if value.get(each) is not None), None)


def _url(url: Any) -> str:
    try:
        is_url = isinstance(url, str) and len(url) <= MAX_URL_CHARS and url.isascii() and url.isprintable()
        parts = urlsplit(url) if is_url else None
        # A port that is none raises ValueError.
        is_http = parts is not None and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        is_http, parts = False, None
    if not is_http or parts is None or not parts.hostname or " " in url:
        expected = f"an http or https URL of at most {MAX_URL_CHARS:,} characters"
        raise InvalidAsyncResult(f"poll_url must be {expected}, not {url!r}"[:500])
    if parts.username is not None or parts.password is not None:
        raise InvalidAsyncResult("poll_url must hold no user and no password", hint="let it hold a token")
    return str(url)


def _duration(name: str, value: Any) -> int | None:
    ms = None if value is None else milliseconds(value)
    if value is not None and ms is None:
        raise InvalidAsyncResult(f"{name} is {value!r}: use {DURATION_EXPECTED}"[:500])
    return ms


def _interval(ms: int | None) -> int | None:
    if ms is not None and ms < SHORTEST_INTERVAL_MS:
        raise InvalidAsyncResult(f"a poll asks once a second at most: its interval cannot be {ms} ms")
    return ms


def _tries(tries: Any) -> int | None:
    return _whole("maxAttempts", tries, 1, MOST_TRIES)


def _whole(name: str, value: Any, least: int, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidAsyncResult(
            f"{name} must be a whole number from {least} to {most:,}, not {value!r}"[:500]
        )
    return value
