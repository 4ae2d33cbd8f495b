"""Serves the dashboard: finds out who asks, reads the screen, and renders the page or its fragment."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import orjson
from flask import Flask, Response, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import HTTPException
from werkzeug.utils import redirect
from werkzeug.wrappers import Response as AnyResponse

from pipeweave.api.http import (
    Authenticator,
    Caller,
    Download,
    Identity,
    Inside,
    browser,
    download,
    errors,
    headers,
    ndjson,
    packing,
    proxies,
)
from pipeweave.api.oidc import Provider
from pipeweave.api.ui import confirm, policy, waits
from pipeweave.api.ui.announced_answers import KNOWN_FETCH, KnownFetch
from pipeweave.api.ui.banner import Banner
from pipeweave.api.ui.kept_answers import KeptAnswers
from pipeweave.api.ui.live_views import (
    ANNOUNCED,
    FRAGMENT,
    READ_AT,
    Fragment,
    Fragments,
    LiveView,
    seconds_of,
    shared,
)
from pipeweave.api.ui.oidc_login import ProviderLogin
from pipeweave.api.ui.screens import NAV, LinesFile, Redirect, Screen, ScreenPage
from pipeweave.api.ui.session import Login
from pipeweave.api.ui.static_files import static_files
from pipeweave.api.ui.templating import environment
from pipeweave.api.ui.view import ROOT, View
from pipeweave.errors import NotFound, PipeWeaveError, Unauthenticated
from pipeweave.ids import check_name
from pipeweave.orchestrator.security import EVERY_TENANT, CallerAccess

log = logging.getLogger(__name__)

HTML = "text/html; charset=utf-8"
THEMES = ("light", "dark")
# What stands below /ui in the place of a tenant.
NO_TENANTS = frozenset({"login", "logout", "static", "r"})
# The tenant whose screens come first for a token that is valid for every tenant.
FIRST_TENANT = "default"
# Tenants in which an id is looked for.
MOST_TENANTS = 50
# Prefix of an id -> its screen, and the endpoint that knows it.
_PLACES = {
    "prun": ("/runs/{id}", "runs.get_run"),
    "trun": ("/task-runs/{id}", "runs.get_task_run"),
    "dlq": ("/dead-letters/{id}", "dead_letters.get_dead_letter"),
}


class Dashboard:
    """The screens of one application.

    Args:
        screens: the table of screens.
        is_read_only: no verb is shown or done.
        provider: by which people log in; None: nobody does.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        inside: Inside,
        screens: tuple[Screen, ...],
        *,
        is_read_only: bool = False,
        provider: Provider | None = None,
    ) -> None:
        self._provider = provider
        self._authenticator = authenticator
        self._inside = inside
        self._screens = screens
        self._is_read_only = is_read_only
        self._banner = Banner()
        self._by_name: dict[str, Screen] = {}
        self._fragments = Fragments(self._rendered_view)
        self._kept = KeptAnswers(inside)

    def register(self, app: Flask) -> None:
        """Add the paths below `/ui`."""
        policy.register(app)
        app.add_url_rule("/", "ui.root", lambda: redirect(f"{ROOT}/", 302), methods=["GET"])
        app.add_url_rule(f"{ROOT}/", "ui.home", self._guarded(self.home), methods=["GET"])
        app.add_url_rule(
            f"{ROOT}/static/<digest>/<path:name>",
            "ui.static",
            self._guarded(static_files().serve),
            methods=["GET"],
        )
        deployment, provider = self._inside.deployment, self._provider
        ways = deployment.settings.ui_login if provider else "token"
        login = Login(deployment, self._authenticator, self._plain, ways=ways)
        login.register(app, self._guarded)
        if provider is not None:
            ProviderLogin(deployment, provider, login).register(app, self._guarded)
        app.add_url_rule(f"{ROOT}/r/<id>", "ui.find", self._guarded(self.find), methods=["GET"])
        for screen in self._screens:
            name = f"ui.screen:{screen.path}"
            self._by_name[name] = screen
            rule = f"{ROOT}/<tenant>{screen.path}"
            read = self._guarded(self._reading(screen))
            app.add_url_rule(rule, name, read, methods=["GET"], strict_slashes=screen.path != "/")
        self._places = app.url_map.bind("")
        path = f"{ROOT}/<tenant>/do/<name>"
        app.add_url_rule(path, "ui.ask", self._guarded(self.ask), methods=["GET"])
        app.add_url_rule(path, "ui.send", self._guarded(self.send), methods=["POST"])
        app.add_url_rule(f"{ROOT}/<path:rest>", "ui.nowhere", self._guarded(_nowhere), methods=["GET"])

    # --- what it answers ----------------------------------------------------------------------------------

    def home(self) -> AnyResponse:
        """Go to the first screen of the first tenant."""
        return redirect(f"{ROOT}/{_first_tenant(self._identity().access)}/", 302)

    def find(self, id: str) -> AnyResponse:
        """Go to the screen of an id, in whichever tenant of the caller it is.

        Raises:
            NotFound: none of the caller's tenants has it.
        """
        access = self._identity().access
        path, operation = _PLACES.get(id.partition("_")[0], ("", ""))
        tenants = [each for each in access.tenants if each != EVERY_TENANT] or [FIRST_TENANT]
        for tenant in tenants[:MOST_TENANTS] if operation else ():
            with suppress(NotFound):
                self._inside.ask(Caller(access.within(tenant), tenant), operation, {"id": id})
                return redirect(f"{ROOT}/{tenant}{path.format(id=id)}", 302)
        raise NotFound(f"{id[:80]!r} not found: not here, or not yours")

    def ask(self, tenant: str, name: str) -> AnyResponse:
        """Show the page of a verb."""
        view = self._view(tenant, f"/do/{name}")
        return self._answer(view, confirm.page(view, name), "confirm.html", "")

    def send(self, tenant: str, name: str) -> AnyResponse:
        """Do a verb."""
        view = self._view(tenant, f"/do/{name}")
        try:
            if self._is_read_only:
                raise NotFound("this dashboard is for reading only")
            done = confirm.send(view, name)
            self._fragments.forget()
            if isinstance(done, ScreenPage):
                return self._answer(view, done, confirm.template(name), "")
            return redirect(done.url, 303)
        except PipeWeaveError as error:
            if isinstance(error, Unauthenticated) or error.status >= 500:
                raise
            return self._answer(view, confirm.page(view, name, error), "confirm.html", "", error.status)

    def _reading(self, screen: Screen) -> Callable[..., AnyResponse]:
        def answer(tenant: str, **ids: str) -> AnyResponse:
            if tenant in NO_TENANTS:
                return _nowhere(tenant)
            if request.path == f"{ROOT}/{tenant}":
                return redirect(f"{ROOT}/{quote(tenant)}/", 302)
            identity = self._identity()
            view = self._view_for(identity, tenant, request.path.removeprefix(f"{ROOT}/{tenant}"))
            if FRAGMENT in request.headers and screen.template:
                return self._fragment(identity, view, screen)
            page = screen.read(view, **ids)
            if isinstance(page, Download):
                return download.answered(request, page)
            if isinstance(page, LinesFile):
                return ndjson.saved(request, page.lines, page.filename)
            if isinstance(page, Redirect):
                return redirect(page.url, 302)
            return self._answer(view, page, screen.template, screen.nav)

        return answer

    # --- fragments of pages that stay open ----------------------------------------------------------------

    def live_view(self, caller: Caller, host: str, url: str) -> LiveView:
        """What the caller sees at an address below its tenant.

        Raises:
            NotFound: the dashboard has no such page.
        """
        screen, _ = self._find(caller.tenant, url)
        reader = shared(caller, is_personal=screen.is_personal)
        return LiveView(reader, host, url, self._fragments, screen.every_s)

    def _find(self, tenant: str, url: str) -> tuple[Screen, dict[str, str]]:
        path = url.partition("?")[0]
        try:
            name, ids = self._places.match(f"{ROOT}/{quote(tenant)}{path}", method="GET")
        except HTTPException:
            name, ids = "", {}
        screen = self._by_name.get(name)
        if screen is None or not screen.template:
            raise NotFound(f"the dashboard has no page {url[:200]!r}")
        return screen, {key: text for key, text in ids.items() if key != "tenant"}

    def _rendered_view(self, asked: LiveView) -> bytes:
        screen, ids = self._find(asked.caller.tenant, asked.url)
        path, _, query = asked.url.partition("?")
        view = self._view_of(asked.caller, path, MultiDict(parse_qsl(query)), asked.host)
        view.is_fragment = True
        page = screen.read(view, **ids)
        assert not isinstance(page, Download | LinesFile), "it has a template"
        if isinstance(page, Redirect):
            page = ScreenPage("Moved", {"target": page.url})
            return self.rendered(view, page, "moved.html", screen.nav, is_fragment=True)
        return self.rendered(view, page, screen.template, screen.nav, is_fragment=True)

    def _fragment(self, identity: Identity, view: View, screen: Screen) -> Response:
        url = request.full_path.rstrip("?").removeprefix(f"{ROOT}/{quote(view.tenant)}")
        reader = shared(view.caller, is_personal=screen.is_personal)
        live = LiveView(reader, view.host, url, self._fragments)
        since = seconds_of(request.headers.get(READ_AT))
        fragment = self._fragments.get(live, request.headers.get(ANNOUNCED), since)
        takes_packed = request.accept_encodings["gzip"] > 0
        session = browser.session_of(request)
        request.environ[KNOWN_FETCH] = KnownFetch(
            identity, session, live, request.endpoint or "", takes_packed
        )
        return _marked(fragment)

    # --- how ----------------------------------------------------------------------------------------------

    def _identity(self) -> Identity:
        """Who asks: the browser's session, or a token.

        Raises:
            Unauthenticated: nobody is logged in.
            CrossSite: another site asks in the name of the session.
        """
        session = browser.session_of(request)
        return self._authenticator.identify(request.headers, session, proxies.peer_of(request))

    def _view(self, tenant: str, path: str) -> View:
        """The request as a screen takes it.

        Raises:
            Unauthenticated: nobody is logged in.
            NotFound: the tenant is not the caller's.
        """
        return self._view_for(self._identity(), tenant, path)

    def _view_for(self, identity: Identity, tenant: str, path: str) -> View:
        """The request as a screen takes it, of somebody who is known.

        Raises:
            NotFound: the tenant is not theirs.
        """
        access = identity.access.within(tenant)
        if not identity.access.may_enter(check_name(tenant, "tenant")):
            raise NotFound(f"tenant {tenant[:80]!r} not found: not here, or not yours")
        fields = request.form if request.method == "POST" else request.args
        caller = Caller(access, tenant, request.remote_addr, identity.session_id, headers.request_id())
        return self._view_of(caller, path, fields, request.host_url.rstrip("/"))

    def _view_of(self, caller: Caller, path: str, fields: MultiDict[str, str], host: str) -> View:
        lists = {
            name: [value.replace("\0", "") for value in values]
            for name, values in fields.lists()
            if "\0" not in name
        }
        texts = {name: values[0] for name, values in lists.items()}
        return View(self._inside, caller, path, texts, lists, self._is_read_only, host, kept=self._kept)

    def _answer(self, view: View, page: ScreenPage, template: str, nav: str, status: int = 200) -> Response:
        is_fragment = FRAGMENT in request.headers
        body = self.rendered(view, page, template, nav, is_fragment=is_fragment)
        answer = Response(body, status, content_type=HTML)
        answer.headers["Vary"] = f"Cookie, {FRAGMENT}"
        if is_fragment:
            answer.headers[FRAGMENT] = "1"
        return answer

    def rendered(self, view: View, page: ScreenPage, template: str, nav: str, *, is_fragment: bool) -> bytes:
        """The page as HTML, or only what changes in it."""
        shell = {} if is_fragment else self._shell(view)
        layout = "fragment.html" if is_fragment else "base.html"
        variables = {"view": view, "page": page, "layout": layout, "nav_name": nav, **shell, **page.shown}
        return environment().get_template(template).render(variables).encode()

    def _shell(self, view: View | None) -> dict[str, Any]:
        theme = request.cookies.get("pipeweave-theme", "")
        paths = {screen.path for screen in self._screens}
        return {
            "theme": theme if theme in THEMES else "",
            "nav": [each for each in NAV if each.path in paths],
            "done": confirm.done_sentence(view.parameters.get("done")) if view else "",
            "banner": self._banner.text(view) if view else "",
            "open_approvals": waits.open_approvals(view) if view else "",
            "is_static": False,
        }

    def _guarded(self, serve: Callable[..., AnyResponse]) -> Callable[..., AnyResponse]:
        """Answer errors with a page."""

        def answer(**parts: str) -> AnyResponse:
            try:
                return serve(**parts)
            except Exception as error:
                return self._problem(error)

        return answer

    def _problem(self, error: Exception) -> AnyResponse:
        refused = errors.answer(error)
        if isinstance(error, Unauthenticated) and request.method == "GET" and FRAGMENT not in request.headers:
            return redirect(f"{ROOT}/login?{_next_query()}", 303)
        problem: Mapping[str, Any] = orjson.loads(refused.get_data())
        title = str(problem.get("title", "Error"))
        shown = {"title": title, "problem": problem}
        response = self._plain("problem.html", shown, refused.status_code, self._view_of_problem(error))
        if "Retry-After" in refused.headers:
            response.headers["Retry-After"] = refused.headers["Retry-After"]
        return response

    def _view_of_problem(self, error: Exception) -> View | None:
        """Where the reader is: an error keeps the navigation. None in an outage, and for a stranger."""
        tenant, _, rest = request.path.removeprefix(f"{ROOT}/").partition("/")
        if FRAGMENT in request.headers or tenant in NO_TENANTS or errors.answer(error).status_code >= 500:
            return None
        with suppress(PipeWeaveError):
            return self._view(tenant, f"/{rest}")
        return None

    def _plain(
        self, template: str, variables: Mapping[str, Any], status: int, view: View | None = None
    ) -> Response:
        """A page of nobody's: an error, the login. `title` is among the variables.

        Args:
            view: of somebody who is within a tenant: the page has the navigation.
        """
        plain = "base.html" if view else "plain.html"
        layout = "fragment.html" if FRAGMENT in request.headers else plain
        page = ScreenPage(variables["title"], variables)
        seen = {"view": view, "nav_name": ""} if view else {}
        shown = {"page": page, "layout": layout, **seen, **self._shell(view), **variables}
        html = environment().get_template(template).render(shown)
        return Response(html, status, content_type=HTML)


def _marked(fragment: Fragment) -> Response:
    is_packed = packing.is_wanted(request, fragment.body)
    answer = Response(fragment.packed if is_packed else fragment.body, content_type=HTML)
    if is_packed:
        answer.headers["Content-Encoding"] = "gzip"
    answer.headers[FRAGMENT] = "1"
    answer.headers["Vary"] = f"Cookie, {FRAGMENT}, Accept-Encoding"
    answer.headers["Cache-Control"] = "private, no-cache"
    answer.headers[READ_AT] = f"{fragment.read_at:.6f}"
    answer.set_etag(fragment.tag)
    answer.make_conditional(request)
    return answer


def _next_query() -> str:
    return urlencode({"next": request.full_path.rstrip("?")})


def _first_tenant(access: CallerAccess) -> str:
    named = [each for each in access.tenants if each != EVERY_TENANT]
    return named[0] if named else FIRST_TENANT


def _nowhere(rest: str) -> AnyResponse:
    raise NotFound(f"the dashboard has no page {rest[:200]!r}")
