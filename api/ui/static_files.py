"""Serves the dashboard's style sheets and scripts, at addresses that change with their content.

The address holds a digest of the whole folder, so browsers may keep the files for ever, and modules that
import each other by relative paths always fit together.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from flask import Response, request

from pipeweave.errors import NotFound

FOLDER = Path(__file__).parent / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# All style sheets as one file, so that a first visit asks for one. Those named here come first.
ALL_STYLES = "css/all.css"
_FIRST = ("css/tokens.css", "css/base.css", "css/shell.css", "css/parts.css", "css/screens.css")
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    plain: bytes
    packed: bytes
    type: str


def _all_styles(contents: dict[str, bytes]) -> bytes:
    styles = [name for name in contents if name.startswith("css/")]
    styles.sort(key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return b"\n".join(contents[name] for name in styles)


class StaticFiles:
    """All files, read and packed once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.suffix in TYPES)
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        contents[ALL_STYLES] = _all_styles(contents)
        digest = hashlib.sha256()
        for name, content in contents.items():
            digest.update(f"{name}\n{len(content)}\n".encode() + content)
        self.digest = digest.hexdigest()[:16]
        self._files = {
            name: _File(content, gzip.compress(content, 9, mtime=0), TYPES[Path(name).suffix])
            for name, content in contents.items()
        }

    def url(self, name: str) -> str:
        """The address of a file, e.g. of `js/boot.js`.

        Raises:
            KeyError: there is none; the template is wrong.
        """
        self._files[name]
        return f"/ui/static/{self.digest}/{name}"

    def serve(self, digest: str, name: str) -> Response:
        """Answer with a file. A page of another version, still open, gets this version's, and keeps it not.

        Raises:
            NotFound: there is no such file.
        """
        file = self._files.get(name)
        if file is None:
            raise NotFound(f"the dashboard has no file {name[:200]!r}")
        is_packed = request.accept_encodings["gzip"] > 0
        answer = Response(
            file.packed if is_packed else file.plain, content_type=f"{file.type}; charset=utf-8"
        )
        if is_packed:
            answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Vary"] = "Accept-Encoding"
        answer.headers["Cache-Control"] = _FOR_EVER if digest == self.digest else "no-cache"
        return answer


@functools.cache
def static_files() -> StaticFiles:
    """The files of this version, packed once for all applications of a process."""
    return StaticFiles()
