"""Which room may import which. docs/decisions/0012-rooms.md says why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
from support.pages import ROOT, section
from support.source_tree import (
    LAZY,
    MAY_IMPORT,
    imports,
    layer_of,
    layer_of_import,
    module_of,
    offenders,
    tree_of,
)

# The rooms of the orchestrator in five groups: a room imports only rooms before it, and not those that lie
# beside it.
GROUPS = {
    "ground": ("domain", "store", "feed", "messaging", "security"),
    "core": ("registry", "state", "queueing", "engine", "objects", "runs", "waits", "kept"),
    "movers": ("deadletters", "dispatch", "operations", "starts", "bundles"),
    "views": ("documents", "reading", "timeline", "graph", "stream", "telemetry", "export"),
    "care": ("retention", "deployment", "recovery", "diagnosis", "metrics"),
}
ROOMS = tuple(room for rooms in GROUPS.values() for room in rooms)
APART = {("messaging", "store"), ("store", "messaging"), ("security", "messaging")}
# The rooms of the orchestrator that the layers above it enter.
DOORS = {
    "api": {
        *("domain", "store", "feed", "security", "registry", "queueing", "objects", "runs", "waits"),
        "kept",
        *(
            "deadletters",
            "dispatch",
            "operations",
            "starts",
            "bundles",
            "documents",
            "reading",
            "timeline",
            "graph",
        ),
        *("stream", "telemetry", "export", "deployment", "recovery", "diagnosis", "metrics", "retention"),
    },
    "workers": {
        *("domain", "store", "messaging", "registry", "state", "queueing", "engine", "runs", "dispatch"),
        *("waits", "starts", "bundles", "telemetry", "retention", "deployment", "recovery"),
    },
}
# What lies in ./pipeweave, from below to above; what lies beside the folders is the base.
PIPEWEAVE_ROOMS = (
    *(
        "base",
        "schema",
        "spec",
        "authoring",
        "bundles",
        "settings",
        "sending",
        "secrets",
        "storage",
        "attempt",
        "box",
        "adapters",
        "client",
    ),
    *("testing", "demo", "http_worker", "conformance", "enqueueing", "embedding", "up", "cli.support", "cli"),
)
# The rooms of the API, in the same order; `app` is its package itself, where `create_app` is.
API_ROOMS = ("contract", "oidc", "http", "server", "routes", "ui", "app", "serve")


def test_every_module_of_the_orchestrator_lies_in_a_room() -> None:
    outside = [path for path in (ROOT / "orchestrator").glob("*.py") if path.name != "__init__.py"]
    folders = {path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")}
    assert not outside
    assert folders == set(ROOMS)


def test_the_page_of_the_architecture_has_the_groups_and_rooms_in_their_order() -> None:
    page = section("docs/architecture.md", "Rooms of the orchestrator")
    groups = [each.lower() for each in re.findall(r"^\*\*(\w+): ", page, re.MULTILINE)]
    assert groups == list(GROUPS)
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == ROOMS


def test_the_page_of_the_architecture_has_every_room_of_the_other_layers() -> None:
    page = section("docs/architecture.md", "Rooms of the other layers")
    shown = set(re.findall(r"`((?:pipeweave|workers|api)/\w+)`(?: \||,)", page))
    folders = {
        f"{each.parent.name}/{each.name}"
        for layer in ("pipeweave", "workers", "api")
        for each in _rooms_in(layer)
    }
    assert folders - shown == set()


def _rooms_in(layer: str) -> Iterator[Path]:
    return (path.parent for path in (ROOT / layer).glob("*/__init__.py"))


def test_a_room_of_the_orchestrator_imports_only_the_rooms_before_it() -> None:
    def upward(path: Path) -> Iterator[str]:
        room = room_of(module_of(path))
        if room is None:
            return
        for name in imports(path):
            other = room_of(name)
            if other is not None and (ROOMS.index(other) > ROOMS.index(room) or (room, other) in APART):
                yield name

    assert not offenders(upward), f"the rooms from below to above: {', '.join(ROOMS)}"


def room_of(name: str) -> str | None:
    """The room of the orchestrator that a module, or an imported name, belongs to."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["pipeweave", "orchestrator"] and len(parts) > 2 else None


