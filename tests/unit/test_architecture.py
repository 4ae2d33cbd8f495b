"""Who may know whom, read from the source. docs/architecture.md draws the same picture."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from support.pages import ROOT

# Folder -> the layers it may import. `face` is what users import: ./pipeweave without cli/ and up/.
MAY_IMPORT: dict[str, set[str]] = {
    "face": {"face"},
    "orchestrator": {"face", "orchestrator"},
    "migrations": {"face", "orchestrator", "migrations"},
    "workers": {"face", "orchestrator", "workers"},
    "api": {"face", "orchestrator", "api"},
    "up": {"face", "up", "cli", "api", "workers", "orchestrator", "migrations"},
    "cli": {"face", "up", "cli", "api", "workers", "orchestrator", "migrations"},
}
# The two composition roots look up only inside functions, so that `pipeweave --help` stays quick.
LAZY = {"up", "cli"}
HEAVY = {"flask", "celery", "kombu", "sqlalchemy", "psycopg2", "alembic", "boto3", "redis", "gunicorn"}
SQL = {"sqlalchemy", "psycopg2", "alembic"}
# The rooms of the orchestrator: a room imports only rooms before it, and not those that lie beside it.
ROOMS = (
    *("domain", "store", "messaging", "security", "registry", "state", "queueing", "engine", "runs"),
    *("deadletters", "reading", "retention", "deployment", "recovery", "diagnosis"),
)
APART = {("messaging", "store"), ("store", "messaging"), ("security", "messaging")}
# The rooms of the orchestrator that the layers above it enter.
DOORS = {
    "api": {
        *("domain", "store", "security", "registry", "queueing", "runs", "deadletters", "reading"),
        *("deployment", "recovery", "diagnosis"),
    },
    "workers": {
        *("domain", "store", "messaging", "registry", "state", "queueing", "engine", "runs", "retention"),
        *("deployment", "recovery"),
    },
}
# What lies in ./pipeweave, from below to above; what lies beside the folders is the base.
PIPEWEAVE_ROOMS = (
    *("base", "schema", "spec", "authoring", "settings", "storage", "client", "testing", "demo"),
    *("up", "cli.support", "cli"),
)
# The rooms of the API, in the same order; `app` is its package itself, where `create_app` is.
API_ROOMS = ("contract", "http", "routes", "app", "serve")
# Rooms of the orchestrator that may import a driver (`deployment`: alembic).
DRIVERS_IN = {"store", "deployment"}
STATUS_UPDATES_IN = {
    "pipeweave.orchestrator.state.run_transitions",
    "pipeweave.orchestrator.state.task_transitions",
}
STATUS_UPDATE = re.compile(r"\bUPDATE (?:runs|task_runs)\b(?:(?!\bWHERE\b).)*?\bstatus = ", re.DOTALL)
CHORDS = {"chord", "on_chord_part_return", "set_chord_size"}
WORDS_WE_DO_NOT_USE = {
    *("job", "jobs", "node", "nodes", "flow", "flows", "execution", "executions"),
    *("manager", "handler", "handlers", "util", "utils", "helper", "helpers", "common"),
}


def sources() -> list[Path]:
    folders = ("pipeweave", "orchestrator", "workers", "api", "migrations")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def layer_of(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).parts
    if folder != "pipeweave":
        return folder
    return rest[0] if rest[0] in LAZY else "face"


def layer_of_import(name: str) -> str | None:
    parts = name.split(".")
    if parts[0] != "pipeweave":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "face"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    full = parts if parts[0] == "pipeweave" else ("pipeweave", *parts)
    return ".".join(full).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Every imported name in full, `from a import b` as `a.b`; top_level: only those run at import."""
    for node in _statements(tree_of(path)) if top_level else ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module_of(path).split(".")[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when the module is imported: not in functions, not for type checkers."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _statements(child)


def names_used(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]


def offenders(faults: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """Which source files break a rule.

    Args:
        faults: what is wrong with a file; nothing when it keeps the rule.

    Returns:
        The faults by the path of the file below the project, files without a fault left out.
    """
    found = {str(path.relative_to(ROOT)): sorted(set(faults(path))) for path in sources()}
    return {path: listed for path, listed in found.items() if listed}


def test_imports_follow_the_direction_of_the_layers() -> None:
    def upward(path: Path) -> Iterator[str]:
        layer = layer_of(path)
        return (name for name in imports(path) if (layer_of_import(name) or layer) not in MAY_IMPORT[layer])

    assert not offenders(upward), f"a layer may import only {MAY_IMPORT}"


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


def test_whoever_enters_a_room_from_outside_comes_through_its_door() -> None:
    """They import the room, a name that its `__init__` hands on, or one of its modules as a whole."""
    handed_on = {room: _handed_on(room) for room in ROOMS}

    def intruding(path: Path) -> Iterator[str]:
        if layer_of(path) not in {"orchestrator", "migrations"}:
            for name in imports(path):
                room = room_of(name)
                inside = ".".join(name.split(".")[3:])
                if room is not None and inside and inside not in handed_on[room]:
                    yield name

    assert not offenders(intruding)


def _handed_on(room: str) -> set[str]:
    """The names that a room hands on, and its modules."""
    folder = ROOT / "orchestrator" / room
    lists = (
        ast.literal_eval(node.value)
        for node in tree_of(folder / "__init__.py").body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return {name for listed in lists for name in listed} | {path.stem for path in folder.glob("*.py")}


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


def test_every_module_of_the_orchestrator_lies_in_a_room() -> None:
    outside = [path for path in (ROOT / "orchestrator").glob("*.py") if path.name != "__init__.py"]
    folders = {path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")}
    assert not outside
    assert folders == set(ROOMS)


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


def room_of(name: str) -> str | None:
    """The room of the orchestrator that a module, or an imported name, belongs to."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["pipeweave", "orchestrator"] and len(parts) > 2 else None


def test_the_face_and_the_composition_roots_import_nothing_heavy_at_import_time() -> None:
    upper = {"orchestrator", "migrations", "workers", "api"}

    def heavy(path: Path) -> Iterator[str]:
        if layer_of(path) in LAZY | {"face"}:
            for name in imports(path, top_level=True):
                if name.split(".")[0] in HEAVY or layer_of_import(name) in upper:
                    yield name

    assert not offenders(heavy), "import it inside the function that needs it"


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


def test_only_two_modules_change_the_status_of_a_run_or_a_task_run() -> None:
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


def test_names_use_the_words_of_the_project() -> None:
    def strange_words(path: Path) -> set[str]:
        named = [
            path.stem,
            *(node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)),
        ]
        words = {word.lower() for name in named for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        return words & WORDS_WE_DO_NOT_USE

    assert not offenders(strange_words)


def test_the_rules_look_at_every_layer() -> None:
    assert {layer_of(path) for path in sources()} == set(MAY_IMPORT)


def test_every_package_folder_is_installed() -> None:
    """setuptools takes an explicit list: a folder that is not on it would be missing from the wheel."""
    listed = set(_setuptools()["packages"])
    found = {module_of(path) for path in sources() if path.name == "__init__.py"}
    assert found == listed


def test_the_type_checker_sees_every_module() -> None:
    entries = {path.name for path in (ROOT / "pipeweave").iterdir()} - {"__pycache__"}
    wanted = {name: f"../../pipeweave/{name}" for name in entries if not name.startswith(".")}
    wanted |= {name: f"../../{name}" for name in ("orchestrator", "workers", "api", "migrations")}
    links = {
        link.name: str(link.readlink())
        for link in (ROOT / "typings/pipeweave").iterdir()
        if link.is_symlink()
    }
    assert links == wanted, "run `make links`"


def test_every_file_beside_the_sources_is_installed() -> None:
    """A template that works in the checkout and is missing from the wheel is found here, not by a user."""
    document = _setuptools()
    folders = {package: ROOT / folder for package, folder in document["package-dir"].items()}
    missing = []
    for path in _beside_the_sources():
        package = max(
            (name for name in document["packages"] if _folder(name, folders) in path.parents), key=len
        )
        within = path.relative_to(_folder(package, folders))
        if not any(within.match(pattern) for pattern in document["package-data"].get(package, [])):
            missing.append(f"{package}: {within}")
    assert not missing


def _setuptools() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def _beside_the_sources() -> Iterator[Path]:
    for folder in ("pipeweave", "orchestrator", "workers", "api", "migrations"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts:
                yield path


def _folder(package: str, mapped: dict[str, Path]) -> Path:
    root = max((name for name in mapped if f"{package}.".startswith(f"{name}.")), key=len)
    return mapped[root].joinpath(*package.removeprefix(root).strip(".").split(".")).resolve()
