"""A real browser on the dashboard. Whatever a page does wrong by itself fails the test that visits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Response,
    ViewportSize,
    expect,
)

BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# On a busy machine a view that took a second to compute rests for twenty (orchestrator/stream/pace.py).
WAIT_MS = 60_000
expect.set_options(WAIT_MS)
_AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
# Of a rule that holds, one node is described, and nothing leaves the page: that was half of the time.
# Nor are style sheets and media loaded a second time: no rule of ours reads them, and no page plays anything.
_BROKEN = """async (tags) => {
  const only = { type: "tag", values: tags };
  const found = await axe.run(document, { runOnly: only, resultTypes: ["violations"], preload: false });
  return found.violations.map(({ id, help, nodes }) =>
    `${id}: ${help}: ${JSON.stringify(nodes.slice(0, 5).map((node) => node.target))}`);
}"""
_TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class Visit:
    """A person at a browser, in one tenant.

    Args:
        root: the address of the tenant's first page, without the last slash.
        expected: parts of complaints that the test provokes.
    """

    context: BrowserContext
    page: Page
    server: str
    tenant: str
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"{self.server}/ui/{self.tenant}"

    def open(self, path: str, *, status: int = 200) -> Page:
        """Go to a page of the tenant, e.g. `/runs`, and check that it answers with this status."""
        if status >= 400:
            self.expected.append(f"status of {status}")
        answer = self.page.goto(f"{self.root}{path}")
        assert answer is not None
        assert answer.status == status, self.page.content()[:2_000]
        return self.page

    def see(self, text: str) -> Locator:
        """Wait until the page shows this text."""
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def axe(self) -> None:
        """Check that the page, as it is now, breaks no rule of accessibility."""
        self.page.evaluate(_AXE)
        broken: list[str] = self.page.evaluate(_BROKEN, _RULES)
        assert not broken, "\n".join(broken)

    def axe_in_both_themes(self, *sizes: ViewportSize) -> None:
        """Check it in the light and in the dark without loading it again, and leave it in the dark.

        Args:
            sizes: of its window, one after the other; without one, it stays as it is.
        """
        for size in sizes or (None,):
            if size is not None:
                self.page.set_viewport_size(size)
            for scheme in ("light", "dark"):
                self.page.emulate_media(color_scheme=scheme)
                # Its scripts hear of both with the next frame.
                self.page.evaluate(_TWO_FRAMES)
                self.axe()

    def check(self) -> None:
        """Check that no page logged an error, broke the policy, or asked another host."""
        found = [each for each in self.complaints if not any(part in each for part in self.expected)]
        assert not found, "\n".join(found)


@contextmanager
def visiting(
    browser: Browser, server: str, tenant: str, token: str | None = None, **options: Any
) -> Iterator[Visit]:
    """A fresh browser profile whose requests carry the token.

    Args:
        options: of the context, e.g. `viewport`, `color_scheme`, `java_script_enabled`.
    """
    chosen: dict[str, Any] = {"viewport": WIDE, "reduced_motion": "reduce", **options}
    if token is not None:
        chosen["extra_http_headers"] = {"Authorization": f"Bearer {token}"}
    context = browser.new_context(**chosen)
    context.set_default_timeout(WAIT_MS)
    visit = Visit(context, context.new_page(), server, tenant)
    context.on("console", lambda message: _hear(visit, message))
    context.on("weberror", lambda error: visit.complaints.append(f"error: {error.error}"))
    context.on("request", lambda request: _check_host(visit, request))
    context.on("response", lambda response: _check_answer(visit, response))
    try:
        yield visit
        visit.check()
    finally:
        context.close()


def _hear(visit: Visit, message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        visit.complaints.append(f"console: {message.text} ({message.location.get('url')})")


def _check_host(visit: Visit, request: Request) -> None:
    if urlsplit(request.url).netloc != urlsplit(visit.server).netloc and not request.url.startswith("blob:"):
        visit.complaints.append(f"asked another host: {request.url}")


def _check_answer(visit: Visit, response: Response) -> None:
    if response.status >= 500:
        visit.complaints.append(f"answered: status of {response.status} at {response.url}")