def test_the_orchestrator_imports_nothing_inside_a_function() -> None:
    """Such an import hides an arrow that points upward, or a circle."""

    def hidden(path: Path) -> Iterator[str]:
        if layer_of(path) == "orchestrator":
            for node in ast.walk(tree_of(path)):
                # A door may hand on a heavy name on demand.
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__getattr__":
                    inner = (each for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom))
                    yield from (f"{node.name}: {ast.unparse(each)}" for each in inner)

    assert not offenders(hidden)


def test_other_layers_import_only_the_handed_on_names_of_a_room() -> None:
    """They import the room, a name that its `__init__` hands on, or one of its modules as a whole. In
    `documents` is nothing but classes that they may use.
    """
    handed_on = {room: _handed_on(room) for room in ROOMS}

    def intruding(path: Path) -> Iterator[str]:
        if layer_of(path) not in {"orchestrator", "migrations"}:
            for name in imports(path):
                room = room_of(name)
                inside = ".".join(name.split(".")[3:])
                if room not in (None, "documents") and inside and inside not in handed_on[room]:
                    yield name

    assert not offenders(intruding)


def _handed_on(room: str) -> set[str]:
    """The names that a room and the folders in it hand on, and its modules: `row`, `triggers.TriggerSpec`."""
    room_folder = ROOT / "orchestrator" / room
    found: set[str] = set()
    for door in room_folder.rglob("__init__.py"):
        parts = door.parent.relative_to(room_folder).parts
        lists = (
            ast.literal_eval(node.value)
            for node in tree_of(door).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        names = {name for listed in lists for name in listed}
        names |= {path.stem for path in door.parent.glob("*.py")}
        found |= {".".join((*parts, name)) for name in names} | ({".".join(parts)} if parts else set())
    return found


def test_api_and_workers_enter_only_the_rooms_that_are_open_to_them() -> None:
    def elsewhere(path: Path) -> Iterator[str]:
        open_rooms = DOORS.get(layer_of(path))
        if open_rooms is not None:
            yield from (name for name in imports(path) if (room_of(name) or "domain") not in open_rooms)

    assert not offenders(elsewhere), f"{DOORS}"


def test_a_room_of_pipeweave_imports_only_the_rooms_before_it() -> None:
    def upward(path: Path) -> Iterator[str]:
        room = pipeweave_room_of(module_of(path))
        # What users import is handed on at the top.
        if room is None or path == ROOT / "pipeweave/__init__.py":
            return
        for name in imports(path):
            other = pipeweave_room_of(name)
            if other is not None and PIPEWEAVE_ROOMS.index(other) > PIPEWEAVE_ROOMS.index(room):
                yield name

    assert not offenders(upward), f"the rooms from below to above: {', '.join(PIPEWEAVE_ROOMS)}"


def pipeweave_room_of(name: str) -> str | None:
    """The room of ./pipeweave that a module, or an imported name, belongs to."""
    parts = name.split(".")
    if parts[0] != "pipeweave" or len(parts) == 1 or parts[1] in MAY_IMPORT.keys() - LAZY:
        return None
    if parts[1:3] == ["cli", "support"]:
        return "cli.support"
    return parts[1] if parts[1] in PIPEWEAVE_ROOMS else "base"


def test_a_command_imports_from_another_one_only_what_it_groups() -> None:
    """What commands share lies in pipeweave/cli/support."""

    def shared(path: Path) -> Iterator[str]:
        if path.parent != ROOT / "pipeweave/cli" or path.name in ("__init__.py", "__main__.py"):
            return
        for name in imports(path):
            module, _, attribute = name.rpartition(".")
            if pipeweave_room_of(name) == "cli" and not isinstance(
                getattr(import_module(module), attribute), click.Command
            ):
                yield name

    assert not offenders(shared)


def test_a_room_of_the_api_imports_only_the_rooms_before_it() -> None:
    def upward(path: Path) -> Iterator[str]:
        if layer_of(path) == "api":
            place = API_ROOMS.index(api_room_of(module_of(path)))
            mine = (name for name in imports(path) if layer_of_import(name) == "api")
            yield from (name for name in mine if API_ROOMS.index(api_room_of(name)) > place)

    assert not offenders(upward), f"the rooms from below to above: {', '.join(API_ROOMS)}"


def api_room_of(name: str) -> str:
    """The room of the API that a module, or an imported name, belongs to; `app` for the package itself."""
    room = ".".join(name.split(".")[2:3])
    return room if room in API_ROOMS else "app"
