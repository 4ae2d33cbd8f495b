"""Makes the storage tokens of dispatches, each of which serves many dispatches.

A token names a backend and its credentials, so one token fits every dispatch of a service to a backend. It is
made anew well before it expires. The slow derivation of its key happens once per process.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from pipeweave import signatures
from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.orchestrator.dispatch.services import DispatchService
from pipeweave.settings import Settings
from pipeweave.storage import tokens
from pipeweave.storage.backends import Backends

# How long a token is valid (s), and how long it is given to dispatches (s).
LIFETIME_S = 3600
GIVEN_FOR_S = 600.0


def secret_of(settings: Settings) -> str:
    """The deployment's secret.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    if settings.secret_key is None:
        raise InvalidSetting(
            "PIPEWEAVE_SECRET_KEY is not set, and HTTP workers need it",
            errors=[FieldError("PIPEWEAVE_SECRET_KEY", "is required for HTTP workers", "required")],
            hint="set it in every process of the deployment, e.g. to the output of `openssl rand -hex 32`",
        )
    return settings.secret_key


def worker_secret(settings: Settings, tenant: str, service_id: str) -> str:
    """The secret that a service shares with the deployment.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    is_shared = settings.worker_secrets == "shared"
    return signatures.worker_secret(secret_of(settings), tenant, service_id, is_shared=is_shared)


@dataclass(slots=True)
class StorageTokens:
    """The storage tokens that this process gives to dispatches."""

    settings: Settings
    backends: Backends
    _made: dict[tuple[str, str, str], tuple[float, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, service: DispatchService, backend: str, now: float) -> str:
        """The token of a service for a backend.

        Args:
            now: PostgreSQL's clock (s since the epoch), by which it expires.
        """
        secret = worker_secret(self.settings, service.tenant, service.id)
        key = (secret, service.token_format, backend)
        with self._lock:
            made = self._made.get(key)
            if made is not None and time.monotonic() < made[0]:
                return made[1]
        content = tokens.content_of(self.backends.entry(backend))
        token = tokens.seal(content, secret, format=service.token_format, now=now, seconds=LIFETIME_S)
        with self._lock:
            self._made[key] = (time.monotonic() + GIVEN_FOR_S, token)
        return token
