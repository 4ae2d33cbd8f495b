"""Define the demo's pipeline, which measures the source of the installed Python standard library.

list_files ─┬─► count, one task run per file ─┬─► summarise, one per package ─┬─► report
            │                                 └─► largest ────────────────────┤
            └─────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import os
import platform
import sysconfig
from pathlib import Path
from typing import Any

from pipeweave import TaskError, pipeline, task
from pipeweave.demo.counting import added, count_file

# The standard library's own tests are three times as large as the rest of it.
SKIPPED = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})
LOOSE_MODULES = "(modules)"
LARGEST = 5

Row = dict[str, Any]


@task
def list_files(limit: int = 0) -> dict[str, Any]:
    """List the library's source files and the packages they belong to."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = source_files(root)
    if not paths:
        raise TaskError(f"there is no Python source under {root}", code="NO_SOURCE", retryable=False)
    files = paths[: limit or None]
    packages = sorted({package_of(path) for path in files})
    return {"python": platform.python_version(), "root": str(root), "files": files, "packages": packages}


@task
def count(path: str, root: str) -> Row:
    """Count lines, tokens, classes, functions and docstrings of one file."""
    return {"path": path, **count_file(Path(root) / path).to_json()}


@task
def summarise(package: str, rows: list[Row]) -> Row:
    """Add up the files of one package."""
    own = [row for row in rows if package_of(row["path"]) == package]
    return {"package": package, **added(own).to_json()}


@task
def largest(rows: list[Row]) -> list[Row]:
    """Find the files with the most tokens."""
    return sorted(rows, key=lambda row: (-row["tokens"], row["path"]))[:LARGEST]


@task
def report(listing: dict[str, Any], packages: list[Row], largest_files: list[Row]) -> dict[str, Any]:
    """Combine the results into one report, the largest package first."""
    return {
        "python": listing["python"],
        "root": listing["root"],
        "packages": sorted(packages, key=lambda row: (-row["tokens"], row["package"])),
        "largest": largest_files,
        "totals": added(packages).to_json(),
    }


@pipeline(id="stdlib-report", description="Measure the source of the installed Python standard library.")
def stdlib_report(limit: int = 0) -> None:
    """Measure at most `limit` files; 0 for all files."""
    listing = list_files(limit=limit)
    rows = count.map(listing["files"], root=listing["root"])
    packages = summarise.map(listing["packages"], rows=rows)
    report(listing=listing, packages=packages, largest_files=largest(rows=rows))


def source_files(root: Path) -> list[str]:
    """The paths of the source files below a folder, relative to it and sorted."""
    paths = []
    for folder, folders, names in os.walk(root):
        # Skip these folders before walking them: installed packages may be many times as large as the
        # library.
        folders[:] = [each for each in folders if each not in SKIPPED]
        here = Path(folder).relative_to(root)
        paths += [(here / name).as_posix() for name in names if name.endswith(".py")]
    return sorted(paths)


def package_of(path: str) -> str:
    """The top-level package of a file; single modules share the name `(modules)`."""
    return path.partition("/")[0] if "/" in path else LOOSE_MODULES
