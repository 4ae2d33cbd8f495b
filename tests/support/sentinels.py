"""A broker behind sentinels for tests: its processes can be killed and frozen, and are killed at the end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis

from chaos.sentinels import MASTER_NAME, Broker, NoPrimary
from pipeweave.up.launch import spawn
from pipeweave.up.valkey import Valkey
from support.servers import wait_until


@dataclass(slots=True)
class RunningBroker:
    """Two servers and three sentinels that run.

    Args:
        folder: of their logs.
        processes: by the names that `broker` gives them.
    """

    broker: Broker
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The broker URL."""
        return self.broker.url

    def start(self, name: str) -> None:
        """Start a server or a sentinel."""
        known: dict[str, object] = {**self.broker.servers, **self.broker.sentinels}
        with (self.folder / f"{name}.log").open("ab") as output:
            self.processes[name] = spawn(known[name].launch(), output)  # type: ignore[attr-defined]

    def kill(self, name: str) -> None:
        """A process ends at once."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """For the block, processes take connections and answer nothing."""
        pids = [self.processes[name].pid for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def fail_over(self) -> str:
        """Kill the primary and wait until the sentinels have named the other one; the name of the old one."""
        old = self.broker.primary()
        self.kill(old)
        wait_until(lambda: self.primary() not in (old, None), what="nobody took over")
        return old

    def order_fail_over(self) -> Valkey:
        """Have the sentinels replace a primary that is well; the new one."""
        old = self.broker.primary()
        port = self.broker.servers[old].port
        with next(iter(self.broker.sentinels.values())).client() as client:

            def is_over() -> bool:
                """A sentinel gives up when the replica answers too late: then it is told again."""
                _, named = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME)
                if int(named) == port:
                    with suppress(redis.ResponseError):  # it is under way
                        client.execute_command("SENTINEL", "FAILOVER", MASTER_NAME)
                return self.primary() not in (old, None)

            wait_until(is_over, what="nobody took over")
        return self.broker.servers[self.broker.primary()]

    def primary(self) -> str | None:
        """The name of the primary; None while the sentinels do not agree."""
        try:
            return self.broker.primary()
        except NoPrimary:
            return None

    def be_whole(self) -> None:
        """Start what was killed, and wait until every sentinel knows a primary with a replica."""
        for name in (*self.broker.servers, *self.broker.sentinels):
            if name not in self.processes:
                self.start(name)
        wait_until(self.broker.is_ready, what="the servers and the sentinels are not whole")


@contextmanager
def running_sentinels(folder: Path) -> Iterator[RunningBroker]:
    """Two servers and three sentinels for the block."""
    running = RunningBroker(Broker.behind_sentinels(folder, is_durable=False), folder)
    running.broker.prepare()
    try:
        for name in running.broker.servers:
            running.start(name)
        wait_until(running.broker.servers_answer, what="the servers are not ready")
        running.broker.introduce()
        running.be_whole()
        yield running
    finally:
        for name in list(running.processes):
            running.kill(name)
