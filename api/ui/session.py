"""The login and the logout: a token or the code of a link begins a session, whose cookie the browser keeps.

A link has its code behind `#`, which browsers send to no server. A script puts it into the form; without
scripts it can be pasted like a token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response, request
from werkzeug.wrappers import Response as AnyResponse

from pipeweave import ids
from pipeweave.api.http import Authenticator, Identity, audited, auth, browser, headers, proxies
from pipeweave.api.ui.failed_logins import FailedLogins
from pipeweave.api.ui.login_limit import LoginLimit
from pipeweave.api.ui.view import ROOT
from pipeweave.errors import Forbidden, PipeWeaveError, TooManyRequests, Unauthenticated
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.security import READ, SESSION_ID, access_tokens, audit, sessions
from pipeweave.orchestrator.store import Transaction

LOGIN, LOGOUT = f"{ROOT}/login", f"{ROOT}/logout"
# The longest text that is looked up; a token has 46 characters, a code 43.
MAX_SECRET = 200

Render = Callable[[str, dict[str, Any], int], Response]
Guard = Callable[[Callable[..., AnyResponse]], Callable[..., AnyResponse]]


class Login:
    """Begins and ends the sessions of browsers.

    Args:
        render: renders a template with a title, variables and a status.
        limit: bounds failed logins.
        ways: how people may log in: `both`, `oidc` or `token`, as UI_LOGIN has it.
    """

    def __init__(
        self,
        deployment: Deployment,
        authenticator: Authenticator,
        render: Render,
        limit: LoginLimit | None = None,
        ways: str = "token",
    ) -> None:
        self._ways = ways
        self._deployment = deployment
        self._authenticator = authenticator
        self._render = render
        self._limit = limit or LoginLimit()
        self._failed = FailedLogins(deployment.database)

    def register(self, app: Flask, guarded: Guard) -> None:
        """Add the paths `/ui/login` and `/ui/logout`."""
        app.add_url_rule(LOGIN, "ui.login", guarded(self.ask), methods=["GET"])
        app.add_url_rule(LOGIN, "ui.log_in", guarded(self.log_in), methods=["POST"])
        app.add_url_rule(LOGOUT, "ui.log_out", guarded(self.log_out), methods=["POST"])

    def ask(self) -> AnyResponse:
        """Show the form."""
        return self.form(request.args.get("next", ""))

    def log_in(self) -> AnyResponse:
        """Begin a session, and go on to the page that was asked for.

        Raises:
            CrossSite: a page of another site sends the form.
        """
        browser.require_own_page(request)
        target = request.form.get("next", "")
        try:
            session = self._begun(request.form.get("secret", "").strip())
        except PipeWeaveError as error:
            if error.status >= 500:
                raise
            return self.form(target, error)
        answer = Response(status=303, headers={"Location": safe_target(target)})
        browser.keep(request, answer, session.secret)
        return answer

    def log_out(self) -> AnyResponse:
        """End the session, and forget it here at once.

        Raises:
            CrossSite: a page of another site sends the form.
        """
        browser.require_own_page(request)
        secret = request.cookies.get(browser.cookie_name(request), "")
        if secret:
            self._deployment.database.run(lambda tx: _end(tx, secret))
            self._authenticator.forget_session(secret)
        answer = Response(status=303, headers={"Location": LOGIN})
        browser.forget(request, answer)
        return answer

    def _begun(self, secret: str) -> sessions.Session:
        """A new session.

        Raises:
            Forbidden: the line is not private, the token may not read, or no token may log in.
            TooManyRequests: neither is the text valid, and too many logins failed from this address.
            Unauthenticated: the text is no valid token and no valid code.
        """
        browser.require_private_line(request, is_insecure_allowed=self._deployment.settings.ui_insecure)
        if self._ways == "oidc" and secret.startswith(access_tokens.PREFIX):
            raise Forbidden(
                "access tokens do not log in here",
                hint="log in at the provider; in an emergency, `pipeweave open` makes a link that logs in",
            )
        session = self._deployment.database.run(lambda tx: _begin(tx, secret)) if secret else None
        if session is None:
            raise self.counted(
                Unauthenticated(
                    "this is no valid token or login code",
                    hint="a code works once, within a minute: `pipeweave open` makes another",
                )
            )
        return session

    def counted(self, error: PipeWeaveError) -> PipeWeaveError:
        """Count a failed login; this error, or TooManyRequests after too many from the address."""
        address = request.remote_addr or ""
        self._failed.add(address, headers.request_id())
        try:
            self._limit.failed(address)
        except TooManyRequests as too_many:
            return too_many
        return error

    def form(self, target: str, error: PipeWeaveError | None = None) -> Response:
        """The page of the login, with what went wrong."""
        status = error.status if error else 200
        shown = {"next": target, "problem": error and error.to_problem(), "ways": self._ways}
        answer = self._render("login.html", {"title": "Log in", **shown}, status)
        if isinstance(error, TooManyRequests):
            answer.headers["Retry-After"] = "60"
        return answer


def _begin(tx: Transaction, secret: str) -> sessions.Session | None:
    """Begin a session, and write its row of the audit."""
    session, how = _begun_by(tx, secret)
    return session if session is not None and noted_login(tx, session, how) else None


def noted_login(tx: Transaction, session: sessions.Session, how: str) -> bool:
    """Write the row of a login into the audit. False: the session is over already.

    Raises:
        Unauthenticated: its token may not be used from here.
    """
    opened = sessions.verify_session(tx, session.secret)
    if opened is None:
        return False
    auth.check_place(opened.access, proxies.peer_of(request))
    details = {"by": how, "agent": request.user_agent.string[:MAX_SECRET]}
    audit.write(tx, _note("sessions.log_in", opened, details), {}, {"expiresAt": iso(session.expires_at)})
    return True


def _begun_by(tx: Transaction, secret: str) -> tuple[sessions.Session | None, str]:
    agent = request.user_agent.string
    if len(secret) > MAX_SECRET:
        return None, ""
    if not secret.startswith(access_tokens.PREFIX):
        return sessions.begin_by_link(tx, secret, agent), "link"
    access = access_tokens.verify(tx, secret)
    if access is not None and not access.allows(READ):
        raise Forbidden(
            "the token may not read, so it has no use for the dashboard",
            hint="`pipeweave token create NAME --scope read` makes one that may",
        )
    return sessions.begin_by_token(tx, secret, agent), "token"


def _end(tx: Transaction, secret: str) -> None:
    """End a session, and write that into the audit unless it was over already."""
    opened = sessions.verify_session(tx, secret)
    sessions.end(tx, secret)
    if opened is not None:
        audit.write(tx, _note("sessions.log_out", opened), {}, {})


def _note(verb: str, opened: sessions.OpenSession, details: Any = None) -> audit.Note:
    actor = audited.actor_of(Identity(opened.access, opened.id))
    session_id, tenant = ids.show(SESSION_ID, opened.id), audited.only_tenant(opened.access)
    return audit.Note(actor, verb, "session", tenant, session_id, details, request_id=headers.request_id())


def safe_target(target: str) -> str:
    """Where to go on: only to a page of this dashboard."""
    is_ours = target.startswith(f"{ROOT}/") and not any(
        each in target for each in ("\\", "\r", "\n", "\t", "//")
    )
    return target if is_ours and not target.startswith((LOGIN, LOGOUT)) else f"{ROOT}/"
