"""Adds the policy of Trusted Types with which the theme's own script runs.

The theme writes HTML and starts a worker for the search as browsers did before Trusted Types. The policy
named `default` is asked for each of them: text from the built pages may become HTML, where the site's other
rules still hold, a worker may come from this site alone, and text never becomes a script.
"""

from __future__ import annotations

from pathlib import Path

NAME = "assets/own/trusted-types.js"
SCRIPT = """\
if (window.trustedTypes) {
  const site = new URL("../../", document.currentScript.src).href;
  trustedTypes.createPolicy("default", {
    createHTML: (text) => text,
    createScriptURL: (address) => {
      const { href } = new URL(address, location.href);
      if (href.startsWith(site)) return href;
      throw new TypeError(`no script comes from ${href}`);
    },
  });
}
"""


def add(site: Path) -> None:
    """Make it the first script of each page.

    Args:
        site: the folder of the built site.
    """
    file = site / NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SCRIPT)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        tag = f'<script src="{up}{NAME}"></script>'
        page.write_text(page.read_text().replace("<head>", f"<head>\n    {tag}", 1))
