"""Models of the requests about tokens, browsers' sessions and tenants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipeweave.api.contract.dead_letters import Time
from pipeweave.api.contract.requests import WHOLE, Name, Request
from pipeweave.orchestrator.queueing import tenant_limits
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.security import MAX_NETWORKS, TokenBounds
from pipeweave.rates import RATE_EXPECTED, RATE_PATTERN

MAX_TENANTS = 100
MAX_GROUPS = 50

# As the command line has them, or in full.
ScopeName = Literal[
    "read",
    "approve",
    "write",
    "admin",
    "worker",
    "tick",
    "orchestrator:read",
    "orchestrator:approve",
    "orchestrator:write",
    "orchestrator:admin",
    "orchestrator:worker",
    "orchestrator:tick",
]
_PREFIX = "orchestrator:"
TenantOrAll = Annotated[str, Field(pattern=r"^(\*|\.*[A-Za-z0-9_~:@-][A-Za-z0-9._~:@-]*)$", max_length=200)]


class TokenRequest(Request):
    """Create an access token."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")] = Field(
        description="A label for people; several tokens may have the same."
    )
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=10)]
    tenants: Annotated[list[TenantOrAll], Field(min_length=1, max_length=MAX_TENANTS)] = Field(
        description="Tenants that the token is valid for, of those of the request's token; `*`: all."
    )
    groups: Annotated[list[Name], Field(max_length=MAX_GROUPS)] = Field(
        [], description="Groups of people that the token stands for: approvals name them as assignees."
    )
    expires_at: Time | None = Field(
        None,
        description="The token is refused from then on; null: from the end of the request's token on, and "
        "with the scope admin after 90 days at the latest.",
    )
    networks: Annotated[list[Annotated[str, Field(max_length=50)]], Field(max_length=MAX_NETWORKS)] = Field(
        [],
        description="It may be used from these alone, e.g. `10.1.0.0/16`, of those of the request's token; "
        "empty: from the same.",
    )
    service_id: Name | None = Field(
        None, description="For the scope worker alone: the only service that it may register."
    )
    certificate: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")] | None = Field(
        None,
        description="SHA-256 of the certificate that its user must have, as hexadecimal digits; null: that "
        "of the request's token, if it has one.",
    )

    @property
    def bounds(self) -> TokenBounds:
        """What the token is to be bound to."""
        return TokenBounds(tuple(self.networks), self.service_id, self.certificate)

    @property
    def full_scopes(self) -> list[str]:
        """The scopes by their full names."""
        return [f"{_PREFIX}{each.removeprefix(_PREFIX)}" for each in self.scopes]


class RevokeTokenRequest(Request):
    """Revoke a token."""

    children: bool = Field(False, description="Also revoke the tokens that it made, and what those made.")


class LoginLinkRequest(Request):
    """Make a link that logs in once."""


class EndSessionRequest(Request):
    """End a session."""


class TenantRequest(Request):
    """Create a tenant, or change its limit."""

    max_active_runs: Annotated[int, Field(ge=1, le=admission.MAX_LIMIT), WHOLE] | None = Field(
        None, description="Runs that may be active at a time; null: no limit."
    )


_Count = Annotated[int, Field(ge=0, le=tenant_limits.MOST_COUNT), WHOLE]


class TenantLimitsRequest(Request):
    """Set the quotas of a tenant, and its weight. Null: any number."""

    runs_per_day: _Count | None = Field(
        None, description="Runs that begin on a day of UTC, without those inside of other runs."
    )
    open_task_runs: _Count | None = Field(
        None, description="Task runs of open runs that are not final; a new run is refused beyond."
    )
    stored_bytes: Annotated[int, Field(ge=0, le=tenant_limits.MOST_BYTES), WHOLE] | None = Field(
        None, description="In storage, by the last sum: new runs are refused from then on."
    )
    schedules: _Count | None = Field(None, description="Stored schedules, paused ones among them.")
    request_rate: Annotated[str, Field(pattern=RATE_PATTERN)] | None = Field(
        None, description=f"Requests with the tenant's tokens: {RATE_EXPECTED}."
    )
    weight: Annotated[int, Field(ge=1, le=tenant_limits.MOST_WEIGHT), WHOLE] = Field(
        1, description="Turns that it gets where tenants take turns."
    )

    def limits(self) -> tenant_limits.TenantLimits:
        """The limits as the orchestrator has them."""
        return tenant_limits.TenantLimits(
            self.runs_per_day,
            self.open_task_runs,
            self.stored_bytes,
            self.schedules,
            self.request_rate,
            self.weight,
        )


class DisableRequest(Request):
    """Disable a tenant."""

    reason: Annotated[str, Field(max_length=tenant_limits.MAX_REASON)] | None = Field(
        None, description="Who is refused reads it."
    )


class EnableRequest(Request):
    """Enable a tenant."""
