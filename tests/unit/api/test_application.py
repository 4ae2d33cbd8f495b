"""The application leaves out work of Flask's, and answers as Flask does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Blueprint, Flask, Response, abort, jsonify, request, session, url_for
from flask.signals import request_finished, request_started, request_tearing_down
from werkzeug.test import EnvironBuilder, run_wsgi_app

from pipeweave.api.http.application import HttpApplication
from pipeweave.api.http.json_answer import JsonAnswer

Seen = list[str]


def built(kind: type[Flask], seen: Seen) -> Flask:
    """An application with hooks and views that tell what they were given."""
    app = kind("test")

    @app.before_request
    def stop() -> Any:
        seen.append("before")
        return ("stopped", 418) if request.args.get("stop") else None

    @app.after_request
    def first(answer: Response) -> Response:
        seen.append(f"after {answer.status_code}")
        return answer

    @app.after_request
    def last(answer: Response) -> Response:
        seen.append("after that")
        return answer

    @app.teardown_request
    def over(error: BaseException | None) -> None:
        seen.append(f"over {error!r}")

    @app.errorhandler(ValueError)
    def wrong(error: ValueError) -> tuple[str, int]:
        return f"wrong: {error}", 400

    @app.route("/shown/<name>", methods=["GET", "POST"])
    def shown(name: str) -> Any:
        return jsonify(name=name, host=request.host, url=request.url, of=url_for("shown", name="x"))

    @app.route("/fails/<how>")
    def fails(how: str) -> Any:
        raise {"value": ValueError("no"), "key": KeyError("no")}[how]

    @app.route("/refused")
    def refused() -> Any:
        abort(409)

    return app


def told(kind: type[Flask], environ: dict[str, Any], prepare: Callable[[Flask], None] | None = None) -> Any:
    """What an application answers, the second time from memory, and what its hooks saw."""
    seen: Seen = []
    app = built(kind, seen)
    if prepare is not None:
        prepare(app)
    answers = []
    for _ in range(2):
        content, status, headers = run_wsgi_app(app.wsgi_app, dict(environ))
        answers.append((b"".join(content), status, sorted(headers)))
    return answers, seen


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/shown/a", {}),
        ("/shown/a?x=1&y=ü", {}),
        ("/shown/a?stop=1", {}),
        ("/shown/%C3%BC", {}),
        ("/shown/%FF", {}),
        ("/shown/a/", {}),
        ("//shown/a", {}),
        ("/none", {}),
        ("/refused", {}),
        ("/fails/value", {}),
        ("/fails/key", {}),
        ("/shown/a", {"REQUEST_METHOD": "HEAD"}),
        ("/shown/a", {"REQUEST_METHOD": "OPTIONS"}),
        ("/shown/a", {"REQUEST_METHOD": "DELETE"}),
        ("/shown/a", {"HTTP_HOST": "Example.COM:8080"}),
        ("/shown/a", {"HTTP_HOST": "example.com:80"}),
        ("/shown/a", {"HTTP_HOST": "[::1]:8080"}),
        ("/shown/a", {"HTTP_HOST": ""}),
        ("/shown/a", {"HTTP_HOST": "bad host/"}),
        ("/shown/a", {"HTTP_HOST": f"{'x' * 64}.com"}),
        ("/shown/a", {"SCRIPT_NAME": "/below"}),
        ("/shown/a", {"wsgi.url_scheme": "https", "HTTP_HOST": "example.com:443"}),
        ("/shown/a", {"HTTP_UPGRADE": "websocket", "HTTP_CONNECTION": "Upgrade"}),
        ("/shown/a", {"SERVER_NAME": "/run/sock", "SERVER_PORT": ""}),
    ],
)
def test_it_answers_as_flask_does(path: str, changes: dict[str, Any]) -> None:
    environ = {**EnvironBuilder(path).get_environ(), **changes}
    if environ["SERVER_NAME"].startswith("/"):
        del environ["HTTP_HOST"]
    assert told(HttpApplication, environ) == told(Flask, environ)


def test_each_host_is_its_own() -> None:
    app = built(HttpApplication, [])
    for host in ("a.example", "b.example", "a.example"):
        answer = app.test_client().get("/shown/x", headers={"Host": host})
        assert answer.json["host"] == host


def test_what_a_view_does_to_what_stands_in_a_path_is_not_seen_by_the_next_request() -> None:
    app, seen = built(HttpApplication, []), []

    @app.before_request
    def change() -> None:
        assert request.view_args is not None
        seen.append(dict(request.view_args))
        request.view_args["name"] = "changed"

    for _ in range(2):
        assert app.test_client().get("/shown/x").json["name"] == "changed"
    assert seen == [{"name": "x"}] * 2


def test_a_path_has_the_rule_of_its_method() -> None:
    app = built(HttpApplication, [])
    app.add_url_rule("/shown/<name>", "other", lambda name: f"put {name}", methods=["PUT"])
    for _ in range(2):
        assert app.test_client().get("/shown/x").json["name"] == "x"
        assert app.test_client().put("/shown/x").text == "put x"
        assert app.test_client().delete("/shown/x").status_code == 405


def test_signals_reach_who_listens() -> None:
    app, seen = built(HttpApplication, []), []
    signals = (request_started, request_finished, request_tearing_down)
    for signal in signals:

        def listen(sender: Any, name: str = signal.name, **more: Any) -> None:
            seen.append(name)

        signal.connect(listen, app, weak=False)
    app.test_client().get("/shown/x")
    assert seen == [signal.name for signal in signals]


def test_blueprints_have_their_hooks() -> None:
    def prepare(app: Flask) -> None:
        part = Blueprint("part", "test", url_prefix="/part")
        part.before_request(lambda: ("from the part", 200))
        part.add_url_rule("/here", "here", lambda: "never")
        app.register_blueprint(part)

    environ = EnvironBuilder("/part/here").get_environ()
    answers, seen = told(HttpApplication, environ, prepare)
    assert (answers, seen) == told(Flask, environ, prepare)
    assert answers[0][0] == b"from the part"


def test_nobody_writes_into_a_session() -> None:
    app = built(HttpApplication, [])

    @app.route("/writes")
    def writes() -> Any:
        session["a"] = 1

    app.testing = True
    with pytest.raises(RuntimeError, match="session"):
        app.test_client().get("/writes")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("status", [200, 201, 204, 304, 400])
def test_an_answer_leaves_as_one_of_werkzeug_does(status: int, method: str) -> None:
    def sent(kind: type[Response]) -> Any:
        answer = kind(b'{"a":1}', status, content_type="application/json")
        answer.headers["X-More"] = "1"
        content, line, headers = run_wsgi_app(answer, EnvironBuilder(method=method).get_environ())
        return b"".join(content), line, list(headers)

    assert sent(JsonAnswer) == sent(Response)


def test_what_is_to_be_done_when_an_answer_is_sent_is_done() -> None:
    closed: Seen = []
    answer = JsonAnswer(b"{}", 200, content_type="application/json")
    answer.call_on_close(lambda: closed.append("closed"))
    content, _, _ = run_wsgi_app(answer, EnvironBuilder().get_environ(), buffered=True)
    assert (b"".join(content), closed) == (b"{}", ["closed"])
