"""Find the stack that `pipeweave up` runs, by the `connection.json` in its data directory.

Without PIPEWEAVE_DATA_DIR, the data directory is the `.pipeweave` of the current folder or of the nearest
folder above it, as git finds a repository: commands work in every folder of a project. A `.pipeweave` above
the current folder counts only if it belongs to the current user: nobody else may decide what a worker
connects to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from pipeweave.errors import Unavailable

FILE_NAME = "connection.json"
# Why the last `up` in this folder failed, until the next one starts: {detail, hint}.
FAILURE_NAME = "failure.json"
FOLDER_NAME = ".pipeweave"
# What `up` leaves in its data directory; a folder with other content is not one, such as a worker's storage.
_SECRETS = "secrets.json"
_MADE_BY_UP = (_SECRETS, "kept.json", FILE_NAME, FAILURE_NAME)


@dataclass(frozen=True, slots=True)
class StackFile:
    """The content of a `connection.json`, and the folder it lies in.

    Args:
        settings: the settings of the stack's processes by name, without defaults; of the secret ones only
            the credentials of STORAGE_BACKENDS.
    """

    folder: Path
    url: str
    tenant: str
    token: str
    database_url: str
    broker_url: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.folder / FILE_NAME

    @property
    def secret_key(self) -> str | None:
        """The secret key of the stack's processes; None if its file cannot be read."""
        try:
            return str(orjson.loads((self.folder / _SECRETS).read_bytes())["secret_key"])
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return None


_MEMBERS = {
    "url": "url",
    "tenant": "tenant",
    "token": "token",
    "databaseUrl": "database_url",
    "brokerUrl": "broker_url",
}


def folder_of(data_dir: str) -> Path:
    """The data directory: `data_dir`, or if it is the default, the nearest `.pipeweave` that `up` made.

    Args:
        data_dir: the setting PIPEWEAVE_DATA_DIR, or its default.
    """
    data_folder = Path(data_dir)
    if data_dir != FOLDER_NAME or _is_made_by_up(data_folder):
        return data_folder
    above = (folder / FOLDER_NAME for folder in Path.cwd().parents)
    return next((each for each in above if _is_made_by_up(each) and _is_ours(each)), data_folder)


def find(data_dir: str) -> StackFile | None:
    """The stack of this data directory (see `folder_of`); None if none runs there.

    Raises:
        Unavailable: its file cannot be read.
    """
    folder = folder_of(data_dir)
    return read(folder) if os.path.exists(folder / FILE_NAME) else None


def read(data_dir: Path) -> StackFile:
    """Read the `connection.json` of a data directory.

    Raises:
        Unavailable: the file is missing, because no stack runs there, or it cannot be read.
    """
    path = data_dir / FILE_NAME
    try:
        document = orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        start = f"start one with `pipeweave up --data-dir {data_dir}`"
        raise missing(f"no stack runs in {data_dir}", start, data_dir) from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise Unavailable(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or _MEMBERS.keys() - document.keys():
        raise Unavailable(f"{path} is not a connection file of `pipeweave up`")
    # A stack of an earlier version wrote no settings.
    return StackFile(data_dir, **_texts(document), settings=document.get("settings") or {})


def missing(message: str, hint: str, folder: Path) -> Unavailable:
    """The error of what needs a stack where none runs; it says why the last `up` in this folder failed."""
    try:
        failure = orjson.loads((folder / FAILURE_NAME).read_bytes())
        why, where = str(failure["detail"]), failure["hint"]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return Unavailable(message, hint=hint)
    said = f"{message}: the last `pipeweave up` in {folder} failed: {why}"
    return Unavailable(said, hint=f"{where}; then start it again, or {hint}" if where else hint)


def _texts(document: Mapping[str, Any]) -> dict[str, str]:
    return {field: str(document[member]) for member, field in _MEMBERS.items()}


def _is_made_by_up(folder: Path) -> bool:
    return any(os.path.exists(folder / name) for name in _MADE_BY_UP)


def _is_ours(folder: Path) -> bool:
    return folder.stat().st_uid == os.geteuid()
