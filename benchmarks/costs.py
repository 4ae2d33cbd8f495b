"""Measure what a run, a hop, an item, a trigger and an idle second cost each process.

Each scene runs three times: once while processor time, bytes, switches and instructions are counted from
outside, once while PostgreSQL logs each statement, and once while system calls are traced: both would cost
processor time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks import counters, tracing
from benchmarks.counters import ByProcess, Sent, Sessions
from benchmarks.environment import Environment
from benchmarks.figures import Benchmark, Figures
from benchmarks.sizes import Sizes
from benchmarks.statement_log import Recorded

# What costs are in.
CPU, INSTRUCTIONS, SENT, WAL = "processor ms", "instructions", "bytes sent", "bytes of transaction log"
STATEMENTS, COMMITS, DISK_WAITS = "statements", "commits", "waits for the disk"
SWITCHES, SYSTEM_CALLS, PYTHON_CALLS = "context switches", "system calls", "calls of Python functions"


@dataclass(frozen=True, slots=True)
class Scene:
    """Something that is done many times.

    Args:
        name: of what the costs are counted for.
        play: does it.
        count: how often `play` does it.
    """

    name: str
    play: Callable[[Environment], object]
    count: float


def benchmarks(sizes: Sizes) -> list[Benchmark]:
    """List the benchmarks in these sizes."""
    scenes = (
        Scene("run", lambda up: up.pipeweave.singles(sizes.singles), sizes.singles),
        Scene("hop", lambda up: up.pipeweave.chain(sizes.chain), sizes.chain),
        Scene("item", lambda up: up.pipeweave.mapped(sizes.mapped), sizes.mapped),
        Scene("trigger", lambda up: up.pipeweave.triggered(sizes.triggered, sizes.clients), sizes.triggered),
        Scene("idle_second", lambda up: time.sleep(sizes.idle_s), sizes.idle_s),
    )
    return [_benchmark(each) for each in scenes]


def _benchmark(scene: Scene) -> Benchmark:
    return Benchmark(f"cost_{scene.name}", lambda environment: _measured(environment, scene))


def _measured(environment: Environment, scene: Scene) -> Figures:
    costs = _counted(environment, scene) | _logged(environment, scene) | _traced(environment, scene)
    each = {
        cost: {name: _share(value, scene.count) for name, value in by_process.items()}
        for cost, by_process in costs.items()
    }
    what = scene.name.replace("_", " ")
    total = sum(value or 0 for value in each[CPU].values())
    return Figures(f"{CPU} per {what}", {"ours": total}, {"costs": each})


def _share(value: float | None, count: float) -> float | None:
    return None if value is None else round(value / count, 3)


def _counted(environment: Environment, scene: Scene) -> dict[str, ByProcess]:
    """Play a scene and count from outside."""
    processes, admin_url = environment.processes, environment.log.admin_url
    # The benchmarks look at rows, too: that is no cost of PipeWeave.
    others = Sessions.read(admin_url, environment.pipeweave.processes.values()).others
    sent, wal = Sent.read(), counters.wal_bytes(admin_url)
    switched = tracing.switches(processes, others)
    called = tracing.python_calls(environment.pipeweave.processes, environment.calls)
    cpu = counters.cpu_ms(processes, others)
    with counters.instructions(processes) as retired:
        scene.play(environment)
    used = {name: after - cpu[name] for name, after in counters.cpu_ms(processes, others).items()}
    switched_since = tracing.since(switched, tracing.switches(processes, others))
    clients = environment.pipeweave.processes
    called_since = tracing.since(called, tracing.python_calls(clients, environment.calls))
    more = Sent.read().since(sent, processes, others)
    wal = counters.wal_bytes(admin_url) - wal
    return {
        CPU: used,
        INSTRUCTIONS: retired,
        PYTHON_CALLS: called_since,
        SWITCHES: switched_since,
        SENT: more,
        WAL: {"postgresql": wal},
    }


def _traced(environment: Environment, scene: Scene) -> dict[str, ByProcess]:
    """Play a scene while its system calls are traced, which makes it slower."""
    clients, admin_url = environment.pipeweave.processes, environment.log.admin_url
    others = Sessions.read(admin_url, clients.values()).others
    with tracing.system_calls(environment.processes, others) as traced:
        scene.play(environment)
    return {SYSTEM_CALLS: traced.calls, DISK_WAITS: traced.disk_waits}


def _logged(environment: Environment, scene: Scene) -> dict[str, ByProcess]:
    """Play a scene and count in PostgreSQL's log."""
    clients = environment.pipeweave.processes
    admin_url = environment.log.admin_url
    holders = dict(Sessions.read(admin_url, clients.values()).holders)
    with environment.log.recording() as recorded:
        scene.play(environment)
        holders |= Sessions.read(admin_url, clients.values()).holders
    names = {root: name for name, root in clients.items()}
    statements, commits = count(recorded, {pid: names[root] for pid, root in holders.items()})
    both = {STATEMENTS: statements, COMMITS: commits}
    return {cost: {name: float(counted[name]) for name in clients} for cost, counted in both.items()}


def count(recorded: Recorded, names: Mapping[int, str]) -> tuple[Counter[str], Counter[str]]:
    """Statements and commits of each process.

    What is sent at once is one statement, and BEGIN and COMMIT alone are none. Each statement outside of a
    transaction is a commit, also of one that only reads. Preparing a statement is neither.

    Args:
        names: the process id of a session on the server -> the name of its client.
    """
    statements: Counter[str] = Counter()
    commits: Counter[str] = Counter()
    is_open: dict[int, bool] = {}
    for session, text, _ in recorded.statements:
        if (name := names.get(session)) is None:
            continue
        is_end = text.startswith(("COMMIT", "ROLLBACK"))
        is_open[session] = not is_end and (is_open.get(session, False) or text.startswith("BEGIN"))
        if text.removeprefix("BEGIN; ").startswith("PREPARE "):
            continue
        statements[name] += not is_end
        commits[name] += not is_open[session] and not text.startswith("ROLLBACK")
    return statements, commits
