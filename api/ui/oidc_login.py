"""The login by the OpenID provider: the browser goes there, and comes back with a code.

What belongs to the login stays in a cookie of the browser, sealed, until it comes back: whoever has not
logged in makes the database write nothing. Each cookie is good for one try.
"""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

from flask import Flask, Response, request
from werkzeug.wrappers import Response as AnyResponse

from pipeweave.api.http import browser
from pipeweave.api.http.renewal import rights_of
from pipeweave.api.oidc import LoginTrial, Provider
from pipeweave.api.ui.session import LOGIN, Guard, Login, noted_login, safe_target
from pipeweave.errors import InvalidSetting, LoginRefused, PipeWeaveError
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.security import PersonLogin, sealed_texts, sessions
from pipeweave.orchestrator.store import Transaction

BEGIN, BACK = f"{LOGIN}/oidc", f"{LOGIN}/callback"
# A person has so much time at the provider.
TRIAL_LIFE = timedelta(minutes=10)
_PURPOSE = "login trial"
_HINT = "open /ui/login to begin anew"


class ProviderLogin:
    """Begins sessions of people.

    Args:
        login: shows what went wrong, and counts it.
    """

    def __init__(self, deployment: Deployment, provider: Provider, login: Login) -> None:
        self._deployment = deployment
        self._provider = provider
        self._login = login

    def register(self, app: Flask, guarded: Guard) -> None:
        """Add the paths `/ui/login/oidc` and `/ui/login/callback`."""
        app.add_url_rule(BEGIN, "ui.oidc_begin", guarded(self.begin), methods=["GET"])
        app.add_url_rule(BACK, "ui.oidc_back", guarded(self.back), methods=["GET"])

    def begin(self) -> AnyResponse:
        """Send the browser to the provider."""
        target = safe_target(request.args.get("next", ""))
        try:
            self._require_private_line()
            redirect_uri = f"{request.host_url.rstrip('/')}{BACK}"
            trial = LoginTrial.begin(redirect_uri, target, self._deployment.database.now())
            address = self._provider.login_url(trial)
        except PipeWeaveError as error:
            return self._login.form(target, error)
        answer = Response(status=303, headers={"Location": address, "Cache-Control": "no-store"})
        sealed = sealed_texts.seal(self._deployment.settings.secret_key, _PURPOSE, trial.to_text())
        browser.keep_trial(request, answer, sealed, TRIAL_LIFE)
        return answer

    def back(self) -> AnyResponse:
        """Begin the session of who comes back from the provider, and go on to the page that was asked for."""
        trial = None
        try:
            self._require_private_line()
            now = self._deployment.database.now()
            trial = self._trial(now)
            session = self._begun(trial, now)
            answer: AnyResponse = Response(status=303, headers={"Location": trial.target})
            browser.keep(request, answer, session.secret)
        except PipeWeaveError as error:
            refused = self._login.counted(error) if isinstance(error, LoginRefused) else error
            answer = self._login.form(trial.target if trial else "", refused)
        browser.forget_trial(request, answer)
        return answer

    def _require_private_line(self) -> None:
        browser.require_private_line(request, is_insecure_allowed=self._deployment.settings.ui_insecure)

    def _trial(self, now: datetime) -> LoginTrial:
        """The login that this browser has begun.

        Raises:
            LoginRefused: it has begun none, or another one, or too long ago, or comes from somebody else.
        """
        sealed = browser.trial_of(request)
        try:
            text = sealed_texts.open_sealed(self._deployment.settings.secret_key, _PURPOSE, sealed or "")
        except InvalidSetting:
            raise LoginRefused("this browser has begun no login", hint=_HINT) from None
        trial = LoginTrial.of_text(text)
        if not 0 <= now.timestamp() - trial.began_at < TRIAL_LIFE.total_seconds():
            raise LoginRefused("the login was begun too long ago", hint=_HINT)
        if not hmac.compare_digest(request.args.get("state", "").encode(), trial.state.encode()):
            raise LoginRefused("the login is not the one that this browser has begun", hint=_HINT)
        if request.args.get("iss") not in (None, self._provider.issuer):
            raise LoginRefused("the login comes from another provider", hint=_HINT)
        if request.base_url != trial.redirect_uri:
            raise LoginRefused(
                "the browser came back to another address than the login began with", hint=_HINT
            )
        return trial

    def _begun(self, trial: LoginTrial, now: datetime) -> sessions.Session:
        """A new session.

        Raises:
            LoginRefused: the provider does not vouch for the person.
            Forbidden: the person is in no group that may enter.
            ProviderUnavailable: the provider does not answer.
        """
        if (refusal := request.args.get("error")) is not None:
            shown = refusal[:100] if refusal.isascii() and refusal.isprintable() else "no reason"
            raise LoginRefused(f"the OpenID provider refused the login: {shown}", hint=_HINT)
        settings = self._deployment.settings
        person = self._provider.redeem(trial, request.args.get("code", ""), now)
        rights = rights_of(person.groups, settings)
        login = PersonLogin(self._provider.issuer, person.subject, person.name, rights, person.refresh_token)

        def begin(tx: Transaction) -> sessions.Session:
            session = sessions.begin_for_person(tx, login, settings.secret_key, request.user_agent.string)
            noted_login(tx, session, "oidc")
            return session

        return self._deployment.database.run(begin)
