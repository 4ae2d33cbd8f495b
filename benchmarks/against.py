"""Measure this tree and another commit in turns, and print the ratios of their figures.

The turns are A B B A A B B A: a machine that gets slower, or faster, disturbs both alike. The code that
measures is this tree's for both, so it must run on the product of the other commit. Where it does not, the
other commit can be measured with its own benchmarks: then the ratios to tuned Celery tell more, since each
tree has measured both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report
from benchmarks.processes import ROOT
from benchmarks.systems import BenchmarkFailed

# A benchmark and the unit of its figure.
Name = tuple[str, str]
Values = Mapping[Name, float]


def compare(reference: str, pairs: int, arguments: Sequence[str], its_own: bool = False) -> str:
    """Measure both trees as often as there are pairs; a table of the medians and their ratios.

    Args:
        reference: a commit, as git names it.
        arguments: of `python -m benchmarks` for each turn.
        its_own: the other commit is measured with its own benchmarks.

    Raises:
        BenchmarkFailed: there is no such commit, it could not be set up, or a turn failed.
    """
    ours: list[Values] = []
    theirs: list[Values] = []
    with _tree_of(reference, its_own) as tree:
        for pair in range(pairs):
            turns = [(ROOT, Path(sys.executable), ours), (tree, tree / ".venv/bin/python", theirs)]
            for root, python, measured in turns if pair % 2 == 0 else reversed(turns):
                print(f"pair {pair + 1} of {pairs}: {reference if root == tree else 'this tree'}", flush=True)
                measured.append(_measured(root, python, arguments))
            # A long measuring may be stopped: what it has until then is there.
            print(report.aligned(rows(reference, ours, theirs)), flush=True)
    return report.aligned(rows(reference, ours, theirs))


@contextmanager
def _tree_of(reference: str, its_own: bool) -> Iterator[Path]:
    """Check a commit out in a new folder and set it up; remove it at the end."""
    # Next to the sources, not in /tmp, as what is measured.
    report.LATEST.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="against-", dir=report.LATEST.parent))
    tree = folder / "tree"
    try:
        _call(ROOT, "git", "worktree", "add", "--quiet", "--detach", str(tree), reference)
        _call(tree, "make", "setup", f"PYTHON={os.path.realpath(sys.executable)}")
        if not its_own:
            shutil.rmtree(tree / "benchmarks")
            shutil.copytree(ROOT / "benchmarks", tree / "benchmarks", ignore=shutil.ignore_patterns("out"))
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def _measured(root: Path, python: Path, arguments: Sequence[str]) -> Values:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        _call(root, str(python), "-m", "benchmarks", *arguments, "--out", str(file))
        return values_of(json.loads(file.read_text()))


def values_of(document: Mapping[str, Any]) -> dict[Name, float]:
    """Every figure of ours in a document of `report.to_json`, and its ratio to tuned Celery's; costs with and
    without their process.
    """
    values: dict[Name, float] = {}
    for name, entry in document.items():
        values[name, entry["unit"]] = entry["ours"]
        if "ratio_tuned" in entry:
            values[name, "of tuned Celery"] = entry["ratio_tuned"]
        for cost, by_process in entry.get("costs", {}).items():
            counted = {process: value for process, value in by_process.items() if value is not None}
            values |= {(name, f"{cost}, {process}"): value for process, value in counted.items()}
    return values


def rows(reference: str, ours: Sequence[Values], theirs: Sequence[Values]) -> list[report.Row]:
    """The header, and a line for each figure that every turn has."""
    table: list[report.Row] = [("benchmark", "unit", "this tree", reference, "ratio", "least", "most")]
    for name in ours[0]:
        if all(name in turn for turn in (*ours, *theirs)):
            here, there = ([turn[name] for turn in turns] for turns in (ours, theirs))
            ratios = [a / b for a, b in zip(here, there, strict=True) if b]
            middle = median(here) / median(there) if median(there) else None
            spread = (min(ratios), max(ratios)) if ratios else (None, None)
            table.append(
                (
                    *name,
                    *map(report.number, (median(here), median(there))),
                    *map(report.times, (middle, *spread)),
                )
            )
    return table


def _call(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise BenchmarkFailed(f"{' '.join(command)}: {(done.stderr or done.stdout)[-2000:].strip()}")
