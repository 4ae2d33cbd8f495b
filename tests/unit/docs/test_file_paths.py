"""The documents name files and folders of the repository by their present paths."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from support.pages import PAGES, ROOT

# Folders of the repository. A name in backticks that begins with one of them is a path in it.
FOLDERS = ("api", "benchmarks", "chaos", "docs", "examples", "migrations", "orchestrator", "pipeweave")
FOLDERS += ("tests", "typings", "workers")
# A path of a module may leave out the first folder, as in `runs/triggering.py`.
ROOTS = ("", "orchestrator", "pipeweave", "workers", "api", "workers/consumer", "workers/process")
# Files that the examples of the documents create.
MADE_BY_EXAMPLES = {"lines.py"}
# The repository does not keep them: `make sql` and `make docs` make them.
BUILT = ("docs/sql/pages/", "api/help")

DOCUMENTS = [page for page in PAGES if page.parent == ROOT or "docs" in page.relative_to(ROOT).parts]


def named_in(page: Path) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"`([\w./-]+)`", prose))


@cache
def modules() -> set[str]:
    return {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}


def is_missing(name: str) -> bool:
    if "/" not in name:
        known = name in modules() | MADE_BY_EXAMPLES or (ROOT / name).is_file()
        return name.endswith(".py") and not known
    if name.endswith(".py"):
        return not any((ROOT / root / name).is_file() for root in ROOTS)
    return name not in BUILT and name.split("/")[0] in FOLDERS and not (ROOT / name).exists()


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_document_names_exists(page: Path) -> None:
    assert not sorted(name for name in named_in(page) if is_missing(name))


@pytest.mark.parametrize("name", ["orchestrator/queue.py", "holds.py", "runs/trigger.py", "api/checks"])
def test_a_path_that_is_gone_is_found(name: str) -> None:
    assert is_missing(name)


@pytest.mark.parametrize(
    "name", ["domain/states.py", "pipeweave/errors.py", "docs/decisions", "/health", "a/b"]
)
def test_a_present_path_and_other_names_are_no_fault(name: str) -> None:
    assert not is_missing(name)
