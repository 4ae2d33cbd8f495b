"""Asks the OpenID provider again what the person of a session may do."""

from __future__ import annotations

import logging
import threading
from uuid import UUID

from pipeweave.api.oidc import Provider
from pipeweave.errors import Forbidden, LoginRefused, PipeWeaveError, ProviderUnavailable
from pipeweave.orchestrator.security import PersonRights, Role, person_sessions
from pipeweave.orchestrator.store import Database
from pipeweave.settings import Settings

log = logging.getLogger(__name__)


class Renewal:
    """Keeps what people may do as new as person_sessions.RIGHTS_KEPT says.

    Args:
        settings: with OIDC_ROLES, and the key that seals refresh tokens.
    """

    def __init__(self, database: Database, provider: Provider, settings: Settings) -> None:
        self._database = database
        self._provider = provider
        self._settings = settings
        self._lock = threading.Lock()
        self._asking: dict[UUID, threading.Lock] = {}

    def renew(self, session_id: UUID, *, waits: bool) -> None:
        """Ask, if it is due, and store the answer.

        A person whom the provider does not vouch for any more, or who is in no group with a role, has no
        session afterwards. Nothing changes while the provider does not answer.

        Args:
            waits: whether it waits for somebody who asks already; else what is stored counts meanwhile, so
                that a slow provider holds one thread of a session, and not those of all its requests.
        """
        with self._lock:
            mine = self._asking.setdefault(session_id, threading.Lock())
        if not mine.acquire(blocking=waits):
            return
        try:
            self._ask(session_id)
        finally:
            mine.release()
            with self._lock:
                self._asking.pop(session_id, None)

    def _ask(self, session_id: UUID) -> None:
        key = self._settings.secret_key
        try:
            due = self._database.run(lambda tx: person_sessions.claim_due(tx, session_id, key))
            if due is None:
                return
            if due.issuer != self._provider.issuer:
                raise LoginRefused("OIDC_ISSUER names another provider than when the session began")
            now = self._database.now()
            person = self._provider.ask_again(due.subject, due.person, due.refresh_token, now)
            rights = rights_of(person.groups, self._settings)
        except ProviderUnavailable as error:
            log.warning("session.provider_away", extra={"reason": error.detail})
            return
        except (LoginRefused, Forbidden) as error:
            log.warning("session.ended_by_provider", extra={"reason": error.detail})
            self._database.run(lambda tx: person_sessions.end_by_id(tx, session_id))
            return
        except PipeWeaveError as error:
            log.warning("session.not_renewed", extra={"reason": error.detail})
            return
        self._database.run(
            lambda tx: person_sessions.renew(
                tx,
                session_id,
                rights,
                person=person.name or due.person,
                refresh_token=person.refresh_token,
                secret_key=key,
            )
        )


def rights_of(groups: tuple[str, ...], settings: Settings) -> PersonRights:
    """What people of these groups may do.

    Raises:
        Forbidden: none of the groups has a role.
    """
    roles = [(each.group, Role(each.tenants, each.scopes)) for each in settings.oidc_roles]
    rights = person_sessions.rights_of(groups, roles)
    if rights is None:
        claim = settings.oidc_groups_claim
        shown = ", ".join(each[:60] for each in groups[:10]) + (", …" if len(groups) > 10 else "")
        seen = f"its claim {claim!r} says: {shown}" if groups else f"it has no claim {claim!r}"
        raise Forbidden(
            f"the provider knows you, but none of your groups may enter; {seen}",
            hint="an administrator adds a group to OIDC_ROLES; OIDC_GROUPS_CLAIM names the claim",
        )
    return rights
