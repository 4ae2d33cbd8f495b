"""A small real OpenID provider: it logs everybody in as `person`, and can be made to do wrong."""

from __future__ import annotations

import base64
import functools
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from flask import Flask, Response, jsonify, redirect, request
from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

CLIENT_ID, CLIENT_SECRET = "pipe weave", "s3cret:+/ü"


@functools.cache
def first_key() -> RSAKey:
    """The key of every provider until it changes it: to make one takes longer than to log in."""
    return RSAKey.generate_key(2048, {"kid": "k1"})


@dataclass
class OpenIdProvider:
    """What it says, and what was asked.

    Args:
        person: the claims of who logs in.
        lies: claims that replace others; None removes one.
        alter: gets an ID token, and what it gives back is sent.
        header: members that replace others of the header of ID tokens.
        published: the keys that it says it has; None: the one that it signs with.
        document: members that replace others of what it says of itself; None removes one.
        in_userinfo: the ID token has nothing but `sub`.
        is_asking: there is a page with a link at the provider.
        knows: it vouches for the person still.
        down: paths that answer 500.
        huge: paths that answer with a megabyte.
        slow: paths that answer after the test sets `released`.
    """

    url: str = ""
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "ann-17", "preferred_username": "ann", "groups": ["engineers"]}
    )
    lies: dict[str, Any] = field(default_factory=dict)
    alter: Callable[[str], Any] = str
    header: dict[str, Any] = field(default_factory=dict)
    key: Any = field(default_factory=first_key)
    published: list[Any] | None = None
    document: dict[str, Any] = field(default_factory=dict)
    in_userinfo: bool = False
    gives_refresh: bool = True
    refresh_has_id_token: bool = True
    is_asking: bool = False
    knows: bool = True
    down: set[str] = field(default_factory=set)
    huge: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    refresh_tokens: set[str] = field(default_factory=set)
    access_tokens: set[str] = field(default_factory=set)

    def app(self) -> Flask:
        app = Flask("provider")
        app.before_request(self._misbehave)
        app.add_url_rule("/.well-known/openid-configuration", view_func=self._configuration)
        app.add_url_rule("/keys", view_func=self._keys)
        app.add_url_rule("/authorize", view_func=self._authorize)
        app.add_url_rule("/token", view_func=self._token, methods=["POST"])
        app.add_url_rule("/userinfo", view_func=self._userinfo)
        return app

    def _misbehave(self) -> Response | None:
        self.asked.append(request.path)
        if request.path in self.slow:
            self.released.wait(30)
        if request.path in self.down:
            return Response("<h1>away</h1>", 500)
        return Response("x" * 1_000_000, 200) if request.path in self.huge else None

    def _configuration(self) -> Response:
        names = ("authorize", "token", "keys", "userinfo")
        authorize, token, keys, userinfo = (f"{self.url}/{name}" for name in names)
        document = {
            "issuer": self.url,
            "authorization_endpoint": authorize,
            "token_endpoint": token,
            "jwks_uri": keys,
            "userinfo_endpoint": userinfo,
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }
        return jsonify({name: each for name, each in {**document, **self.document}.items() if each})

    def _keys(self) -> Response:
        keys = [self.key] if self.published is None else self.published
        return jsonify({"keys": [each.as_dict(private=False, use="sig") for each in keys]})

    def _authorize(self) -> Any:
        if self.is_asking and "yes" not in request.args:
            query = request.query_string.decode()
            return f'<h1>Provider</h1><a href="/authorize?{query}&yes=1">Continue as ann</a>'
        asked = request.args
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe()
        self.codes[code] = dict(asked)
        return redirect(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")

    def _token(self) -> Any:
        wanted = base64.b64encode(
            f"{urlencode({'': CLIENT_ID})[1:]}:{urlencode({'': CLIENT_SECRET})[1:]}".encode()
        ).decode()
        if request.headers.get("Authorization") != f"Basic {wanted}":
            return jsonify(error="invalid_client"), 401
        form = request.form
        if form["grant_type"] == "refresh_token":
            # Each is good for one use.
            if not self.knows or form["refresh_token"] not in self.refresh_tokens:
                return jsonify(error="invalid_grant"), 400
            self.refresh_tokens.remove(form["refresh_token"])
            return self._answer(None, has_id_token=self.refresh_has_id_token)
        login = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            login is None
            or login["redirect_uri"] != form["redirect_uri"]
            or login["code_challenge"] != challenge
        ):
            return jsonify(error="invalid_grant"), 400
        return self._answer(login["nonce"], has_id_token=True)

    def _answer(self, nonce: str | None, *, has_id_token: bool) -> Response:
        access_token, refresh_token = secrets.token_urlsafe(), secrets.token_urlsafe()
        self.access_tokens.add(access_token)
        answer = {"access_token": access_token, "token_type": "Bearer", "expires_in": 300}
        if has_id_token:
            answer["id_token"] = self.alter(self.id_token(nonce))
        if self.gives_refresh:
            self.refresh_tokens.add(refresh_token)
            answer["refresh_token"] = refresh_token
        return jsonify(answer)

    def id_token(self, nonce: str | None) -> str:
        """An ID token, with the lies."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        person = {"sub": self.person["sub"]} if self.in_userinfo else self.person
        claims = {**claims, **person, **self.lies}
        header = {"alg": "RS256", "kid": self.key.kid, **self.header}
        return jwt.encode(header, {name: each for name, each in claims.items() if each is not None}, self.key)

    def _userinfo(self) -> Any:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return jsonify(self.person) if token in self.access_tokens else (jsonify(error="invalid_token"), 401)


@contextmanager
def running_provider() -> Iterator[OpenIdProvider]:
    """Serve until the block ends."""
    provider = OpenIdProvider()
    server = make_server("127.0.0.1", 0, provider.app(), threaded=True)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
