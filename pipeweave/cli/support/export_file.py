"""A file that an export is written to, with a note beside it of how far it is good.

The note is replaced in one step after each page. What stands behind it in the file was written by a process
that was interrupted before it could note it, and is cut off when the export goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

if TYPE_CHECKING:
    from pipeweave.client import Client


@dataclass(slots=True)
class ExportFile:
    """An export in the making.

    Args:
        kind: of the export.
        filters: its parameters, with absolute times.
        cursor: where it goes on; None at the beginning.
        size: bytes of the file that are good.
        rows: lines of it.
    """

    path: Path
    kind: str
    filters: dict[str, Any] = field(default_factory=dict)
    cursor: str | None = None
    size: int = 0
    rows: int = 0

    @classmethod
    def new(cls, path: Path, kind: str, filters: dict[str, Any]) -> ExportFile:
        """An export from the beginning; the file is emptied when it is opened."""
        return cls(path, kind, filters)

    @classmethod
    def interrupted(cls, path: Path, kind: str) -> ExportFile:
        """An export that was interrupted.

        Raises:
            UsageError: no such export was interrupted here.
        """
        try:
            noted = json.loads(_cursor_file(path).read_bytes())
            export = cls(path, **noted)
        except FileNotFoundError:
            raise click.UsageError(
                f"no export to {path} was interrupted: there is no {_cursor_file(path)}"
            ) from None
        except (ValueError, TypeError):
            raise click.UsageError(f"{_cursor_file(path)} is no note of an export") from None
        if export.kind != kind:
            raise click.UsageError(f"{path} is an export of {export.kind}, not of {kind}")
        if not path.exists() or path.stat().st_size < export.size:
            raise click.UsageError(f"{path} has less in it than was exported; export anew, without --resume")
        return export

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file, open for what follows.

        Raises:
            ClickException: it cannot be written.
        """
        try:
            with self.path.open("r+b" if self.size else "wb") as out:
                out.truncate(self.size)
                out.seek(self.size)
                yield out
        except OSError as error:
            raise click.ClickException(f"{self.path} cannot be written: {error.strerror}") from error

    def record(self, out: BinaryIO, cursor: str, rows: int) -> None:
        """Note that a page is in the file, to its end."""
        out.flush()
        os.fsync(out.fileno())
        self.cursor, self.size, self.rows = cursor, out.tell(), self.rows + rows
        noted = {name: value for name, value in asdict(self).items() if name != "path"}
        part = _cursor_file(self.path).with_suffix(".cursor-part")
        part.write_text(json.dumps(noted))
        part.replace(_cursor_file(self.path))

    def finish(self) -> None:
        """The export is complete: there is nothing to go on with."""
        _cursor_file(self.path).unlink(missing_ok=True)


def _cursor_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.cursor")


def write_rows(client: Client, kind: str, filters: Mapping[str, Any]) -> int:
    """Write the rows of an export to the standard output, one a line; returns their number."""
    count = 0
    for page in client.export_pages(kind, **filters):
        sys.stdout.buffer.writelines(line + b"\n" for line in page.lines)
        sys.stdout.buffer.flush()
        count += len(page.lines)
    return count
