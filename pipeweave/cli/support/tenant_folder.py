"""A folder that the export of a tenant is written to: a file of each table, and `manifest.json`.

It is written beside its place, as FOLDER.part, and renamed when all of it is there and every file has the
hash that the server says. So a folder of that name is a whole export, whoever dies meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

MANIFEST = "manifest.json"
_TABLE = re.compile(rb'\{"table":"([a-z_]{1,63})","row":(\{.*\})\}')


@dataclass(slots=True)
class _TableFile:
    """A file of rows, with their number and hash."""

    out: BinaryIO
    rows: int = 0
    hash: Any = field(default_factory=hashlib.sha256)

    def write(self, row: bytes) -> None:
        self.out.write(row + b"\n")
        self.hash.update(row + b"\n")
        self.rows += 1


@dataclass(slots=True)
class TenantFolder:
    """An export in the making.

    Args:
        place: where it will be.
    """

    place: Path
    manifest: dict[str, Any] = field(default_factory=dict)
    _files: dict[str, _TableFile] = field(default_factory=dict)

    @classmethod
    def new(cls, place: Path) -> TenantFolder:
        """An export to a folder that is not there yet.

        Raises:
            UsageError: something is there already.
        """
        if place.exists():
            raise click.UsageError(f"{place} is there already; give the name of a new folder")
        return cls(place)

    @property
    def part(self) -> Path:
        """Where it is written meanwhile."""
        return self.place.with_name(f"{self.place.name}.part")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Begin anew, and close all files at the end.

        Raises:
            ClickException: a file cannot be written.
        """
        try:
            self._clear()
            self.part.mkdir(parents=True)
            yield
        except OSError as error:
            raise click.ClickException(f"{self.part} cannot be written: {error.strerror}") from error
        finally:
            for each in self._files.values():
                each.out.close()

    def _clear(self) -> None:
        """Remove what an interrupted export has left, and nothing else."""
        if not self.part.exists():
            return
        others = [each.name for each in self.part.iterdir() if each.suffix not in (".ndjson", ".json")]
        if others:
            raise click.UsageError(f"{self.part} has files of others, such as {others[0]}; remove them first")
        shutil.rmtree(self.part)

    def take(self, lines: Sequence[bytes]) -> None:
        """Write the next lines of the export.

        Raises:
            ClickException: a line is none of an export of a tenant.
        """
        for line in lines:
            if match := _TABLE.fullmatch(line):
                self._file(match[1].decode()).write(match[2])
            elif line.startswith(b'{"manifest":'):
                self.manifest = json.loads(line)["manifest"]
            elif not line.startswith(b'{"export":'):
                raise click.ClickException("the server has sent what is no export of a tenant")

    def _file(self, table: str) -> _TableFile:
        if table not in self._files:
            self._files[table] = _TableFile((self.part / f"{table}.ndjson").open("wb"))
        return self._files[table]

    def finish(self) -> dict[str, Any]:
        """Compare with the manifest, write it, and bring the folder to its place; the manifest.

        Raises:
            ClickException: a file is not what the server has sent, or the folder cannot be moved.
        """
        written = {
            name: {"rows": each.rows, "sha256": each.hash.hexdigest()} for name, each in self._files.items()
        }
        said = {name: each for name, each in self.manifest.get("tables", {}).items() if each["rows"]}
        if written != said or not self.manifest:
            wrong = sorted(name for name in {*written, *said} if written.get(name) != said.get(name))
            raise click.ClickException(
                f"the export is not whole: {', '.join(wrong or [MANIFEST])}; begin it anew"
            )
        try:
            (self.part / MANIFEST).write_text(json.dumps(self.manifest, indent=2, ensure_ascii=False) + "\n")
            for each in self.part.iterdir():
                _sync(each)
            self.part.rename(self.place)
        except OSError as error:
            raise click.ClickException(f"{self.place} cannot be written: {error.strerror}") from error
        return self.manifest


def _sync(path: Path) -> None:
    with path.open("rb") as out:
        os.fsync(out.fileno())
