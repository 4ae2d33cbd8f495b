"""The provider as logins need it: the address of its login, and who came back from there."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import orjson

from pipeweave.api.oidc.discovery import Discovery
from pipeweave.api.oidc.exchanges import WITHIN_S, ProviderExchanges
from pipeweave.api.oidc.id_tokens import Expected, verified
from pipeweave.errors import LoginRefused
from pipeweave.settings import Settings

MAX_CODE = 4096
# Groups of a person that are looked at.
MAX_GROUPS = 1000
_RANDOM_BYTES = 32
_NO_LONGER = "open /ui/login to begin anew"


@dataclass(frozen=True, slots=True)
class LoginTrial:
    """A login that a browser has begun, as its cookie keeps it.

    Args:
        state: comes back with the browser.
        nonce: comes back inside of the ID token.
        verifier: of PKCE: proves that who redeems the code began the login.
        redirect_uri: where the browser comes back to.
        target: the page to go on to.
        began_at: s since 1970, by PostgreSQL's clock.
    """

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    target: str
    began_at: float

    @classmethod
    def begin(cls, redirect_uri: str, target: str, now: datetime) -> LoginTrial:
        """A new one, with random values."""
        state, nonce, verifier = (secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3))
        return cls(state, nonce, verifier, redirect_uri, target, now.timestamp())

    def to_text(self) -> str:
        """As text, for `of_text`."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def of_text(cls, text: str) -> LoginTrial:
        """From its text."""
        return cls(**orjson.loads(text))


@dataclass(frozen=True, slots=True)
class VouchedPerson:
    """A person as the provider vouches for them.

    Args:
        name: for people.
        groups: of the claim OIDC_GROUPS_CLAIM.
        refresh_token: with which the provider can be asked again; None: it gave none.
    """

    subject: str
    name: str
    groups: tuple[str, ...]
    refresh_token: str | None


class Provider:
    """The OpenID provider of a deployment.

    Args:
        settings: with OIDC_ISSUER.
        clock: a monotonic clock in seconds; tests pass their own.
        within_s: how long one exchange may take (s).
    """

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.monotonic, within_s: float = WITHIN_S
    ) -> None:
        assert settings.oidc_issuer is not None and settings.oidc_client_id is not None
        self.issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        self._secret = settings.oidc_client_secret
        self._scopes = settings.oidc_scopes
        self._claim = settings.oidc_groups_claim
        self._exchanges = ProviderExchanges(within_s)
        self._discovery = Discovery(self.issuer, self._exchanges, clock)

    def login_url(self, trial: LoginTrial) -> str:
        """Where a browser has to go to log in.

        Raises:
            ProviderUnavailable: the provider cannot be asked for that.
        """
        challenge = base64.urlsafe_b64encode(hashlib.sha256(trial.verifier.encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": trial.redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self._scopes.split()))),
            "state": trial.state,
            "nonce": trial.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        with self._exchanges.place():
            address = self._discovery.addresses().authorize
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def redeem(self, trial: LoginTrial, code: str, now: datetime) -> VouchedPerson:
        """Who has logged in.

        Args:
            code: what the browser brought back.
            now: by PostgreSQL's clock.

        Raises:
            LoginRefused: the provider does not take the code, or its answer is not what it must be.
            ProviderUnavailable: the provider does not answer.
        """
        if not code or len(code) > MAX_CODE:
            raise LoginRefused("the browser brought no code back from the provider", hint=_NO_LONGER)
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": trial.redirect_uri}
        with self._exchanges.place():
            answer = self._asked({**form, "code_verifier": trial.verifier})
            return self._person(answer, self._expected(nonce=trial.nonce), now)

    def ask_again(self, subject: str, name: str, refresh_token: str, now: datetime) -> VouchedPerson:
        """What the provider says now of a person who logged in before.

        Args:
            name: what it called them then; it need not say so again.

        Raises:
            LoginRefused: the provider does not vouch for them any more.
            ProviderUnavailable: the provider does not answer.
        """
        with self._exchanges.place():
            answer = self._asked({"grant_type": "refresh_token", "refresh_token": refresh_token})
            expected = self._expected(subject=subject)
            person = self._person({"refresh_token": refresh_token, **answer}, expected, now)
        return VouchedPerson(subject, person.name or name, person.groups, person.refresh_token)

    def _expected(self, nonce: str | None = None, subject: str | None = None) -> Expected:
        algorithms = self._discovery.addresses().algorithms
        return Expected(self.issuer, self._client_id, algorithms, nonce, subject)

    def _asked(self, form: Mapping[str, str]) -> dict[str, Any]:
        address = self._discovery.addresses().token
        status, answer = self._exchanges.post(address, form, self._client_id, self._secret)
        if status != 200:
            # What else the provider writes may come from whoever sent the code.
            code = answer.get("error")
            shown = code if isinstance(code, str) and code.isascii() and code.isprintable() else "no reason"
            raise LoginRefused(f"the OpenID provider refused the login: {shown[:100]}", hint=_NO_LONGER)
        return answer

    def _person(self, answer: Mapping[str, Any], expected: Expected, now: datetime) -> VouchedPerson:
        """The person of an answer. A refresh may bring no ID token: then the provider is asked who has its
        access token.
        """
        claims, id_token = dict[str, Any](), answer.get("id_token")
        if id_token is not None or expected.subject is None:
            claims = verified(id_token, self._discovery.key, expected, now)
        subject = claims.get("sub", expected.subject)
        if groups_in(claims, self._claim) is None:
            claims = {**self._userinfo(answer, subject), **claims}
        refresh = answer.get("refresh_token")
        return VouchedPerson(
            str(subject),
            _name_in(claims),
            groups_in(claims, self._claim) or (),
            refresh if isinstance(refresh, str) and refresh else None,
        )

    def _userinfo(self, answer: Mapping[str, Any], subject: Any) -> dict[str, Any]:
        address, token = self._discovery.addresses().userinfo, answer.get("access_token")
        if address is None or not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            return {}
        claims = self._exchanges.get(address, token)
        if claims.get("sub") != subject:
            raise LoginRefused("the OpenID provider speaks of another person", hint=_NO_LONGER)
        return claims


def groups_in(claims: Mapping[str, Any], claim: str) -> tuple[str, ...] | None:
    """The groups of a person; None: there is no such claim.

    Args:
        claim: its name, or the path to it: `realm_access.roles`.
    """
    value: Any = claims
    for name in [claim] if claim in claims else claim.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return None
    listed = value if isinstance(value, list) else [value]
    texts = [each for each in listed if isinstance(each, str) and each and "\0" not in each]
    return tuple(dict.fromkeys(texts[:MAX_GROUPS]))


def _name_in(claims: Mapping[str, Any]) -> str:
    for name in ("preferred_username", "email", "name"):
        text = claims.get(name)
        if isinstance(text, str) and text.strip() and text.isprintable():
            return text.strip()[:255]
    return ""
