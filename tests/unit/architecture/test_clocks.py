"""One clock decides: PostgreSQL's. The clocks of hosts differ, so only these few functions read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import layer_of, module_of, offenders, tree_of

# What reads the wall clock of its host, as `value.name`. `fromtimestamp` converts a time that someone has.
READS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime", "time.strftime"),
}

# Functions that may: none of them decides what happens to a run.
MAY_READ = {
    # Compare it with PostgreSQL's clock, and say when they differ.
    "pipeweave.orchestrator.diagnosis.check_database.clock",
    "pipeweave.orchestrator.retention.drop_months._host_clock",
    # Compares it with the storage's clock: whether an object is written again, which is harmless.
    "pipeweave.orchestrator.store.values._is_kept",
    # Says when an answer was made.
    "pipeweave.api.routes.system._now",
    # How far back somebody looks who asks for the last hours.
    "pipeweave.api.ui.periods._now",
    # Which of two fragments of a page is the newer one.
    "pipeweave.api.ui.live_views.moment",
    "pipeweave.workers.process.health_reports._now",
}


def test_only_a_few_functions_read_the_clock_of_their_host() -> None:
    def reads(path: Path) -> Iterator[str]:
        if layer_of(path) in {"orchestrator", "workers", "api"}:
            yield from (each for each in _reads(path) if f"{module_of(path)}.{each}" not in MAY_READ)

    assert not offenders(reads), "use Transaction.now or now() in SQL; for durations, time.monotonic()"


def test_an_id_takes_its_time_from_a_transaction() -> None:
    """`ids.new_id()` without an argument would read the clock of the host."""

    def makes(path: Path) -> Iterator[str]:
        if layer_of(path) in {"orchestrator", "workers", "api"}:
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.Call) and _name(node.func) == "ids.new_id" and not node.args:
                    yield f"line {node.lineno}"

    assert not offenders(makes), "use Transaction.new_id()"


def _reads(path: Path) -> Iterator[str]:
    """The functions of a module that read the clock, the module itself as `<module>`."""
    for statement in tree_of(path).body:
        name = getattr(statement, "name", "<module>")
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and _name(node) in READS:
                yield name


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""
