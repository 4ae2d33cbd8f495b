"""Reads what the provider says of itself, and its keys, and keeps both for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from pipeweave.api.oidc.exchanges import ProviderExchanges, away

PATH = "/.well-known/openid-configuration"
# What the provider says of itself and its keys are read anew after this time (s).
KEPT_S = 3600.0
# An unknown key makes the keys be read anew, but not more often than this (s): who sends junk must not make
# this process ask again and again. The same holds after a failure.
AGAIN_AFTER_S = 60.0
FAILED_FOR_S = 5.0
MAX_KEYS = 100
# Signatures with public keys. Not `none`, and not HMAC: the provider's public keys are no secrets.
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ProviderAddresses:
    """Where the provider takes logins, gives tokens and has its keys."""

    authorize: str
    token: str
    keys: str
    userinfo: str | None
    algorithms: tuple[str, ...]


class Discovery:
    """The documents of one provider.

    Args:
        issuer: as OIDC_ISSUER has it.
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(
        self, issuer: str, exchanges: ProviderExchanges, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._exchanges = exchanges
        self._clock = clock
        self._lock = threading.Lock()
        self._addresses: tuple[float, ProviderAddresses] | None = None
        self._keys: tuple[float, dict[str, Key]] | None = None
        self._failed_until = float("-inf")

    def addresses(self) -> ProviderAddresses:
        """Where the provider is to be asked.

        Raises:
            ProviderUnavailable: it cannot be reached, or says something else of itself.
        """
        with self._lock:
            if self._addresses is None or self._clock() >= self._addresses[0] + KEPT_S:
                document = self._read(self._issuer.rstrip("/") + PATH)
                self._addresses = self._clock(), addresses_in(document, self._issuer)
            return self._addresses[1]

    def key(self, key_id: str | None) -> Key | None:
        """The key with this id, or the only one; None: the provider has no such key.

        Raises:
            ProviderUnavailable: its keys are not known, and it cannot be asked.
        """
        address = self.addresses().keys
        with self._lock:
            age = None if self._keys is None else self._clock() - self._keys[0]
            if age is None or age >= KEPT_S or (age >= AGAIN_AFTER_S and self._chosen(key_id) is None):
                self._keys = self._clock(), keys_in(self._read(address))
            return self._chosen(key_id)

    def _chosen(self, key_id: str | None) -> Key | None:
        keys = self._keys[1] if self._keys else {}
        return (
            keys.get(key_id) if key_id is not None else next(iter(keys.values())) if len(keys) == 1 else None
        )

    def _read(self, url: str) -> dict[str, Any]:
        if self._clock() < self._failed_until:
            raise away("the OpenID provider could not be reached a moment ago")
        # Whoever comes while this waits, waits for its place in the lock, and then finds the failure.
        self._failed_until = self._clock() + FAILED_FOR_S
        document = self._exchanges.get(url)
        self._failed_until = float("-inf")
        return document


def addresses_in(document: Mapping[str, Any], issuer: str) -> ProviderAddresses:
    """What a provider says of itself.

    Raises:
        ProviderUnavailable: it is another issuer, or an address is missing or not private.
    """
    if document.get("issuer") != issuer:
        raise away(
            f"OIDC_ISSUER is {issuer!r}, but the provider calls itself {str(document.get('issuer'))[:300]!r}"
        )
    supported = document.get("id_token_signing_alg_values_supported")
    listed = supported if isinstance(supported, list) else ["RS256"]
    return ProviderAddresses(
        _address(document, "authorization_endpoint", issuer),
        _address(document, "token_endpoint", issuer),
        _address(document, "jwks_uri", issuer),
        _address(document, "userinfo_endpoint", issuer) if document.get("userinfo_endpoint") else None,
        tuple(each for each in ALGORITHMS if each in listed),
    )


def is_private(url: str) -> bool:
    """Whether nobody on the way can read what is sent to an address: HTTPS, or this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if not parts.hostname or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _address(document: Mapping[str, Any], name: str, issuer: str) -> str:
    url = document.get(name)
    # A provider over plain HTTP somewhere else was named by OIDC_ISSUER itself.
    if not isinstance(url, str) or not (is_private(url) or not is_private(issuer)):
        raise away(f"the OpenID provider has no usable {name}")
    return url


def keys_in(document: Mapping[str, Any]) -> dict[str, Key]:
    """The public keys of a provider for signatures, by id; those that cannot be read are left out."""
    listed = document.get("keys")
    keys: dict[str, Key] = {}
    for number, each in enumerate(listed[:MAX_KEYS] if isinstance(listed, list) else ()):
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
            continue
        try:
            (key,) = KeySet.import_key_set({"keys": [each]}).keys
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        keys[str(each.get("kid", f"#{number}"))] = key
    return keys
