"""The source files of the project, and what they import: for the tests of the architecture."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from support.pages import ROOT

# Folder -> the layers it may import. `face` is what users import: ./pipeweave without cli/, up/, embedding/
# and enqueueing/; `names` is its __init__, which hands on what users import.
MAY_IMPORT: dict[str, set[str]] = {
    "face": {"face"},
    "names": {"names", "face", "embedding", "enqueueing"},
    "orchestrator": {"face", "orchestrator"},
    "migrations": {"face", "orchestrator", "migrations"},
    "workers": {"face", "orchestrator", "workers"},
    "api": {"face", "orchestrator", "api"},
    "enqueueing": {"face", "enqueueing", "orchestrator"},
    "embedding": {"face", "embedding", "api", "workers", "orchestrator", "migrations"},
    "up": {"face", "up", "cli", "api", "workers", "orchestrator", "migrations"},
    "cli": {"face", "up", "cli", "api", "workers", "orchestrator", "migrations"},
}
# The composition roots look up only inside functions, so that `pipeweave --help` stays quick.
LAZY = {"up", "cli", "embedding", "enqueueing"}


def sources() -> list[Path]:
    folders = ("pipeweave", "orchestrator", "workers", "api", "migrations")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def layer_of(path: Path) -> str:
    folder, *rest = path.relative_to(ROOT).parts
    if folder != "pipeweave":
        return folder
    if rest == ["__init__.py"]:
        return "names"
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
    for node in statements(tree_of(path)) if top_level else ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module_of(path).split(".")[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when the module is imported: not in functions, not for type checkers."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from statements(child)


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
