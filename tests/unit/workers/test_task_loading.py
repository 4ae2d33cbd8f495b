"""Files that are loaded as apps, beside the modules that Python has loaded already."""

from __future__ import annotations

import email
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeweave.errors import InvalidInput
from pipeweave.workers.process import task_loading

TASK = """
from pipeweave import task

@task(id={id!r})
def send() -> None:
    pass
"""


@pytest.fixture(autouse=True)
def clean_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules, paths and tasks that a test adds are gone after it, and tasks of other tests are not there."""
    definitions = sys.modules["pipeweave.authoring.task"]
    monkeypatch.setattr(definitions, "_registry", {})
    monkeypatch.setattr(definitions, "_duplicates", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def test_a_file_with_the_name_of_a_loaded_module_does_not_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "email.py"
    path.write_text(TASK.format(id="task_loading.one"))
    loaded = task_loading.load([str(path)])
    assert "task_loading.one" in loaded.tasks
    assert sys.modules["email"] is email


def test_a_file_that_fails_to_load_leaves_the_module_of_its_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "email.py"
    path.write_text("raise ValueError('it is broken')")
    with pytest.raises(InvalidInput, match="it is broken"):
        task_loading.load([str(path)])
    assert sys.modules["email"] is email


def test_a_file_that_is_named_twice_is_loaded_once(tmp_path: Path) -> None:
    path = tmp_path / "email.py"
    path.write_text(TASK.format(id="task_loading.two"))
    task_loading.load([str(path), str(tmp_path)])
    modules = [each for each in sys.modules.values() if getattr(each, "__file__", None) == str(path)]
    assert len(modules) == 1
