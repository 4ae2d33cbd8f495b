"""The walks name functions that exist, and each of them is called by a file that was named before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from support.pages import ROOT, text_of

WALKS = ["docs/walk-a-run.md", "docs/walk-a-dead-worker.md"]
# Paths without a first folder are below orchestrator/.
FOLDERS = ("orchestrator", ".")

_STEP = re.compile(r"^(\d+)\. (Entry: )?(.*?)(?=^\d+\. |^\*\*|^## |\Z)", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:,\s)?)+)")


@dataclass(frozen=True)
class Step:
    """One step of a walk: a file, its functions, and whether something outside the walk calls them."""

    number: int
    file: Path
    functions: tuple[str, ...]
    is_entry: bool


def file_of(name: str) -> Path:
    found = [ROOT / folder / name for folder in FOLDERS if (ROOT / folder / name).is_file()]
    assert found, f"there is no file {name}"
    return found[0]


def named_in(text: str) -> list[tuple[Path, tuple[str, ...]]]:
    return [(file_of(file), tuple(re.findall(r"`([\w.]+)`", names))) for file, names in _NAMED.findall(text)]


def steps_of(walk: str) -> Iterator[Step]:
    for number, entry, text in _STEP.findall(text_of(walk)):
        file, functions = named_in(text)[0]
        yield Step(int(number), file, functions, bool(entry))


@cache
def defined_in(file: Path) -> set[str]:
    """Functions as `name`, methods as `Class.name`."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


@cache
def used_in(file: Path) -> set[str]:
    """The names of the functions and methods that a file uses."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
        node.id for node in nodes if isinstance(node, ast.Name)
    }


@pytest.mark.parametrize("walk", WALKS)
def test_every_function_that_a_walk_names_exists(walk: str) -> None:
    named = named_in(text_of(walk))
    missing = [
        f"{file.name}: {name}" for file, names in named for name in names if name not in defined_in(file)
    ]
    assert len(named) > 20
    assert not missing


@pytest.mark.parametrize("walk", WALKS)
def test_the_steps_of_a_walk_are_numbered_in_order(walk: str) -> None:
    numbers = [step.number for step in steps_of(walk)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("walk", WALKS)
def test_a_file_that_was_named_before_calls_each_function_of_a_walk(walk: str) -> None:
    known: list[Path] = []
    uncalled = []
    for step in steps_of(walk):
        known.append(step.file)
        if not step.is_entry:
            used = set().union(*(used_in(file) for file in known))
            uncalled += [
                (step.number, name) for name in step.functions if name.rpartition(".")[2] not in used
            ]
    assert not uncalled
