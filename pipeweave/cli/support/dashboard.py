"""Where the dashboard of a stack that has just started is, for the last lines that a command prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeweave.errors import PipeWeaveError
from pipeweave.settings import load

if TYPE_CHECKING:
    from pipeweave.up.stack import Announcement


def login_link(ready: Announcement, path: str | None = None) -> str | None:
    """A link that logs a browser in, once, within a minute; None if the dashboard is switched off.

    Args:
        path: the page that it leads to; None for the first.

    Raises:
        PipeWeaveError: the API makes none.
    """
    from pipeweave.client import Client

    if not load().ui:
        return None
    with Client(ready.connection.url, ready.connection.token) as client:
        return client.login_link(path)


def dashboard_lines(
    ready: Announcement, path: str | None = None, *, again: str = "pipeweave open"
) -> list[str]:
    """The link, or the address alone where none can be made, as a line to print; none if it is switched off.

    Args:
        path: as of `login_link`.
        again: the command that makes another link.
    """
    try:
        link = login_link(ready, path)
    except PipeWeaveError as error:
        return [f"Dashboard: {ready.connection.url}/ui/ (log in with `{again}`; {error.code})"]
    return [f"Dashboard: {link} (works once, within a minute; later: {again})"] if link else []
