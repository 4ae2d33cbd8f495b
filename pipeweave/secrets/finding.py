"""Finds the value of a secret for a tenant: asks the sources of SECRETS in their order, and keeps it briefly.

A tenant sees `<tenant>/NAME`, else `shared/NAME`. A source that names its tenants has plain names: they see
NAME, and nobody else sees anything of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeweave.errors import SecretDenied, SecretNotFound
from pipeweave.secret_names import check_secret_name
from pipeweave.secrets.aws import AwsSecrets
from pipeweave.secrets.files import SecretFiles
from pipeweave.secrets.provider import SecretProvider
from pipeweave.secrets.variables import SecretVariables
from pipeweave.secrets.vault import VaultSecrets
from pipeweave.settings import environment
from pipeweave.settings.secret_sources import AWS, ENV, EVERY_TENANT, FILE

CACHED_S: Final = 60.0
"""A value is asked for again after this long (s): a rotated secret is in use by then."""

SHARED: Final = "shared"
"""The folder that every tenant may read."""

_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class ResolvedSecret:
    """A value and where it was.

    Args:
        provider: of SECRETS.
        place: where the provider has it.
    """

    value: str = field(repr=False)
    provider: str
    place: str


@dataclass(frozen=True, slots=True)
class _Source:
    """One entry of SECRETS.

    Args:
        prefix: it is asked for names that begin so.
        tenants: those that see its plain names; empty where names stand below `<tenant>/`.
        hosts: the only ones that its values may be sent to, by the actions of adapters; empty for no limit.
    """

    name: str
    provider: SecretProvider
    prefix: str
    tenants: tuple[str, ...]
    hosts: tuple[str, ...]

    def places(self, tenant: str, name: str) -> Sequence[str]:
        if not name.startswith(self.prefix):
            return ()
        if self.tenants:
            return (name,) if {tenant, EVERY_TENANT} & set(self.tenants) else ()
        return f"{tenant}/{name}", f"{SHARED}/{name}"


class SecretFinder:
    """Finds secrets for one process. Make it in the process that uses it; several threads may ask it.

    Args:
        sources: of the setting SECRETS.
        clock: s, monotonic.
    """

    def __init__(
        self, sources: Sequence[Mapping[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = tuple(_source_of(each) for each in sources)
        self._clock = clock
        self._kept: dict[tuple[str, str, str | None], tuple[float, ResolvedSecret]] = {}
        self._lock = threading.Lock()

    def find(self, tenant: str, name: str, host: str | None = None) -> ResolvedSecret:
        """The secret of a name.

        Args:
            host: the one that an action sends it to; None for any other use.

        Raises:
            SecretNotFound: there is none that the tenant sees.
            SecretDenied: the name is none, the process may not read it, or it is for other hosts.
            Unavailable: a provider cannot be reached.
        """
        check_secret_name(name)
        key, now = (tenant, name, host), self._clock()
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            return kept[1]
        secret = self._ask(tenant, name, host)
        with self._lock:
            self._kept.pop(key, None)
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = now + CACHED_S, secret
        return secret

    def _ask(self, tenant: str, name: str, host: str | None) -> ResolvedSecret:
        for source in self._sources:
            for place in source.places(tenant, name):
                value = source.provider.get(place)
                if value is not None:
                    _check_host(source, name, host)
                    return ResolvedSecret(value, source.name, place)
        if not self._sources:
            hint = "SECRETS is not set in the process that calls the task: docs/secrets.md"
        else:
            hint = f"store it as {tenant}/{name}, or as {SHARED}/{name} for all tenants: docs/secrets.md"
        raise SecretNotFound(f"there is no secret {name!r} for tenant {tenant!r}", hint=hint)


def _check_host(source: _Source, name: str, host: str | None) -> None:
    if not source.hosts or (host is not None and host.lower() in (each.lower() for each in source.hosts)):
        return
    used = "may not be read by a task" if host is None else f"is not for {host[:200]}"
    raise SecretDenied(
        f"the secret {name!r} {used}",
        hint="requests of actions to the `hosts` of its source in SECRETS alone get it",
    )


def _source_of(entry: Mapping[str, Any]) -> _Source:
    return _Source(
        entry["provider"],
        _provider_of(entry),
        entry.get("prefix", ""),
        tuple(entry.get("tenants", ())),
        tuple(entry.get("hosts", ())),
    )


def _provider_of(entry: Mapping[str, Any]) -> SecretProvider:
    match entry["provider"]:
        case str() as provider if provider == FILE:
            return SecretFiles(entry["path"])
        case str() as provider if provider == ENV:
            return SecretVariables(environment(), entry["variables"])
        case str() as provider if provider == AWS:
            return AwsSecrets(
                entry["region"], entry.get("path", ""), entry.get("endpoint"), entry.get("credentials")
            )
        case _:
            return VaultSecrets(
                entry["address"],
                entry.get("mount", "secret"),
                entry.get("path", ""),
                entry.get("namespace", ""),
                entry.get("token"),
                entry.get("tokenFile"),
            )
