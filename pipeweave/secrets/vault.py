"""Values in HashiCorp Vault or OpenBao, in the key-value engine of version 2, over its HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from pipeweave.errors import SecretDenied, Unavailable
from pipeweave.secrets.provider import MAX_SECRET_BYTES, readable
from pipeweave.sending import NoReply, Reply, Sender, Target, resolving

# How long an exchange may take (s).
WITHIN_S = 5.0
# A secret of Vault may have many fields; more than this (bytes) are not read.
_MOST_BYTES = 4 * MAX_SECRET_BYTES
# The field that is the value; of a secret with others, the value is a JSON object of all of them.
_FIELD = "value"


class VaultSecrets:
    """The secrets of one key-value engine.

    Args:
        address: the URL of the server.
        mount: where the engine is.
        path: the folder in it; empty for none.
        namespace: of the enterprise version; empty for none.
        token: with which it is asked; None to read it from `token_file` each time, as an agent renews it.
    """

    def __init__(
        self, address: str, mount: str, path: str, namespace: str, token: str | None, token_file: str | None
    ) -> None:
        self._address = address.rstrip("/")
        self._path = "/".join(each.strip("/") for each in (mount, "data", path) if each.strip("/"))
        self._namespace = namespace
        self._token = token
        self._token_file = token_file

    def get(self, place: str) -> str | None:
        headers = {"X-Vault-Token": self._token or self._read_token(), "X-Vault-Request": "true"}
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        target = self._target()
        # Values are kept for a minute: a connection would be closed before its next use.
        sender = Sender(cuts=True, within_s=WITHIN_S, most_bytes=_MOST_BYTES)
        try:
            reply = sender.get(target, f"{target.path}/v1/{quote(f'{self._path}/{place}')}", headers)
        finally:
            sender.close()
        if isinstance(reply, NoReply):
            raise Unavailable(f"Vault did not answer: {reply.reason}")
        return self._read(reply, place)

    def _read(self, reply: Reply, place: str) -> str | None:
        if reply.status == 404:
            return None
        if reply.status in (400, 401, 403):
            raise SecretDenied(f"Vault refuses the secret {place!r}: {reply.status}")
        if reply.status != 200 or not reply.is_whole:
            raise Unavailable(f"Vault does not give the secret {place!r}: {reply.status}")
        fields = _fields(reply.content)
        if fields is None:
            raise Unavailable("what answers in place of Vault does not speak its protocol")
        value = fields.get(_FIELD)
        only = isinstance(value, str) and len(fields) == 1
        return readable(str(value).encode() if only else orjson.dumps(fields), place)

    def _read_token(self) -> str:
        try:
            return Path(str(self._token_file)).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SecretDenied(f"the token of Vault cannot be read: {type(error).__name__}") from None

    def _target(self) -> Target:
        parts = urlsplit(self._address)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            # The operator names this address, so it may be a private one.
            address = resolving.addresses(host, port)[0]
        except (OSError, UnicodeError):
            raise Unavailable("the host of Vault cannot be resolved") from None
        return Target(parts.scheme, host, address, port, parts.path.rstrip("/"))


def _fields(content: bytes) -> dict[str, Any] | None:
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    outer = answer.get("data") if isinstance(answer, dict) else None
    fields = outer.get("data") if isinstance(outer, dict) else None
    return fields if isinstance(fields, dict) else None
