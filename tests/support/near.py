"""Run the tests that are near a change, nearest first, within about a minute: `make near` and `make room`.

`make test` runs all tests; this is for the time until then. First come tests that have changed, and those
that hold a text that the change removed; then those of a room that changed, the ones that import the change
before the others; then those that import it from elsewhere. What needs whole stacks or a browser is run only
where the test itself has changed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.pages import ROOT
from support.source_tree import imports, module_of, sources

TESTS = ROOT / "tests"
# The tests of these folders are fast enough to be run for what they only import.
QUICK = ("unit", "database", "api")
# In each process no further test begins so long (s) after the first; what began goes on.
BUDGET_S = 38.0
# A shorter text may be anything's, and so may one that more files of tests hold.
LEAST_TEXT, MOST_HOLDING = 12, 10
# How far a test may be from a change, counted in imports, and how many files of tests are taken.
FARTHEST, MOST_FILES = 2, 80
# Tests of the whole tree, which say most about a change, and one that takes a minute.
ALWAYS, NEVER = ("unit/architecture", "unit/docs"), ("api/test_contract.py", "unit/conformance")


def main(arguments: list[str] | None = None) -> int:
    """Choose the tests, and run them; the exit code of pytest."""
    parser = argparse.ArgumentParser("near", description=__doc__)
    parser.add_argument("--room", help="as if all modules of this room had changed (engine, routes, cli)")
    parser.add_argument("--list", action="store_true", help="only print the files, nearest first")
    options = parser.parse_args(arguments)
    changed = _of_room(options.room) if options.room else _changed()
    if options.room and not changed:
        print(
            f"make room: there is no room {options.room!r}; there are {', '.join(rooms())}", file=sys.stderr
        )
        return 2
    chosen = ranked(changed, set() if options.room else _removed_texts())
    if options.list:
        print("\n".join(chosen))
        return 0
    if not chosen:
        print("nothing has changed since the last commit: `make room ROOM=engine` runs the tests of a room")
        return 0
    print(f"{len(changed)} changed files, {len(chosen)} files of tests, nearest first", flush=True)
    return _run(chosen)


def ranked(changed: Collection[Path], removed: Collection[str] = ()) -> list[str]:
    """The files of tests that are near these files, nearest first.

    Args:
        removed: texts that the change removed.
    """
    distances = _distances({module_of(each) for each in changed if each in _modules()})
    tests = sorted(TESTS.rglob("test_*.py"))
    holding = _holding([each for each in tests if _is_quick(each)], removed)
    ranks = {test: 0 if test in holding else _rank(test, changed, distances) for test in tests}
    near = [test for test, rank in ranks.items() if rank <= FARTHEST + 2]
    nearest = sorted(near, key=lambda each: (ranks[each], _distance(each, distances), each))[:MOST_FILES]
    return [each.relative_to(ROOT).as_posix() for each in nearest]


def rooms() -> list[str]:
    """The names that `--room` takes."""
    return sorted({part for path in sources() for part in path.relative_to(ROOT).parts[1:-1]})


def _distance(test: Path, distances: Mapping[str, int]) -> int:
    """How many imports lie between a test and a changed module."""
    return min((distances[each] for each in _imported(test) if each in distances), default=FARTHEST + 3)


def _holding(tests: Collection[Path], texts: Collection[str]) -> set[Path]:
    """The tests that hold a text which few hold: most likely they prove it."""
    contents = {test: test.read_text() for test in tests} if texts else {}
    for_each = ({test for test, content in contents.items() if text in content} for text in texts)
    return {test for holding in for_each if len(holding) <= MOST_HOLDING for test in holding}


def _is_quick(test: Path) -> bool:
    path = test.relative_to(TESTS).as_posix()
    return path.partition("/")[0] in QUICK and not path.startswith(NEVER)


def _rank(test: Path, changed: Collection[Path], distances: Mapping[str, int]) -> int:
    """0: it changed itself; 1: it lies with a room that did; from 2: what it imports is so far away."""
    far = FARTHEST + 3
    path = test.relative_to(TESTS).as_posix()
    if test in changed:
        return 0
    if not _is_quick(test):
        return far
    if changed and path.startswith(ALWAYS):
        return 1
    if _rooms(changed) & set(test.relative_to(TESTS).parts[1:-1]) or _is_namesake(test, changed):
        return 1
    return 2 + _distance(test, distances)


def _rooms(changed: Collection[Path]) -> set[str]:
    """The folders of tests of these modules: `engine` of orchestrator/engine/turn.py, and `workers` of
    workers/consumer/runner.py.
    """
    return {folder for each in changed for folder in each.relative_to(ROOT).parts[:-1]}


def _is_namesake(test: Path, changed: Collection[Path]) -> bool:
    """tests/api/test_webhooks_by_http.py is of api/routes/webhooks.py."""
    stem = test.stem.removeprefix("test_")
    of_api = (each for each in changed if each.relative_to(ROOT).parts[0] == "api")
    return test.parent.name == "api" and any(stem.startswith(each.stem) for each in of_api)


def _distances(changed: Collection[str]) -> dict[str, int]:
    """Module -> how many imports lie between it and a changed one; 0 for those."""
    found = dict.fromkeys(changed, 0)
    for distance in range(1, FARTHEST + 1):
        nearer = set(found)
        for path in sources():
            module = module_of(path)
            if module not in found and nearer & _imported(path):
                found[module] = distance
    return found


@cache
def _imported(path: Path) -> frozenset[str]:
    """The modules of the project that a file imports; packages with what they hand on."""
    names = set(imports(path)) if path in _modules() else set(_imports_of_test(path))
    parents = {each.rpartition(".")[0] for each in names}
    return frozenset((names | parents) & set(_modules().values()))


def _imports_of_test(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


@cache
def _modules() -> dict[Path, str]:
    return {path: module_of(path) for path in sources()}


def _of_room(room: str) -> set[Path]:
    return {path for path in sources() if room in path.relative_to(ROOT).parts[:-1][1:]}


def _changed() -> set[Path]:
    """The files that differ from the last commit that is on `main`."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    names = _git("diff", "--name-only", base[0]) + _git("ls-files", "--others", "--exclude-standard")
    return {ROOT / each for each in names if (ROOT / each).exists()}


