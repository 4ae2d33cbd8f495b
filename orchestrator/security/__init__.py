"""Access tokens, each with tenants and scopes, and the sessions of browsers that stand for them: create,
verify, revoke. The audit of changes. Stored secrets: encrypt them.

Called by `api`, `triggers`, the command line and `pipeweave up`. This room says what a token allows; it must
never decide which scope a request needs."""

from pipeweave.orchestrator.security.access_tokens import (
    ADMIN,
    APPROVE,
    EVERY_TENANT,
    IMPLIED,
    READ,
    TICK,
    TOKEN_ID,
    WORKER,
    WRITE,
    CallerAccess,
)
from pipeweave.orchestrator.security.audit import ENTRY_ID
from pipeweave.orchestrator.security.caller_access import Role
from pipeweave.orchestrator.security.gates import TenantGate
from pipeweave.orchestrator.security.person_sessions import PersonLogin, PersonRights
from pipeweave.orchestrator.security.places import Peer
from pipeweave.orchestrator.security.sessions import SESSION_ID
from pipeweave.orchestrator.security.token_bounds import MAX_NETWORKS, TokenBounds

__all__ = [
    "ADMIN",
    "APPROVE",
    "ENTRY_ID",
    "EVERY_TENANT",
    "IMPLIED",
    "MAX_NETWORKS",
    "READ",
    "SESSION_ID",
    "TICK",
    "TOKEN_ID",
    "WORKER",
    "WRITE",
    "CallerAccess",
    "Peer",
    "PersonLogin",
    "PersonRights",
    "Role",
    "TenantGate",
    "TokenBounds",
]
