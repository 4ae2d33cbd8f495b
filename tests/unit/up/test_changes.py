"""Which files `up --reload` watches, and when it acts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.servers import wait_until

from pipeweave.up import changes
from pipeweave.up.changes import FileWatch


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


def watched(root: Path, *apps: str) -> set[str]:
    found = FileWatch(apps, root, lambda _: None).look()
    return {str(Path(each).relative_to(root.resolve())) for each in found}


def test_modules_beside_an_app_are_watched(tmp_path: Path) -> None:
    write(tmp_path, "tasks.py", "helper.py", "shop/prices.py", "notes.txt")
    assert watched(tmp_path, "tasks.py") == {"tasks.py", "helper.py", "shop/prices.py"}
    assert watched(tmp_path, "shop.tasks") == {"tasks.py", "helper.py", "shop/prices.py"}


def test_tests_data_and_other_peoples_code_are_not_watched(tmp_path: Path) -> None:
    write(tmp_path, "tasks.py", "test_tasks.py", "conftest.py", ".hidden/a.py", "__pycache__/a.py")
    write(tmp_path, "env/pyvenv.cfg", "env/lib/a.py", "node_modules/a.py", ".pipeweave/storage/a.py")
    assert watched(tmp_path, "tasks.py") == {"tasks.py"}


def test_documents_are_watched_where_apps_are(tmp_path: Path) -> None:
    write(tmp_path, "pipelines/nightly.yaml", "pipelines/steps.py", "pipelines/deep/x.yaml", "out.json")
    assert watched(tmp_path, "pipelines") == {"pipelines/nightly.yaml", "pipelines/steps.py"}
    assert watched(tmp_path, "pipelines/nightly.yaml") == {"pipelines/nightly.yaml", "pipelines/steps.py"}


def test_an_app_elsewhere_is_watched_with_its_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write(here, "tasks.py")
    write(there, "more.py", "beside.py")
    found = FileWatch([str(there / "more.py")], here, lambda _: None).look()
    assert {Path(each).name for each in found} == {"tasks.py", "more.py", "beside.py"}


@contextmanager
def watching(root: Path, told: list[list[str]]) -> Iterator[None]:
    watch = FileWatch(["tasks.py"], root, told.append)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def test_changes_new_files_and_removals_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "PAUSE_S", 0.01)
    write(tmp_path, "tasks.py", "old.py")
    told: list[list[str]] = []
    with watching(tmp_path, told):
        (tmp_path / "tasks.py").write_text("x = 10\n")
        wait_until(lambda: told == [["tasks.py"]])
        write(tmp_path, "new.py")
        wait_until(lambda: told[1:] == [["new.py"]])
        (tmp_path / "old.py").unlink()
        wait_until(lambda: told[2:] == [["old.py"]])


def test_a_change_is_told_when_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "tasks.py")
    states = iter([{}, {"a.py": (1, 1)}, {"a.py": (2, 1)}, {"a.py": (2, 1), "b.py": (1, 1)}])
    last = {"a.py": (2, 1), "b.py": (1, 1)}
    monkeypatch.setattr(changes, "PAUSE_S", 0.01)
    monkeypatch.setattr(FileWatch, "look", lambda self: next(states, last))
    told: list[list[str]] = []
    with watching(tmp_path, told):
        wait_until(lambda: bool(told))
    assert told == [["a.py", "b.py"]]
