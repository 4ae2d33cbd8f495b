"""Define AttemptFiles: what a worker gives a Context for assets, uploads and temporary files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class AttemptFiles(Protocol):
    """The files of one attempt. Nothing is made, asked for or loaded before a method is called."""

    @property
    def temp_dir(self) -> Path:
        """A folder for the attempt alone; it is deleted after the call."""

    def add(self, key: str, value: Any) -> None:
        """Keep a value as an asset of the result."""

    def add_path(self, key: str, path: Path) -> None:
        """Keep the content of a file as an asset of the result."""

    def get(self, key: str) -> Any:
        """The value of an asset."""

    def get_path(self, key: str) -> Path:
        """A file with the content of an asset."""

    def upload(self, upload_id: str) -> Path:
        """A file with the content of an upload."""
