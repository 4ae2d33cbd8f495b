"""Manage the data directory of `up`: its files, its lock, its secrets and its ports."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeweave.errors import AlreadyUp, PipeWeaveError, StartFailed, Unavailable
from pipeweave.settings import stack_file

# Seconds to wait until the holder of the lock has written its process id.
_HOLDER_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class StackAddress:
    """The content of `connection.json`: how to reach a running stack.

    Args:
        settings: by name, the settings without secrets with which its processes run, for `pipeweave config`.
    """

    url: str
    tenant: str
    token: str
    database_url: str
    broker_url: str
    settings: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "tenant": self.tenant,
            "token": self.token,
            "databaseUrl": self.database_url,
            "brokerUrl": self.broker_url,
            "settings": self.settings,
        }


@dataclass(slots=True)
class Secrets:
    """The content of `secrets.json`: passwords, token and ports, which the next `up` reuses if it can."""

    postgres_password: str
    postgres_admin_password: str
    valkey_password: str
    flower_password: str
    secret_key: str
    token: str | None = None
    postgres_port: int | None = None
    valkey_port: int | None = None
    flower_port: int | None = None


class DataFolder:
    """The data directory of one stack."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.logs = self.root / "logs"
        self.run = self.root / "run"
        self.processes = self.run / "processes.json"
        self.requests = self.run / "requests"
        self.connection = self.root / stack_file.FILE_NAME
        self.failure = self.root / stack_file.FAILURE_NAME
        self._lock = self.run / "lock"
        self.secrets_file = self.root / "secrets.json"

    def make(self) -> None:
        """Make the missing folders, accessible only to their owner.

        Raises:
            StartFailed: the folders cannot be made or written to.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.logs, self.run):
                folder.mkdir(mode=0o700, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise StartFailed(
                f"{self.root} cannot be used: {error.strerror}", hint="choose another --data-dir"
            ) from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder for the block; the kernel releases the lock when the process ends in any way.

        Raises:
            AlreadyUp: another process holds the lock.
        """
        descriptor = self._take_lock()
        if descriptor is None:
            where = f" (process {holder})" if (holder := self._wait_for_holder()) else ""
            raise AlreadyUp(
                f"PipeWeave is already up in {self.root}{where}",
                hint=f"pipeweave down --data-dir {self.root} stops it",
            )
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            self._lock.unlink(missing_ok=True)
            os.close(descriptor)

    @contextmanager
    def failure_kept(self) -> Iterator[None]:
        """Write down why the block fails, for commands that find no stack in this folder then."""
        self.failure.unlink(missing_ok=True)
        try:
            yield
        except PipeWeaveError as error:
            # Somebody may have deleted the folder.
            with suppress(OSError):
                write_private(self.failure, {"detail": error.detail, "hint": error.hint})
            raise

    def holder(self) -> int | None:
        """The process id of the supervisor that holds the lock; None if no process holds it.

        Raises:
            Unavailable: the folder belongs to another user.
        """
        try:
            self._lock.stat()
        except PermissionError as error:
            raise Unavailable(
                f"{self.root} belongs to another user", hint="run the command as that user"
            ) from error
        except OSError:
            return None
        descriptor = self._take_lock()
        if descriptor is None:
            return self._wait_for_holder()
        os.close(descriptor)
        return None

    def secrets(self) -> Secrets:
        """Read `secrets.json`; make new secrets if it does not exist."""
        try:
            self._take_over_old_secrets()
            return Secrets(**json.loads(self.secrets_file.read_text()))
        except FileNotFoundError:
            return _new_secrets()
        except (OSError, ValueError, TypeError) as error:
            raise StartFailed(f"{self.secrets_file} cannot be read: {error}") from error

    def _take_over_old_secrets(self) -> None:
        """Before 0.2 the file had another name; the servers in the folder have its passwords."""
        old = self.root / "kept.json"
        if old.exists() and not self.secrets_file.exists():
            old.rename(self.secrets_file)

    def keep(self, secrets: Secrets) -> None:
        """Write `secrets.json`, readable only for its owner."""
        write_private(self.secrets_file, asdict(secrets))

    def announce(self, connection: StackAddress) -> None:
        """Write `connection.json`, which says that the stack is ready."""
        write_private(self.connection, connection.to_json())

    def _take_lock(self) -> int | None:
        """Take the lock and return its descriptor; None if another process holds it."""
        while True:
            try:
                descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
            except PermissionError as error:
                raise Unavailable(
                    f"{self.root} belongs to another user", hint="run the command as that user"
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            # A holder that ended between the two calls has deleted the file; then lock the new file.
            if self._lock.exists() and os.path.samestat(os.fstat(descriptor), self._lock.stat()):
                return descriptor
            os.close(descriptor)

    def _wait_for_holder(self) -> int | None:
        deadline = time.monotonic() + _HOLDER_WAIT_S
        while time.monotonic() < deadline:
            try:
                if (text := self._lock.read_text()).isdigit():
                    return int(text)
            except OSError:
                return None
            time.sleep(0.02)
        return None


def _new_secrets() -> Secrets:
    return Secrets(
        postgres_password=secrets.token_hex(16),
        postgres_admin_password=secrets.token_hex(16),
        valkey_password=secrets.token_hex(16),
        flower_password=secrets.token_hex(16),
        secret_key=secrets.token_hex(32),
    )


def write_private(file: Path, value: dict[str, Any]) -> None:
    """Replace the file atomically; only its owner may read it at any time."""
    fresh = file.with_name(file.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(value, stream, indent=2)
        stream.write("\n")
    os.replace(fresh, file)
