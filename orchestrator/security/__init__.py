"""Access tokens, each with tenants and scopes: create, verify, list, revoke. Stored secrets: encrypt them.

Called by `api`, `triggers`, the command line and `pipeweave up`. This room says what a token allows; it must
never decide which scope a request needs."""

from pipeweave.orchestrator.security.access_tokens import (
    ADMIN,
    EVERY_TENANT,
    READ,
    TICK,
    WORKER,
    WRITE,
    Access,
)

__all__ = [
    "ADMIN",
    "EVERY_TENANT",
    "READ",
    "TICK",
    "WORKER",
    "WRITE",
    "Access",
]
