"""Client of the HTTP API: trigger runs, wait for them, read and control everything the API offers.

Users, the CLI and the doctor call it. It imports only the base modules and the settings, and must never touch
the database or the broker. `AsyncClient` has the same methods for asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeweave.client.client import Client
from pipeweave.client.dead_letters import DeadLetters
from pipeweave.client.models import Document, Page, Run, RunError, without_none

if TYPE_CHECKING:
    from pipeweave.client.async_client import AsyncClient

__all__ = ["AsyncClient", "Client", "DeadLetters", "Document", "Page", "Run", "RunError", "without_none"]


def __getattr__(name: str) -> Any:
    # asyncio takes as long to import as the rest of the client, and the commands do not use it.
    if name == "AsyncClient":
        from pipeweave.client.async_client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module 'pipeweave.client' has no attribute {name!r}")
