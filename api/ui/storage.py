"""Storage: where values lie now and how much, what was uploaded, and one stored object."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pipeweave.api.http import Download
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.view import View
from pipeweave.errors import Forbidden

screens = Screens("storage")

# What lies below a first folder.
HOLDS = {
    "artifacts": "values and files, by their content",
    "pipelines": "what the steps of runs read",
    "runs": "outputs, files and logs of attempts",
    "standalone": "what standalone tasks read",
    "temp-uploads": "uploads",
}


@screens.add("/storage", "storage.html")
def storage(view: View) -> ScreenPage:
    """The backends without their credentials, the files that were uploaded, and what lies in one backend."""
    listing = view.ask("storage.list_backends")
    uploads = view.ask("uploads.list_uploads", view.only("cursor", limit="50"))
    shown = {
        "backends": listing["backends"],
        "default": listing["default"],
        "uploads": uploads["uploads"],
        "cursor": uploads["nextCursor"],
        "stats": None,
        "usage": None,
        "holds": HOLDS,
    }
    with suppress(Forbidden):
        shown["stats"] = view.ask("uploads.upload_stats")
    if view.parameters.get("backend"):
        shown["usage"] = view.ask("storage.storage_usage", view.only("backend", "prefix"))
    return ScreenPage("Storage", shown)


@screens.add("/storage/object", "stored_object.html")
def stored_object(view: View) -> ScreenPage:
    """One object: JSON, text, a table or an image. Nothing else that an object holds is ever shown."""
    path = _path(view)
    name = view.parameters.get("name")
    shown: dict[str, Any] = {"path": path, "name": name, "found": None}
    if path:
        shown["found"] = preview = view.ask("storage.preview_object", view.only("backend", "name"), path=path)
        shown["why"] = _why(preview)
        shown["sha256"] = path.rpartition("/")[2] if path.startswith("artifacts/sha256/") else None
    return ScreenPage(name or path.rpartition("/")[2] or "Stored object", shown)


@screens.file("/storage/file")
def stored_file(view: View) -> Download:
    """The bytes of an object, which a browser saves, or shows as an image within a page."""
    return view.fetch("storage.get_object", view.only("backend", "name", raw="true"), path=_path(view) or "-")


def _path(view: View) -> str:
    return view.parameters.get("path", "").strip()


def _why(preview: Mapping[str, Any]) -> str:
    """Why an object is not shown, in a sentence."""
    if preview["kind"] != "none":
        return ""
    if preview["mediaType"].startswith("image/"):
        return "Images of at most 1 MB are shown here."
    return "It is no text, so only its bytes are to be had."
