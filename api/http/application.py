"""Flask's application, without what nobody asks of it here in each request.

There are no sessions, blueprints, names of hosts or asynchronous views of Flask's. Hooks before and after a
request, handlers of errors, signals and functions for the end of a request work as in Flask. What Flask
passes on besides is passed on as it is: newer versions pass their context.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Request, Response, request
from flask.sessions import NullSession, SessionInterface
from flask.signals import request_finished, request_started, request_tearing_down
from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map, MapAdapter, Rule
from werkzeug.wsgi import get_host

# Characters of a path whose rule is remembered.
LONGEST = 512

RuleOf = Callable[[str, str], tuple[Rule, Mapping[str, Any]]]


_request: Any = request
# The request that this thread serves. To use Flask's `request` is to look for it at each use.
current_request: Callable[[], Request] = _request._get_current_object


class _NoSessions(SessionInterface):
    """Opens the one session that holds nothing, and refuses to be written to."""

    _nothing = NullSession()

    def open_session(self, app: Flask, request: Request) -> NullSession:
        return self._nothing

    def save_session(self, app: Flask, session: Any, response: Response) -> None:
        """Nothing is written to it."""


class _Adapter(MapAdapter):
    """Finds the rule of one request's path."""

    def __init__(self, rule_of: RuleOf, map: Map, *environ: str) -> None:
        super().__init__(map, *environ)
        self._rule_of = rule_of

    def match(self, *args: Any, **options: Any) -> Any:
        """The rule, and what stands in the path; an error of werkzeug says what is asked of the client."""
        if args or options != {"return_rule": True} or len(self.path_info) > LONGEST:
            return super().match(*args, **options)
        try:
            rule, in_path = self._rule_of(self.path_info, self.default_method)
        except HTTPException:
            # Where it leads has the name of the host in it.
            return super().match(**options)
        return rule, dict(in_path)


class HttpApplication(Flask):
    """An application that does for a request what is needed, and no more."""

    session_interface = _NoSessions()

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself: none is a coroutine, and Flask would look seven times in each request."""
        return func

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """What finds the rule of a request's path; None outside of a request.

        Raises:
            BadHost: the name of the host is none.
        """
        if request is None or "HTTP_UPGRADE" in request.environ:
            return super().create_url_adapter(request)
        environ = request.environ
        asked = environ.get("HTTP_HOST"), environ.get("SERVER_NAME"), environ.get("SERVER_PORT")
        scheme = environ["wsgi.url_scheme"]
        request.host, bound = self._host_of(scheme, *asked)
        return _Adapter(
            self._rule_of,
            self.url_map,
            bound,
            _decoded(environ.get("SCRIPT_NAME", "/")),
            "",
            scheme,
            _decoded(environ.get("PATH_INFO", "/")),
            environ["REQUEST_METHOD"],
            _decoded(environ.get("QUERY_STRING", "")),
        )

    @functools.cached_property
    def _host_of(self) -> Callable[..., tuple[str, str]]:
        """Finds the host of a request and the name that its rules are bound to, the last ones from memory."""

        @functools.lru_cache(maxsize=64)
        def host_of(scheme: str, header: str | None, name: str | None, port: str | None) -> tuple[str, str]:
            environ: dict[str, Any] = {"wsgi.url_scheme": scheme, "HTTP_HOST": header, "SERVER_PORT": port}
            host = get_host(environ if name is None else {**environ, "SERVER_NAME": name})
            return host, self.url_map.bind(host, subdomain="").server_name

        return host_of

    @functools.cached_property
    def _rule_of(self) -> RuleOf:
        """Finds the rule of a path and what stands in the path, the last ones from memory."""

        @functools.lru_cache(maxsize=256)
        def rule_of(path: str, method: str) -> tuple[Rule, Mapping[str, Any]]:
            bound = self.url_map.bind("", subdomain="", path_info=path, default_method=method)
            return bound.match(return_rule=True)

        return rule_of

    def full_dispatch_request(self, *context: Any) -> Response:
        """Answer the current request by its view, a hook before it, or the handler of its error."""
        self._got_first_request = True
        # What Flask's own methods take depends on its version.
        flask: Any = self
        try:
            if request_started.receivers:
                request_started.send(self, _async_wrapper=self.ensure_sync)
            answer = self.preprocess_request(*context)
            if answer is None:
                answer = self.dispatch_request(*context)
        except Exception as error:
            answer = flask.handle_user_exception(*context, error)
        return self.finalize_request(*context, answer)

    def preprocess_request(self, *context: Any) -> Any:
        """Call the hooks before the view; the answer of the first that has one."""
        if self.blueprints or self.url_value_preprocessors:
            return super().preprocess_request(*context)
        for before in self.before_request_funcs.get(None, ()):
            answer = before()
            if answer is not None:
                return answer
        return None

    def dispatch_request(self, *context: Any) -> Any:
        """Call the view of the current request."""
        asked: Any = current_request()
        if asked.routing_exception is not None or asked.method == "OPTIONS":
            return super().dispatch_request(*context)
        return self.view_functions[asked.url_rule.endpoint](**asked.view_args)

    def finalize_request(self, *context: Any, **options: Any) -> Response:
        """Call the hooks after the view on its answer."""
        *before, answer = context
        is_whole = isinstance(answer, Response) and not request_finished.receivers
        if not is_whole or options or self.blueprints:
            return super().finalize_request(*context, **options)
        return self.process_response(*before, answer)

    def process_response(self, *context: Any) -> Response:
        """Call the hooks after the view, the last one first. There are none for one request alone, and no
        session to be saved.
        """
        response: Response = context[-1]
        for after in reversed(self.after_request_funcs.get(None, ())):
            response = after(response)
        return response

    def do_teardown_request(self, *context: Any) -> None:
        """Call what asked to be called at the end of each request."""
        if self.teardown_request_funcs or request_tearing_down.receivers:
            super().do_teardown_request(*context)


def _decoded(text: str) -> str:
    """Text of an environ (PEP 3333) as UTF-8."""
    return text.encode("latin1").decode("utf-8", "replace")
