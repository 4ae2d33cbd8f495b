"""Inject the faults of a plan into a stack, one after the other."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from chaos import messages
from chaos.notes import Reading
from chaos.plan import Fault
from chaos.processes import Process
from chaos.stack import Stack

# A fault waits at most this long (s) for its process to start.
PATIENCE_S = 15.0
# A fault waits at most this long (s) for a busy worker.
BUSY_WITHIN_S = 2.0
SLOW_WITHIN_S = 1.0
# A request takes about this long (s).
REQUEST_S = 0.015


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that happened.

    Args:
        began: seconds of the machine's steady clock.
        pids: the ids of the processes that it hit.
        more: further counts.
    """

    kind: str
    planned: float
    began: float
    ended: float
    pids: list[int] = field(default_factory=list)
    more: Mapping[str, int] = field(default_factory=dict)
    missed: str | None = None


@dataclass(slots=True)
class Hit:
    """The effect of a fault, filled while it lasts."""

    pids: list[int] = field(default_factory=list)
    more: Mapping[str, int] = field(default_factory=dict)


class Injector:
    """Injects faults into one stack.

    Args:
        reading: the notes, which name the call under way in each process.
        is_asked: whether a request to the API is open.
    """

    def __init__(self, up: Stack, reading: Reading, is_asked: Callable[[], bool]) -> None:
        self.up = up
        self.reading = reading
        self.is_asked = is_asked

    def inject(self, fault: Fault) -> Injected:
        """Inject one fault, for as long as it lasts."""
        hit, missed = Hit(), None
        began = time.monotonic()
        try:
            _WAYS[fault.kind](self, fault, hit)
        except (Missed, RedisError) as error:
            missed = str(error) or type(error).__name__
        return Injected(fault.kind, fault.at, began, time.monotonic(), hit.pids, dict(hit.more), missed)

    def kill_child(self, fault: Fault, hit: Hit) -> None:
        """Kill one of a worker's children, a busy one if there is one."""
        children = self._busy_worker(fault)[1:]
        busy = [each for each in children if each in self.reading.open]
        hit.pids = [_one_of(busy or children, fault.chance)]
        _send(hit.pids, signal.SIGKILL)

    def kill_worker(self, fault: Fault, hit: Hit) -> None:
        """Kill a worker with its children, or alone."""
        hit.pids = self._busy_worker(fault)
        _send(_whole_or_first(hit.pids, fault), signal.SIGKILL)

    def stop_worker(self, fault: Fault, hit: Hit) -> None:
        """Freeze a worker until it counts as lost, with its children or without."""
        hit.pids = self._busy_worker(fault)
        _freeze(_whole_or_first(hit.pids, fault), fault.seconds)

    def ask_worker_to_end(self, fault: Fault, hit: Hit) -> None:
        """Send TERM to a worker, as an operator does."""
        hit.pids = self._busy_worker(fault)
        _send(hit.pids[:1], signal.SIGTERM)

    def kill_beat(self, fault: Fault, hit: Hit) -> None:
        hit.pids = self._family(f"beat-{fault.options['beat'] + 1}")
        _send(hit.pids, signal.SIGKILL)

    def stop_beat(self, fault: Fault, hit: Hit) -> None:
        """Freeze a beat, perhaps the one that holds the lock."""
        hit.pids = self._family(f"beat-{fault.options['beat'] + 1}")
        _freeze(hit.pids, fault.seconds)

    def kill_api(self, fault: Fault, hit: Hit) -> None:
        """Kill the API, in the middle of a request if one is open soon."""
        hit.pids = self._family("api", children=1)
        until = time.monotonic() + BUSY_WITHIN_S
        while not self.is_asked() and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(fault.chance * REQUEST_S)
        _send(_whole_or_first(hit.pids, fault), signal.SIGKILL)

    def _busy_worker(self, fault: Fault) -> list[int]:
        """A worker and its children; one child is in a call if there is work, in a slow call if one begins
        soon.
        """
        found = self._family(f"worker-{fault.options['worker'] + 1}", children=1)
        began = time.monotonic()
        while (waited := time.monotonic() - began) < BUSY_WITHIN_S:
            self.reading.catch_up()
            called = [self.reading.open[each].task_id for each in found if each in self.reading.open]
            if "slow" in called or (called and waited > SLOW_WITHIN_S):
                break
            time.sleep(0.002)
        return [each for each in found if self.up.supervisor.owns(each)]

    def _family(self, name: str, *, children: int = 0) -> list[int]:
        """A process and its children; waits while the process starts."""
        until = time.monotonic() + PATIENCE_S
        while len(found := self.up.processes[name].family()) <= children:
            if time.monotonic() > until:
                raise Missed(f"{name} is not there")
            time.sleep(0.05)
        return found

    def wipe_broker(self, fault: Fault, hit: Hit) -> None:
        """Kill the broker and delete its data."""
        hit.pids = self._family("valkey")
        process = self.up.processes["valkey"]
        with process.down():
            _send(hit.pids, signal.SIGKILL)
            _gone(process)
            shutil.rmtree(self.up.broker.folder)
            self.up.broker.prepare()
            time.sleep(fault.seconds)

    def hang_broker(self, fault: Fault, hit: Hit) -> None:
        """Freeze the broker: it accepts connections and does not answer."""
        hit.pids = self._family("valkey")
        _freeze(hit.pids, fault.seconds)

    def make_broker_read_only(self, fault: Fault, hit: Hit) -> None:
        """Make the broker a replica, as a failover does with the old primary, and then a primary again."""
        redis = self.up.redis()
        redis.replicaof("127.0.0.1", "1")
        time.sleep(fault.seconds)
        redis.replicaof("NO", "ONE")

    def fill_broker(self, fault: Fault, hit: Hit) -> None:
        """Let the broker store nothing more: it answers OOM."""
        redis = self.up.redis()
        redis.config_set("maxmemory", "1")
        time.sleep(fault.seconds)
        redis.config_set("maxmemory", "0")

    def kill_postgres(self, fault: Fault, hit: Hit) -> None:
        """Kill the server with all its sessions."""
        hit.pids = self._family("postgres")[:1]
        _send(hit.pids, signal.SIGKILL)

    def restart_postgres(self, fault: Fault, hit: Hit) -> None:
        """Restart the server as `pg_ctl restart -m immediate` does: sessions are cut, nothing is flushed."""
        hit.pids = self._family("postgres")[:1]
        _send(hit.pids, signal.SIGQUIT)

    def take_postgres_away(self, fault: Fault, hit: Hit) -> None:
        hit.pids = self._family("postgres")[:1]
        process = self.up.processes["postgres"]
        with process.down():
            _send(hit.pids, signal.SIGQUIT)
            _gone(process)
            time.sleep(fault.seconds)

    def double_messages(self, fault: Fault, hit: Hit) -> None:
        hit.more = messages.double(self.up, fault.seconds)

    def delay_messages(self, fault: Fault, hit: Hit) -> None:
        hit.more = messages.delay(self.up, fault.seconds, fault.options["by"])

    def lose_messages(self, fault: Fault, hit: Hit) -> None:
        hit.more = messages.lose(self.up, fault.seconds)

    def replay_messages(self, fault: Fault, hit: Hit) -> None:
        hit.more = messages.replay(self.up, fault.seconds)

    def add_junk(self, fault: Fault, hit: Hit) -> None:
        hit.more = messages.add_junk(self.up, fault.options["count"])

    def forget_chords(self, fault: Fault, hit: Hit) -> None:
        hit.more = messages.forget_chords(self.up, fault.seconds)


