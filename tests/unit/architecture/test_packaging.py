"""Everything in the source folders is installed, and seen by the type checker."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.pages import ROOT
from support.source_tree import module_of, sources


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
