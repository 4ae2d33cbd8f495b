"""Sends requests to the provider: with a deadline, a bound on the answer, and no redirects."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_plus, urlencode

import orjson

from pipeweave.errors import ProviderUnavailable
from pipeweave.sending import Networks, NoReply, Reply, Sender, path_of

# An answer takes this long (s) at most, from the first byte sent to the last one read.
WITHIN_S = 5.0
MAX_ANSWER = 256 * 1024
# Threads of a process that wait for the provider; others are told to come again, and serve who has a session.
AT_ONCE = 3
# Whoever sets OIDC_ISSUER says where requests go, so it may be anywhere.
_EVERYWHERE = Networks(("0.0.0.0/0", "::/0"))
_HINT = (
    "try again in a moment; an access token, or the link of `pipeweave open`, logs in without the provider"
)


class ProviderExchanges:
    """The requests of one process to its provider.

    Args:
        within_s: how long one may take (s).
    """

    def __init__(self, within_s: float = WITHIN_S) -> None:
        self._sender = Sender(cuts=True, within_s=within_s, most_bytes=MAX_ANSWER)
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def get(self, url: str, token: str | None = None) -> dict[str, Any]:
        """The JSON object at an address.

        Args:
            token: sent as a bearer token.

        Raises:
            ProviderUnavailable: there is no such answer.
        """
        headers = {"Accept": "application/json"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        reply = self._sent("GET", url, None, headers)
        answer = object_in(reply)
        if reply.status != 200 or answer is None:
            raise away(f"the OpenID provider answered {reply.status} without what was asked for")
        return answer

    def post(
        self, url: str, form: Mapping[str, str], client_id: str, secret: str | None
    ) -> tuple[int, dict[str, Any]]:
        """Send a form in the name of the client; the status, and the JSON object of the answer.

        Raises:
            ProviderUnavailable: there is no answer, or one of a server that has failed.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if secret is None:
            form = {**form, "client_id": client_id}
        else:
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        reply = self._sent("POST", url, urlencode(form).encode(), headers)
        answer = object_in(reply)
        if reply.status >= 500 or reply.status == 429 or answer is None:
            raise away(f"the OpenID provider answered {reply.status} without what was asked for")
        return reply.status, answer

    def _sent(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        try:
            target = _EVERYWHERE.resolve(url)
        except (OSError, UnicodeError, ValueError):
            raise away("the name of the OpenID provider cannot be resolved") from None
        reply = self._sender.request(method, target, path_of(url), body, headers)
        if isinstance(reply, NoReply):
            raise away(f"the OpenID provider cannot be reached: {reply.reason}")
        if not reply.is_whole:
            raise away(f"the OpenID provider answered with more than {MAX_ANSWER // 1024} kB")
        return reply

    @contextmanager
    def place(self) -> Iterator[None]:
        """Holds one of the places of those who wait for the provider.

        Raises:
            ProviderUnavailable: AT_ONCE threads wait already.
        """
        if not self._places.acquire(blocking=False):
            raise away("many others are waiting for the OpenID provider")
        try:
            yield
        finally:
            self._places.release()


def away(detail: str) -> ProviderUnavailable:
    """An error that says what to do without the provider."""
    return ProviderUnavailable(detail, hint=_HINT)


def object_in(reply: Reply) -> dict[str, Any] | None:
    """The JSON object of an answer; None: it has none."""
    try:
        answer = orjson.loads(reply.content)
    except orjson.JSONDecodeError:
        return None
    return answer if isinstance(answer, dict) else None
