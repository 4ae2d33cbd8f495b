"""Models of tokens, of browsers' sessions and of tenants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from pipeweave.api.contract.answers import AnswerModel, Paged, type_id_pattern
from pipeweave.api.contract.dead_letters import Time
from pipeweave.api.contract.requests import WHOLE, Request
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.security import SESSION_ID, TOKEN_ID

MAX_TENANTS = 100

Scope = Literal[
    "orchestrator:read",
    "orchestrator:write",
    "orchestrator:admin",
    "orchestrator:worker",
    "orchestrator:tick",
]
# As the command line has them, or in full.
ScopeName = Literal[
    "read",
    "write",
    "admin",
    "worker",
    "tick",
    "orchestrator:read",
    "orchestrator:write",
    "orchestrator:admin",
    "orchestrator:worker",
    "orchestrator:tick",
]
_PREFIX = "orchestrator:"
TokenId = Annotated[str, Field(pattern=type_id_pattern(TOKEN_ID))]
SessionId = Annotated[str, Field(pattern=type_id_pattern(SESSION_ID))]
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
    expires_at: Time | None = Field(
        None,
        description="The token is refused from then on; null: from the end of the request's token on.",
    )

    @property
    def full_scopes(self) -> list[str]:
        """The scopes by their full names."""
        return [f"{_PREFIX}{each.removeprefix(_PREFIX)}" for each in self.scopes]


class AccessToken(AnswerModel):
    """An access token without its text."""

    id: TokenId
    name: str
    tenants: list[str]
    scopes: list[Scope]
    created_at: AwareDatetime
    used_at: AwareDatetime | None = Field(description="Noted once in 5 minutes of use.")
    expires_at: AwareDatetime | None
    revoked_at: AwareDatetime | None
    made_by: TokenId | None = Field(
        description="The token that made it; null: a command, or an earlier version."
    )
    is_valid: bool


class TokenList(Paged):
    """Tokens, newest first."""

    tokens: list[AccessToken]


class CreatedToken(AnswerModel):
    """A new token. Its text cannot be read again."""

    id: TokenId
    name: str
    token: str
    tenants: list[str]
    scopes: list[Scope]
    expires_at: AwareDatetime | None


class RevokeTokenRequest(Request):
    """Revoke a token."""

    children: bool = Field(False, description="Also revoke the tokens that it made, and what those made.")


class RevokedTokens(AnswerModel):
    """The tokens that are refused from now on."""

    revoked: list[TokenId]


class BrowserSession(AnswerModel):
    """A browser that logged in with a token."""

    id: SessionId
    token_id: TokenId
    token_name: str
    agent: str | None = Field(description="What the browser calls itself.")
    created_at: AwareDatetime
    seen_at: AwareDatetime = Field(description="Noted once in 5 minutes of use.")
    expires_at: AwareDatetime


class SessionList(Paged):
    """Open sessions, newest first."""

    sessions: list[BrowserSession]


class LoginLinkRequest(Request):
    """Make a link that logs in once."""


class LoginLink(AnswerModel):
    """A link that logs a browser in once, with the rights of the request's token."""

    path: str = Field(description="Open it below the server's URL. What follows `#` is the code.")
    code: str
    expires_at: AwareDatetime


class EndSessionRequest(Request):
    """End a session."""


class EndedSession(AnswerModel):
    """A session that is over."""

    id: SessionId
    token_name: str


class Tenant(AnswerModel):
    """A tenant and its limit."""

    id: str
    created_at: AwareDatetime
    max_active_runs: int | None = Field(description="Runs that may be active at a time; null: no limit.")


class TenantUse(Tenant):
    """A tenant with its limit, and how much of it is used."""

    active_runs: int
    pending_runs: int = Field(description="Runs that wait for a run slot, in the order of their ids.")
    paused_at: AwareDatetime | None = Field(description="Null: the tenant is not paused.")
    pause_reason: str | None


class TenantList(Paged):
    """Tenants, by id."""

    tenants: list[Tenant]


class TenantRequest(Request):
    """Create a tenant, or change its limit."""

    max_active_runs: Annotated[int, Field(ge=1, le=admission.MAX_LIMIT), WHOLE] | None = Field(
        None, description="Runs that may be active at a time; null: no limit."
    )
