"""Prepare and launch an embedded Valkey: loopback address only, with a password."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from pipeweave.errors import StartFailed
from pipeweave.up.binaries import valkey_program
from pipeweave.up.launch import Launch
from pipeweave.up.ports import LOOPBACK

STOP_SIGNAL = signal.SIGTERM
DATABASES = 256

_CONFIG = "valkey.conf"
_PROBE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Valkey:
    """One server and its data.

    Args:
        folder: the folder of its append-only file; `prepare` makes it if it does not exist.
        port: its port on the loopback address.
        password: the password of the default user.
        is_durable: False keeps all data in memory only, for tests.
        more: further lines of its configuration.
    """

    folder: Path
    port: int
    password: str
    is_durable: bool = True
    more: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """The broker URL of database 0."""
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        """The broker URL of this database (0 to 255)."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def prepare(self) -> None:
        """Make the folder and write the configuration, readable only for its owner: it holds the password.

        Raises:
            StartFailed: the folder cannot be used.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.folder / _CONFIG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write("\n".join(self._lines()) + "\n")
        except OSError as error:
            raise StartFailed(f"Valkey's folder {self.folder} cannot be used: {error.strerror}") from error

    def launch(self) -> Launch:
        """The Launch that starts the server."""
        return Launch((str(valkey_program()), _CONFIG), {"PATH": os.defpath, "TZ": "UTC"}, cwd=self.folder)

    def is_ready(self) -> bool:
        """True if the server accepts the password and answers."""
        try:
            with socket.create_connection((LOOPBACK, self.port), _PROBE_TIMEOUT_S) as client:
                client.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2 and (part := client.recv(256)):
                    answer += part
                return answer == b"+OK\r\n+PONG\r\n"
        except OSError:
            return False

    def _lines(self) -> list[str]:
        return [
            f"bind {LOOPBACK}",
            f"port {self.port}",
            f"requirepass {self.password}",
            f"databases {DATABASES}",
            "daemonize no",
            'save ""',
            f"appendonly {'yes' if self.is_durable else 'no'}",
            "appendfsync everysec",
            # It looks after itself so many times a second, by default ten; whom it answers does not wait for
            # that, but a worker whose wait is over hears of it half a second later.
            "hz 2",
            # With full memory a publish must fail, which the tick repeats; Valkey must not evict queued
            # messages.
            "maxmemory-policy noeviction",
            *self.more,
        ]
