"""Storage: where values lie now, what was uploaded, and one stored object."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pipeweave.api.ui.screens import Page, Screens
from pipeweave.api.ui.view import View
from pipeweave.errors import Forbidden, InvalidInput, LimitExceeded, NotJson

screens = Screens("storage")

# Of an object that is JSON, so much text is shown.
MOST_SHOWN = 1_000_000


@screens.add("/storage", "storage.html")
def storage(view: View) -> Page:
    """The backends without their credentials, and the files that were uploaded."""
    found = view.ask("storage.list_backends")
    uploads = view.ask("uploads.list_uploads", view.only("cursor", limit="50"))
    shown = {
        "backends": found["backends"],
        "default": found["default"],
        "uploads": uploads["uploads"],
        "cursor": uploads["nextCursor"],
        "stats": None,
    }
    with suppress(Forbidden):
        shown["stats"] = view.ask("uploads.upload_stats")
    return Page("Storage", shown)


@screens.add("/storage/object", "stored_object.html")
def stored_object(view: View) -> Page:
    """One object: JSON as text, anything else to download. What an object holds is never rendered."""
    path = view.given.get("path", "").strip()
    shown: dict[str, Any] = {
        "path": path,
        "backend": view.given.get("backend", ""),
        "content": None,
        "why": "",
    }
    if path:
        try:
            found = view.ask("storage.get_object", view.only("backend"), path=path)
            shown["content"], shown["backend"] = found["content"], found["backend"]
        except (NotJson, LimitExceeded) as error:
            shown["why"] = error.detail
        except InvalidInput as error:
            if error.errors:
                raise
            shown["why"] = "It is not JSON."
    return Page(path.rpartition("/")[2] or "Stored object", shown)
