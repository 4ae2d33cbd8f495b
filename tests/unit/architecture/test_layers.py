"""Which layer may import which, and what only one place of the source may do. docs/architecture.md draws the
same picture.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import (
    LAZY,
    MAY_IMPORT,
    imports,
    layer_of,
    layer_of_import,
    module_of,
    names_used,
    offenders,
    sources,
    tree_of,
)

HEAVY = {"flask", "celery", "kombu", "sqlalchemy", "psycopg2", "alembic", "boto3", "redis", "gunicorn"}
SQL = {"sqlalchemy", "psycopg2", "alembic"}
# Rooms of the orchestrator that may import a driver (`deployment`: alembic).
DRIVERS_IN = {"store", "deployment"}
STATUS_UPDATES_IN = {
    "pipeweave.orchestrator.state.run_transitions",
    "pipeweave.orchestrator.state.task_transitions",
    # Makes rows as the events say, which have passed those guards.
    "pipeweave.orchestrator.state.repairing",
}
STATUS_UPDATE = re.compile(r"\bUPDATE (?:runs|task_runs)\b(?:(?!\bWHERE\b).)*?\bstatus = ", re.DOTALL)
CHORDS = {"chord", "on_chord_part_return", "set_chord_size"}


def test_the_rules_look_at_every_layer() -> None:
    assert {layer_of(path) for path in sources()} == set(MAY_IMPORT)


def test_imports_follow_the_direction_of_the_layers() -> None:
    def upward(path: Path) -> Iterator[str]:
        layer = layer_of(path)
        return (name for name in imports(path) if (layer_of_import(name) or layer) not in MAY_IMPORT[layer])

    assert not offenders(upward), f"a layer may import only {MAY_IMPORT}"


def test_the_face_and_the_composition_roots_import_nothing_heavy_at_import_time() -> None:
    upper = {"orchestrator", "migrations", "workers", "api"}

    def heavy(path: Path) -> Iterator[str]:
        if layer_of(path) in LAZY | {"face", "names"}:
            for name in imports(path, top_level=True):
                if name.split(".")[0] in HEAVY or layer_of_import(name) in upper:
                    yield name

    assert not offenders(heavy), "import it inside the function that needs it"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count, those of a type checker too."""
    modules = {module_of(path) for path in sources()}
    arrows = {module_of(path): _modules_imported(path, modules) for path in sources()}
    assert not _in_a_circle(arrows)


def _modules_imported(path: Path, modules: set[str]) -> set[str]:
    """The modules whose code an import names. A package that holds the module itself is none of them: it is
    always imported first.
    """
    me = module_of(path)
    named = {name if name in modules else name.rpartition(".")[0] for name in imports(path)} & modules
    return {name for name in named if name != me and not me.startswith(f"{name}.")}


def _in_a_circle(arrows: dict[str, set[str]]) -> set[str]:
    """Take away the modules that import nothing which is left, until none can be taken; then the same with
    those that nothing imports. What stays lies in a circle, or between two.
    """
    left = {name: set(targets) for name, targets in arrows.items()}
    for _ in range(2):
        while ends := {name for name, targets in left.items() if not targets}:
            left = {name: targets - ends for name, targets in left.items() if name not in ends}
        turned: dict[str, set[str]] = {name: set() for name in left}
        for name, targets in left.items():
            for target in targets:
                turned[target].add(name)
        left = turned
    return set(left)


def test_only_the_orchestrator_and_its_migrations_speak_sql() -> None:
    def drivers(path: Path) -> Iterator[str]:
        if layer_of(path) not in {"orchestrator", "migrations"}:
            yield from (name for name in imports(path) if name.split(".")[0] in SQL)

    assert not offenders(drivers)


def test_only_two_rooms_of_the_orchestrator_import_a_driver() -> None:
    """The other rooms hold statements as text and hand them to `store`."""

    def drivers(path: Path) -> Iterator[str]:
        if layer_of(path) == "orchestrator" and path.parent.name not in DRIVERS_IN:
            yield from (name for name in imports(path) if name.split(".")[0] in SQL)

    assert not offenders(drivers)


def test_only_a_few_modules_change_the_status_of_a_run_or_a_task_run() -> None:
    """Their UPDATEs take the guard from the state machine; another one could leave a final status."""

    def updates(path: Path) -> Iterator[str]:
        if module_of(path) not in STATUS_UPDATES_IN:
            yield from (match[0] for text in _texts(path) for match in STATUS_UPDATE.finditer(text))

    assert not offenders(updates)
    assert all(any(STATUS_UPDATE.search(text) for text in _texts(path)) for path in _writers_of_a_status())


def _writers_of_a_status() -> list[Path]:
    return [path for path in sources() if module_of(path) in STATUS_UPDATES_IN]


def _texts(path: Path) -> Iterator[str]:
    """Every text of a source file, with `{}` where an f-string puts something in."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_only_settings_reads_the_environment() -> None:
    def readers(path: Path) -> set[str]:
        if module_of(path) == "pipeweave.settings":
            return set()
        return {"environ", "environb", "getenv", "getenvb"} & _os_names(path)

    assert not offenders(readers)


def _os_names(path: Path) -> set[str]:
    attributes = {
        node.attr
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    return attributes | {name.removeprefix("os.") for name in imports(path) if name.startswith("os.")}


def test_only_the_publisher_builds_chords() -> None:
    def chords(path: Path) -> set[str]:
        if module_of(path) == "pipeweave.orchestrator.messaging.publisher":
            return set()
        return CHORDS & set(names_used(path))

    assert not offenders(chords)
