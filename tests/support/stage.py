"""A browser whose requests this process answers itself, at the frozen time: no server, no socket, no port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from playwright.sync_api import Browser, Route

from support.browser import Visit, visiting

# Browsers trust this name as they do HTTPS.
HOST = "http://localhost"
# What Playwright says of the answer itself.
_OWN = {"content-length", "connection", "transfer-encoding"}


@contextmanager
def staged(
    browser: Browser, app: Flask, tenant: str, token: str, now: datetime, **options: Any
) -> Iterator[Visit]:
    """A visit to an application of this process, for which it is `now` in UTC.

    Args:
        options: as of `visiting`.
    """
    zone = {"timezone_id": "UTC", "locale": "en-GB"}
    with visiting(browser, HOST, tenant, token, **zone, **options) as visit:
        visit.page.clock.set_fixed_time(now)
        visit.context.route("**/*", lambda route: _answer(app, route))
        yield visit


def _answer(app: Flask, route: Route) -> None:
    """Answer a request. The stream of announcements is left open: nothing ever happens here."""
    asked = route.request
    url = urlsplit(asked.url)
    if url.path == "/api/live":
        return
    path = f"{url.path}?{url.query}" if url.query else url.path
    sent = {name: value for name, value in asked.headers.items() if name != "accept-encoding"}
    with app.test_client() as client:
        found = client.open(
            path, method=asked.method, headers=sent, data=asked.post_data_buffer, base_url=HOST
        )
        said = {name: value for name, value in found.headers.items() if name.lower() not in _OWN}
        route.fulfill(status=found.status_code, headers=said, body=found.get_data())
