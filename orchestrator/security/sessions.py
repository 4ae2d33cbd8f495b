"""Begins, verifies and ends the sessions of browsers, and makes the links that begin one.

A session has the rights of the token that it began with, and ends with it; or it is that of a person, whom
the OpenID provider vouches for (`person_sessions`). Only the SHA-256 of a session's
secret and of a link's code is stored.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.security import person_sessions
from pipeweave.orchestrator.security.access_tokens import (
    EVERY_TENANT,
    USED_EVERY,
    CallerAccess,
    access_of,
    verify,
)
from pipeweave.orchestrator.security.gates import gates_for
from pipeweave.orchestrator.security.person_sessions import PersonLogin
from pipeweave.orchestrator.store.database import Transaction

SESSION_ID = "ses"

# A session that nobody uses for this long is over, and so is one that is this old.
IDLE = timedelta(hours=12)
LONGEST = timedelta(days=7)
# A link must be opened within this time.
LINK_LIFE = timedelta(seconds=60)
_SECRET_BYTES = 32
_MAX_AGENT = 200


@dataclass(frozen=True, slots=True)
class Session:
    """A session that has begun: its secret is the browser's cookie, and cannot be read again."""

    id: UUID
    secret: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A verified session, and what it allows.

    Args:
        is_use_due: it is time to call `see`.
        rights_age: of a person: how long ago the provider said what they may do.
    """

    id: UUID
    access: CallerAccess
    is_use_due: bool
    rights_age: timedelta = timedelta(0)


_BEGIN = """
INSERT INTO ui_sessions (id, hash, token_id, agent, created_at, seen_at, expires_at)
SELECT :id, :hash, id, :agent, :now, :now, LEAST(CAST(:ends_at AS timestamptz), expires_at)
FROM access_tokens
WHERE id = :token_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
RETURNING expires_at
"""


def begin_by_token(tx: Transaction, token: str, agent: str = "") -> Session | None:
    """Begin a session with a token; None when it is unknown, expired or revoked.

    Args:
        agent: what the browser calls itself, for the list of sessions.
    """
    access = verify(tx, token)
    return None if access is None else _begin(tx, access.id, agent)


def begin_for_person(tx: Transaction, login: PersonLogin, secret_key: str | None, agent: str = "") -> Session:
    """Begin the session of a person who has just logged in at the provider.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set, and there is a refresh token to keep.
    """
    secret, session = _new(tx, agent)
    return Session(session["id"], secret, person_sessions.store(tx, session, login, secret_key))


_REDEEM = "DELETE FROM ui_links WHERE hash = :hash AND expires_at > :now RETURNING token_id"


def begin_by_link(tx: Transaction, code: str, agent: str = "") -> Session | None:
    """Begin a session with the code of a link; None when it was used, has expired, or its token has ended."""
    token_id = tx.execute(_REDEEM, {"hash": _hash(code), "now": tx.now}).scalar_one_or_none()
    return None if token_id is None else _begin(tx, token_id, agent)


def _begin(tx: Transaction, token_id: UUID, agent: str) -> Session | None:
    secret, session = _new(tx, agent)
    expires_at = tx.execute(_BEGIN, {**session, "token_id": token_id}).scalar_one_or_none()
    return None if expires_at is None else Session(session["id"], secret, expires_at)


def _new(tx: Transaction, agent: str) -> tuple[str, dict[str, Any]]:
    """The secret of a new session, and what its row has in any case."""
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return secret, {
        "id": tx.new_id(),
        "hash": _hash(secret),
        "agent": agent.replace("\0", "")[:_MAX_AGENT] or None,
        "now": tx.now,
        "ends_at": tx.now + IDLE,
    }


_LINK = "INSERT INTO ui_links (hash, token_id, expires_at) VALUES (:hash, :token_id, :expires_at)"


def make_link(tx: Transaction, token_id: UUID) -> tuple[str, datetime]:
    """Make the code of a link that logs in once, with the rights of a token, within LINK_LIFE.

    Returns:
        The code, and when it expires.
    """
    code, expires_at = secrets.token_urlsafe(_SECRET_BYTES), tx.now + LINK_LIFE
    tx.execute(_LINK, {"hash": _hash(code), "token_id": token_id, "expires_at": expires_at})
    return code, expires_at


_VERIFY = f"""
SELECT s.id AS session_id, s.seen_at, s.subject, s.roles, s.rights_at, t.id, t.name, t.scopes,
    COALESCE(s.tenants, t.tenants) AS tenants, COALESCE(s.groups, t.groups) AS groups,
    CAST(t.networks AS text[]) AS networks, t.service_id, t.certificate,
    {gates_for("COALESCE(s.tenants, t.tenants)")} AS gates
FROM ui_sessions AS s LEFT JOIN access_tokens AS t ON t.id = s.token_id
WHERE s.hash = :hash AND s.expires_at > :now
  AND (s.subject IS NOT NULL OR t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now))
"""


def verify_session(tx: Transaction, secret: str) -> OpenSession | None:
    """The session with this secret; None when it is unknown or over, or its token is.

    It costs one look-up by two unique indexes.
    """
    row = tx.execute(_VERIFY, {"hash": _hash(secret), "now": tx.now}).one_or_none()
    if row is None:
        return None
    is_use_due = tx.now - row.seen_at >= USED_EVERY
    if row.subject is None:
        return OpenSession(row.session_id, access_of(row), is_use_due)
    return OpenSession(
        row.session_id, person_sessions.access_of_person(row), is_use_due, tx.now - row.rights_at
    )


# GREATEST: two processes may note it in any order.
_SEE = """
UPDATE ui_sessions SET seen_at = GREATEST(seen_at, :now), expires_at = GREATEST(
    expires_at, LEAST(created_at + CAST(:longest AS interval), :now + CAST(:idle AS interval)))
WHERE id = :id AND expires_at > :now AND (subject IS NULL OR refresh_token IS NOT NULL)
"""


def see(tx: Transaction, session_id: UUID) -> None:
    """Note that a session is in use: it lives IDLE from now, and LONGEST from its beginning at most."""
    tx.execute(_SEE, {"id": session_id, "now": tx.now, "longest": LONGEST, "idle": IDLE})


_END = "DELETE FROM ui_sessions WHERE hash = :hash"


def end(tx: Transaction, secret: str) -> None:
    """End a session: its cookie is of no use any more. Nothing happens when it is over already."""
    tx.execute(_END, {"hash": _hash(secret)})


_REVOKE = """
DELETE FROM ui_sessions AS s
USING ui_sessions AS o LEFT JOIN access_tokens AS t ON t.id = o.token_id
WHERE s.id = :id AND o.id = s.id AND (:is_all OR COALESCE(o.tenants, t.tenants) <@ CAST(:tenants AS text[]))
RETURNING COALESCE(t.name, 'oidc:' || o.subject) AS name
"""


def revoke(tx: Transaction, session_id: str, tenants: Sequence[str]) -> str:
    """End a session by its id (`ses_…`).

    Args:
        tenants: those of the caller: a session that may enter further tenants is not there for it.

    Returns:
        The name of the session's token, or of its person.

    Raises:
        NotFound: there is no such session.
    """
    parameters = {
        "id": ids.read(SESSION_ID, session_id),
        "is_all": EVERY_TENANT in tenants,
        "tenants": list(tenants),
    }
    name = tx.execute(_REVOKE, parameters).scalar_one_or_none()
    if name is None:
        raise NotFound(f"session {session_id!r} not found", hint="GET /api/sessions lists them")
    return str(name)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
