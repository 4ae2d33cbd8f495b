"""The broker of a test: one Valkey, or two of which one is the other's replica, behind three sentinels.

A Valkey's own program is a sentinel, too. Tests of `tests/` start the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from pipeweave.up.launch import Launch
from pipeweave.up.ports import LOOPBACK, free_port
from pipeweave.up.valkey import Valkey

MASTER_NAME = "orders"
QUORUM = 2
# How long (ms) a primary must be silent until the sentinels replace it, and what they give a failover.
DOWN_AFTER_MS, FAILOVER_MS = 1_000, 2_000
_CONFIG = "sentinel.conf"
_ASK_S = 1.0


class NoPrimary(RedisError):
    """The sentinels do not agree on a primary at this moment."""


@dataclass(frozen=True, slots=True)
class Sentinel:
    """One sentinel; its configuration is its memory, too.

    Args:
        password: of all sentinels.
    """

    folder: Path
    port: int
    password: str

    def prepare(self, primary: Valkey) -> None:
        """Write the configuration of a sentinel that knows nothing but the primary."""
        self.folder.mkdir(mode=0o700, parents=True)
        (self.folder / _CONFIG).write_text("\n".join(self._lines(primary)) + "\n")

    def launch(self) -> Launch:
        """The Launch that starts the sentinel."""
        given = Valkey(self.folder, self.port, self.password).launch()
        return Launch((given.argv[0], _CONFIG, "--sentinel"), given.environment, cwd=self.folder)

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A connection to it."""
        with _client(self.port, self.password) as client:
            yield client

    def _lines(self, primary: Valkey) -> list[str]:
        return [
            f"bind {LOOPBACK}",
            f"port {self.port}",
            f"requirepass {self.password}",
            f"sentinel sentinel-pass {self.password}",
            f"sentinel monitor {MASTER_NAME} {LOOPBACK} {primary.port} {QUORUM}",
            f"sentinel auth-pass {MASTER_NAME} {primary.password}",
            f"sentinel down-after-milliseconds {MASTER_NAME} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {MASTER_NAME} {FAILOVER_MS}",
        ]


@dataclass(frozen=True, slots=True)
class Broker:
    """The servers of a broker, by the names of their processes.

    Args:
        servers: one, or the first primary and its replica.
        sentinels: none, if there is one server.
    """

    servers: dict[str, Valkey]
    sentinels: dict[str, Sentinel]

    @classmethod
    def alone(cls, folder: Path) -> Broker:
        """One server."""
        return cls({"valkey": Valkey(folder / "valkey", free_port(), secrets.token_hex(16))}, {})

    @classmethod
    def behind_sentinels(cls, folder: Path, *, is_durable: bool = True) -> Broker:
        """Two servers and three sentinels; `introduce` makes one of them a replica."""
        password, of_sentinels = secrets.token_hex(16), secrets.token_hex(16)
        more = (f"masterauth {password}", "repl-diskless-sync-delay 0")
        servers = {
            name: Valkey(folder / name, free_port(), password, is_durable, more)
            for name in ("valkey-1", "valkey-2")
        }
        names = ("sentinel-1", "sentinel-2", "sentinel-3")
        return cls(servers, {name: Sentinel(folder / name, free_port(), of_sentinels) for name in names})

    def prepare(self) -> None:
        """Make all folders and configurations."""
        for server in self.servers.values():
            server.prepare()
        for sentinel in self.sentinels.values():
            sentinel.prepare(self._first)

    def introduce(self) -> None:
        """Make the second server a replica of the first, before the sentinels start."""
        for server in list(self.servers.values())[1:]:
            with _client(server.port, server.password) as client:
                client.replicaof(LOOPBACK, str(self._first.port))

    @property
    def port(self) -> int | None:
        """The port of the server, where there is one; None behind sentinels."""
        return None if self.sentinels else self._first.port

    @property
    def url(self) -> str:
        """What the processes of the product are given."""
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        """The URL of a database."""
        if not self.sentinels:
            return self._first.url_of(database)
        hosts = ",".join(f"{LOOPBACK}:{each.port}" for each in self.sentinels.values())
        [password] = {each.password for each in self.sentinels.values()}
        query = f"master_name={MASTER_NAME}&sentinel_password={password}"
        return f"sentinel://:{self._first.password}@{hosts}/{database}?{query}"

    def primary(self) -> str:
        """The name of the server that is the primary now.

        Raises:
            NoPrimary: the sentinels that answer do not agree.
        """
        if not self.sentinels:
            return next(iter(self.servers))
        ports = {port for each in self.sentinels.values() if (port := _named_by(each)) is not None}
        found = [name for name, server in self.servers.items() if {server.port} == ports]
        if not found:
            raise NoPrimary(f"the sentinels name {len(ports)} primaries")
        return found[0]

    def is_taken_over(self, name: str) -> bool:
        """Whether the sentinels agree that another server than this is the primary."""
        try:
            return self.primary() != name
        except NoPrimary:
            return False

    def redis(self) -> Redis:
        """A connection to the primary.

        Raises:
            NoPrimary: the sentinels that answer do not agree.
        """
        url = self.servers[self.primary()].url
        return Redis.from_url(url, socket_timeout=5, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))

    def servers_answer(self) -> bool:
        """Whether every server answers."""
        return all(each.is_ready() for each in self.servers.values())

    def is_ready(self) -> bool:
        """Whether the primary answers; behind sentinels: it has its replica, and all of them know both."""
        if not self.sentinels:
            return self.servers_answer()
        try:
            with self.redis() as primary:
                found = primary.info("replication")
            is_followed = found["role"] == "master" and found["connected_slaves"] == len(self.servers) - 1
            return is_followed and all(_knows(each, self) for each in self.sentinels.values())
        except RedisError:
            return False

    @property
    def _first(self) -> Valkey:
        return next(iter(self.servers.values()))


def _client(port: int, password: str) -> Redis:
    return Redis(
        LOOPBACK,
        port,
        password=password,
        socket_timeout=_ASK_S,
        socket_connect_timeout=_ASK_S,
        retry=Retry(NoBackoff(), 0),
    )


def _named_by(sentinel: Sentinel) -> int | None:
    """The port of the primary that a sentinel names; None if it does not answer."""
    try:
        with sentinel.client() as client:
            return int(client.sentinel_get_master_addr_by_name(MASTER_NAME)[1])
    except (RedisError, OSError):
        return None


def _knows(sentinel: Sentinel, broker: Broker) -> bool:
    """Whether a sentinel sees all servers well, and knows all other sentinels."""
    with sentinel.client() as client:
        primary, replicas = client.sentinel_master(MASTER_NAME), client.sentinel_slaves(MASTER_NAME)
    states = ("is_sdown", "is_odown", "is_disconnected")
    is_well = not any(each[state] for each in (primary, *replicas) for state in states)
    others = primary["num-other-sentinels"]
    return is_well and (others, len(replicas)) == (len(broker.sentinels) - 1, len(broker.servers) - 1)
