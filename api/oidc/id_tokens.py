"""Verifies an ID token: who signed it, for whom, for which login, and when."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key

from pipeweave.errors import LoginRefused

# Clocks of the provider and of PostgreSQL may differ by so much (s).
LEEWAY_S = 60
MAX_TOKEN = 64 * 1024
MAX_SUBJECT = 255


@dataclass(frozen=True, slots=True)
class Expected:
    """What an ID token must say.

    Args:
        nonce: of the login; None: it comes with a refresh, and need not have one.
        subject: of the session; None: it comes with a login, and says who it is.
    """

    issuer: str
    client_id: str
    algorithms: Sequence[str]
    nonce: str | None = None
    subject: str | None = None


def verified(
    id_token: Any, key_of: Callable[[str | None], Key | None], expected: Expected, now: datetime
) -> dict[str, Any]:
    """The claims of an ID token.

    Args:
        key_of: the provider's key with an id; None: there is none.
        now: by PostgreSQL's clock.

    Raises:
        LoginRefused: the token is not what it must be; the detail names what is wrong, and no content.
        ProviderUnavailable: as `key_of`.
    """
    if not isinstance(id_token, str) or len(id_token) > MAX_TOKEN:
        raise _refused("there is no ID token")
    try:
        header = jws.extract_compact(id_token.encode()).headers()
        if header.get("alg") not in expected.algorithms:
            raise _refused("its algorithm is not one that the provider signs with")
        key_id = header.get("kid")
        key = key_of(key_id if isinstance(key_id, str) else None)
        if key is None:
            raise _refused("it is signed with a key that the provider does not have")
        claims = jwt.decode(id_token, key, algorithms=list(expected.algorithms)).claims
    except (JoseError, ValueError, TypeError):
        raise _refused("its signature cannot be verified") from None
    _check_claims(claims, expected, now)
    return claims


def _check_claims(claims: dict[str, Any], expected: Expected, now: datetime) -> None:
    registry = jwt.JWTClaimsRegistry(
        now=int(now.timestamp()),
        leeway=LEEWAY_S,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        exp={"essential": True},
        iat={"essential": True},
    )
    try:
        registry.validate(claims)
    except (JoseError, ValueError, TypeError) as error:
        raise _refused(f"its claim {getattr(error, 'claim', None) or 'of time'} is wrong") from None
    audience, party = claims["aud"], claims.get("azp")
    if party != expected.client_id and (
        party is not None or (isinstance(audience, list) and len(audience) > 1)
    ):
        raise _refused("its claim azp is wrong: it is for another client")
    if expected.nonce is not None and not _is_same(claims.get("nonce"), expected.nonce):
        raise _refused("its claim nonce is wrong: it is for another login")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise _refused("its claim sub is wrong")
    if expected.subject not in (None, subject):
        raise _refused("its claim sub is wrong: it is for another person")


def _is_same(claim: Any, nonce: str) -> bool:
    return isinstance(claim, str) and hmac.compare_digest(claim.encode(), nonce.encode())


def _refused(reason: str) -> LoginRefused:
    return LoginRefused(f"the provider's ID token was refused: {reason}", hint="open /ui/login to begin anew")
