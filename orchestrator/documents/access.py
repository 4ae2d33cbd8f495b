"""Documents of tokens, of browsers' sessions and of tenants."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged, TypeId
from pipeweave.orchestrator.security import SESSION_ID, TOKEN_ID
from pipeweave.orchestrator.security.audit import ENTRY_ID

Scope = Literal[
    "orchestrator:read",
    "orchestrator:approve",
    "orchestrator:write",
    "orchestrator:admin",
    "orchestrator:worker",
    "orchestrator:tick",
]
TokenId = Annotated[str, TypeId(TOKEN_ID)]
SessionId = Annotated[str, TypeId(SESSION_ID)]


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
    made_by_subject: str | None = Field(
        description="The person who made it in the dashboard, as the OIDC provider calls them."
    )
    groups: list[str] = Field(description="Of people, for which it may decide approvals.")
    networks: list[str] = Field(description="It may be used from these alone; empty: from everywhere.")
    service_id: str | None = Field(description="The only service that it may register; null: any.")
    certificate: str | None = Field(
        description="SHA-256 of the certificate that its user must have, as hex; null: it needs none."
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
    groups: list[str]
    networks: list[str]
    service_id: str | None
    certificate: str | None
    expires_at: AwareDatetime | None


class RevokedTokens(AnswerModel):
    """The tokens that are refused from now on."""

    revoked: list[TokenId]


class BrowserSession(AnswerModel):
    """A browser that logged in with a token, or of a person whom the OpenID provider vouches for."""

    id: SessionId
    token_id: TokenId | None = Field(description="Null: it is that of a person.")
    token_name: str = Field(description="Of a person, `oidc:` and what the provider calls them.")
    person: str | None = Field(description="The person's name; null: it is that of a token.")
    agent: str | None = Field(description="What the browser calls itself.")
    created_at: AwareDatetime
    seen_at: AwareDatetime = Field(description="Noted once in 5 minutes of use.")
    expires_at: AwareDatetime


class SessionList(Paged):
    """Open sessions, newest first."""

    sessions: list[BrowserSession]


class LoginLink(AnswerModel):
    """A link that logs a browser in once, with the rights of the request's token."""

    path: str = Field(description="Open it below the server's URL. What follows `#` is the code.")
    code: str
    expires_at: AwareDatetime


class EndedSession(AnswerModel):
    """A session that is over."""

    id: SessionId
    token_name: str


class Tenant(AnswerModel):
    """A tenant and its limit."""

    id: str
    created_at: AwareDatetime
    max_active_runs: int | None = Field(description="Runs that may be active at a time; null: no limit.")
    takes_only_signed: bool = Field(description="Whether it takes only pipelines that signed bundles bring.")
    disabled_at: AwareDatetime | None = Field(
        description="Since when nothing new begins, and only operators are served; null: it is enabled."
    )


class TenantUse(Tenant):
    """A tenant with its limit, and how much of it is used."""

    disabled_by: str | None
    disabled_reason: str | None

    active_runs: int
    pending_runs: int = Field(description="Runs that wait for a run slot, in the order of their ids.")
    paused_at: AwareDatetime | None = Field(description="Null: the tenant is not paused.")
    pause_reason: str | None


class TenantDeletion(AnswerModel):
    """How far the deletion of a tenant is."""

    tenant_id: str
    requested_at: AwareDatetime
    requested_by: str | None
    deleted_runs: int
    deleted_rows: int = Field(description="Of all tables, runs among them.")
    finished_at: AwareDatetime | None = Field(
        description="Null: it is under way. Afterwards the name can be used again."
    )


class TenantLimitsUsed(AnswerModel):
    """How much of the quotas is used."""

    runs_today: int | None = Field(
        description="That began on this day of UTC, without those inside of other runs; null: not counted."
    )
    resets_at: AwareDatetime = Field(description="When the day ends.")
    open_task_runs: int | None = Field(description="Counting ends beyond the quota; null: not counted.")
    stored_bytes: int | None = Field(
        description="By the last sum; a value that several runs name counts for each. Null: not summed yet."
    )
    stored_at: AwareDatetime | None = Field(description="When the stored bytes were summed up.")
    schedules: int


class TenantLimitsState(AnswerModel):
    """What an operator allows a tenant; null: any number."""

    id: str
    runs_per_day: int | None
    open_task_runs: int | None
    stored_bytes: int | None
    schedules: int | None
    request_rate: str | None = Field(description="Requests with its tokens in a time, such as `600/m`.")
    weight: int = Field(description="Turns that it gets where tenants take turns.")
    used: TenantLimitsUsed


class TenantList(Paged):
    """Tenants, by id."""

    tenants: list[Tenant]


class AuditEntry(AnswerModel):
    """One request or command that changed something."""

    id: Annotated[str, TypeId(ENTRY_ID)]
    at: AwareDatetime
    tenant: str | None = Field(description="Null: it concerns the whole deployment.")
    source: Literal["token", "session", "command"] = Field(
        description="With a token, with a browser's session, or with a command on the database itself."
    )
    actor: str = Field(
        description="The name of the token; of a person, `oidc:…`; of a command, `user@host`; of the tick, "
        "`tick@host`; of failed logins, `nobody`."
    )
    token_id: TokenId | None
    session_id: SessionId | None
    verb: str = Field(description="The operation id, or the command.")
    kind: str = Field(description="Of the object, e.g. `task`.")
    object: str = Field(description="Empty: all of the kind, or what `given` chooses.")
    given: Any = Field(description="The body of the request, without secrets; of a large one the size.")
    before: dict[str, Any] | None = Field(description="What the change changed, as it was.")
    after: dict[str, Any] | None = Field(description="The same afterwards; of many objects how many.")
    reason: str | None
    request_id: str | None


class AuditList(Paged):
    """Rows of the audit, newest first."""

    entries: list[AuditEntry]