def _removed_texts() -> set[str]:
    """The texts of the lines that are not there any more: what stands between quotes and braces."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    lines = _git("diff", "--unified=0", base[0], "--", "*.py", separator="\n")
    gone = [each[1:] for each in lines if each.startswith("-") and not each.startswith("---")]
    return {text for line in gone for text in texts_of(line)}


def texts_of(line: str) -> Iterator[str]:
    """The pieces of the string literals of a line, between what is filled in."""
    for literal in re.findall(r"""(?:"([^"]*)"|'([^']*)')""", line):
        pieces = re.split(r"\{[^}]*\}", "".join(literal))
        yield from (each.strip() for each in pieces if len(each.strip()) >= LEAST_TEXT)


def _git(*arguments: str, separator: str | None = None) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split(separator) if done.returncode == 0 else []


def _run(files: list[str]) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
        json.dump({"files": files}, plan)
        plan.flush()
        how = ("-q", "-p", "support.near", "--near", plan.name, "-n", "2", "--dist", "loadfile")
        return subprocess.call(
            [sys.executable, "-m", "pytest", *how, "--no-loadscope-reorder", *files], cwd=ROOT
        )


# --- in the processes of pytest ---------------------------------------------------------------------------

TOO_LATE, NOT_BEGUN = "the time of make near is over", "not begun"
# Files of tests that did not begin, to be named at the end.
MOST_NAMED = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plan that `make near` makes."""
    parser.addoption("--near", metavar="FILE", help="the files of tests, nearest first")


def _plan(config: pytest.Config) -> dict[str, object]:
    return dict(json.loads(Path(config.getoption("--near")).read_text()))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Nearest first, whatever order the gate has."""
    files = list(map(str, _plan(config)["files"]))  # type: ignore[call-overload]
    items.sort(key=lambda item: files.index(item.path.relative_to(ROOT).as_posix()))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test when the time of this process is over."""
    if time.monotonic() > _until():
        pytest.skip(TOO_LATE)


@cache
def _until() -> float:
    return time.monotonic() + BUDGET_S


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """A test that did not begin is no skipped one, and has no letter."""
    return (NOT_BEGUN, "", NOT_BEGUN.upper()) if TOO_LATE in str(report.longrepr) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this did not prove."""
    left = Counter(each.nodeid.partition("::")[0] for each in terminalreporter.stats.get(NOT_BEGUN, ()))
    if left:
        first = list(left)[:MOST_NAMED]
        terminalreporter.write_line(
            f"The time is over: {left.total()} tests in {len(left)} files did not begin. The nearest:\n"
            f"  .venv/bin/python -m pytest -q {' '.join(first)}\n`make test` runs all."
        )


if __name__ == "__main__":
    sys.exit(main())
