"""Why a machine cannot confine."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeweave.box import confine, landlock, readable


def test_another_system_cannot_confine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine.sys, "platform", "darwin")
    assert confine.reason_against() == "darwin has no Landlock: sandboxes need Linux"


def test_an_unknown_processor_cannot_confine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine.os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    assert "riscv64" in str(confine.reason_against())


@pytest.mark.parametrize(
    ("code", "said"), [(errno.ENOSYS, "Linux 5.13 brought it"), (errno.EOPNOTSUPP, "is switched off")]
)
def test_a_kernel_without_landlock_says_what_is_missing(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock.ctypes, "get_errno", lambda: code)
    with pytest.raises(OSError, match=said):
        landlock.version(lambda *_: -1)


def test_a_folder_of_somebody_else_among_the_modules_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "mine.py").write_text("")

    def refused(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    rules = list(readable.of_modules(tmp_path))
    assert rules == [(tmp_path, landlock.READ_DIR), (tmp_path / "mine.py", landlock.READ)]


@pytest.mark.parametrize(("version", "rights"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (7, 16)])
def test_an_older_landlock_is_asked_for_what_it_knows(version: int, rights: int) -> None:
    assert landlock._handled(version) == (1 << rights) - 1
