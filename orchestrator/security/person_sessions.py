"""Begins and renews the sessions of people whom the OpenID provider vouches for.

What a person may do is stored with the session, and read again from the provider: it may change there, or the
person may leave. A session of which the provider said nothing for too long is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave.errors import InvalidId
from pipeweave.ids import check_name
from pipeweave.orchestrator.security.caller_access import CallerAccess, Role
from pipeweave.orchestrator.security.gates import gates_of
from pipeweave.orchestrator.security.sealed_texts import open_sealed, seal
from pipeweave.orchestrator.security.token_bounds import PERSON_PREFIX
from pipeweave.orchestrator.store.database import Transaction, to_json

# What a person may do is asked anew after this time.
RIGHTS_KEPT = timedelta(minutes=15)
# While the provider is away, what it said last counts for so long.
RIGHTS_LAST = timedelta(hours=1)
# A provider that did not answer is asked again after this time.
ASK_AGAIN = timedelta(minutes=1)
# Groups of people that approvals may name.
MAX_GROUPS = 100


@dataclass(frozen=True, slots=True)
class PersonRights:
    """What a person may do.

    Args:
        roles: at least one.
        groups: for which they may decide approvals.
    """

    roles: tuple[Role, ...]
    groups: tuple[str, ...] = ()

    @property
    def tenants(self) -> list[str]:
        """The tenants of all roles."""
        return sorted({tenant for each in self.roles for tenant in each.tenants})

    @property
    def stored_roles(self) -> str | None:
        """The roles, as the row has them."""
        return to_json([{"tenants": each.tenants, "scopes": each.scopes} for each in self.roles])


def rights_of(groups: Sequence[str], roles: Iterable[tuple[str, Role]]) -> PersonRights | None:
    """What people of these groups may do; None: nothing.

    Args:
        groups: as the provider names them.
        roles: what people of a group may do, by the group's name.
    """
    own = tuple(dict.fromkeys(role for group, role in roles if group in groups))
    return PersonRights(own, tuple(filter(_is_name, groups))[:MAX_GROUPS]) if own else None


def access_of_person(row: Any) -> CallerAccess:
    """What a person may do, by the row of their session."""
    roles = tuple(Role(tuple(each["tenants"]), tuple(each["scopes"])) for each in row.roles)
    scopes = tuple(sorted({scope for each in roles for scope in each.scopes}))
    return CallerAccess(
        row.session_id,
        f"{PERSON_PREFIX}{row.subject}",
        tuple(row.tenants),
        scopes,
        groups=tuple(row.groups),
        subject=row.subject,
        roles=roles if len(roles) > 1 else (),
        gates=gates_of(row.gates),
    )


@dataclass(frozen=True, slots=True)
class DueRights:
    """A session whose person is to be asked for anew."""

    session_id: UUID
    issuer: str
    subject: str
    person: str
    refresh_token: str


# Of those who come at the same time one asks.
_CLAIM = """
UPDATE ui_sessions SET asked_at = :now
WHERE id = :id AND expires_at > :now AND refresh_token IS NOT NULL
    AND rights_at <= CAST(:now AS timestamptz) - CAST(:kept AS interval)
    AND (asked_at = rights_at OR asked_at <= CAST(:now AS timestamptz) - CAST(:again AS interval))
RETURNING issuer, subject, person, refresh_token
"""


def claim_due(tx: Transaction, session_id: UUID, secret_key: str | None) -> DueRights | None:
    """Take the task of asking the provider what the person of a session may do now; None: it is not due, or
    somebody else does it.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is another one than when the session began.
    """
    parameters = {"id": session_id, "now": tx.now, "kept": RIGHTS_KEPT, "again": ASK_AGAIN}
    row = tx.execute(_CLAIM, parameters).one_or_none()
    if row is None:
        return None
    token = open_sealed(secret_key, purpose(session_id), row.refresh_token)
    return DueRights(session_id, row.issuer, row.subject, row.person, token)


_RENEW = """
UPDATE ui_sessions SET tenants = CAST(:tenants AS text[]), roles = CAST(:roles AS jsonb),
    groups = CAST(:groups AS text[]), person = :person,
    refresh_token = COALESCE(:refresh_token, refresh_token), rights_at = :now, asked_at = :now
WHERE id = :id AND subject IS NOT NULL AND expires_at > :now
"""


def renew(
    tx: Transaction,
    session_id: UUID,
    rights: PersonRights,
    *,
    person: str,
    refresh_token: str | None,
    secret_key: str | None,
) -> None:
    """Store what the provider said of a person. Nothing happens when the session is over.

    Args:
        refresh_token: a new one; None: the former goes on.
    """
    tx.execute(
        _RENEW,
        {
            "id": session_id,
            "now": tx.now,
            "tenants": rights.tenants,
            "roles": rights.stored_roles,
            "groups": list(rights.groups),
            "person": person,
            "refresh_token": _sealed(secret_key, session_id, refresh_token),
        },
    )


_END = "DELETE FROM ui_sessions WHERE id = :id"


def end_by_id(tx: Transaction, session_id: UUID) -> None:
    """End a session: the provider does not vouch for its person any more."""
    tx.execute(_END, {"id": session_id})


_BEGIN = """
INSERT INTO ui_sessions (id, hash, agent, created_at, seen_at, expires_at, issuer, subject, person, tenants,
    roles, groups, refresh_token, asked_at, rights_at)
VALUES (:id, :hash, :agent, :now, :now, :ends_at, :issuer, :subject, :person, CAST(:tenants AS text[]),
    CAST(:roles AS jsonb), CAST(:groups AS text[]), :refresh_token, :now, :now)
"""


@dataclass(frozen=True, slots=True)
class PersonLogin:
    """A person who has just logged in.

    Args:
        name: for people.
        refresh_token: with which the provider can be asked again; None: the session ends after RIGHTS_LAST.
    """

    issuer: str
    subject: str
    name: str
    rights: PersonRights
    refresh_token: str | None = None


def store(tx: Transaction, session: dict[str, Any], login: PersonLogin, secret_key: str | None) -> datetime:
    """Write the row of a session; when it ends.

    Args:
        session: `id`, `hash`, `agent`, `now` and `ends_at`, as of the session of a token.
    """
    ends_at: datetime = session["ends_at"] if login.refresh_token else tx.now + RIGHTS_LAST
    tx.execute(
        _BEGIN,
        {
            **session,
            "ends_at": ends_at,
            "issuer": login.issuer,
            "subject": login.subject,
            "person": login.name or login.subject,
            "tenants": login.rights.tenants,
            "roles": login.rights.stored_roles,
            "groups": list(login.rights.groups),
            "refresh_token": _sealed(secret_key, session["id"], login.refresh_token),
        },
    )
    return ends_at


def _sealed(secret_key: str | None, session_id: UUID, token: str | None) -> str | None:
    return None if token is None else seal(secret_key, purpose(session_id), token)


def purpose(session_id: UUID) -> str:
    """What the refresh token of a session is sealed for."""
    return f"refresh token of session {session_id}"


def _is_name(group: str) -> bool:
    try:
        check_name(group, "group")
    except InvalidId:
        return False
    return True