class Missed(Exception):
    """The fault found no target."""


_WAYS: dict[str, Callable[[Injector, Fault, Hit], None]] = {
    "child-killed": Injector.kill_child,
    "worker-killed": Injector.kill_worker,
    "worker-stopped": Injector.stop_worker,
    "worker-asked-to-end": Injector.ask_worker_to_end,
    "beat-killed": Injector.kill_beat,
    "beat-stopped": Injector.stop_beat,
    "api-killed": Injector.kill_api,
    "broker-wiped": Injector.wipe_broker,
    "broker-hangs": Injector.hang_broker,
    "broker-read-only": Injector.make_broker_read_only,
    "broker-full": Injector.fill_broker,
    "postgres-killed": Injector.kill_postgres,
    "postgres-restarted": Injector.restart_postgres,
    "postgres-away": Injector.take_postgres_away,
    "messages-doubled": Injector.double_messages,
    "messages-delayed": Injector.delay_messages,
    "messages-lost": Injector.lose_messages,
    "messages-replayed": Injector.replay_messages,
    "messages-of-junk": Injector.add_junk,
    "chords-forgotten": Injector.forget_chords,
}


def _one_of(several: list[Any], chance: float) -> Any:
    if not several:
        raise Missed("the worker has no children")
    return several[int(chance * len(several))]


def _whole_or_first(family: list[int], fault: Fault) -> list[int]:
    return family if fault.options["whole"] else family[:1]


def _freeze(pids: list[int], seconds: float) -> None:
    _send(pids, signal.SIGSTOP)
    time.sleep(seconds)
    _send(pids, signal.SIGCONT)


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _gone(process: Process) -> None:
    """Wait until a process has ended."""
    while process.pid is not None:
        time.sleep(0.01)
