"""The demo's tasks: what they count, and that no file can make them fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeweave.demo.counting import FileCounts, added, count_file
from pipeweave.demo.stdlib import largest, list_files, package_of, source_files, stdlib_report, summarise
from pipeweave.testing import run_pipeline

SOURCE = '''"""A module with a docstring."""

# A remark is not a token.
class Shop:
    """With one, too."""

    def open(self):
        return 1

    async def close(self): ...
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def counted(folder: Path, content: bytes) -> FileCounts:
    path = folder / "module.py"
    path.write_bytes(content)
    return count_file(path)


def test_a_file_is_counted_by_what_the_compiler_reads(folder: Path) -> None:
    assert counted(folder, SOURCE.encode()) == FileCounts(
        files=1, lines=10, tokens=21, classes=1, functions=2, definitions=4, documented=2
    )


def test_an_empty_file_is_a_module_without_a_docstring(folder: Path) -> None:
    assert counted(folder, b"") == FileCounts(files=1, definitions=1)


def test_the_encoding_a_file_names_is_used(folder: Path) -> None:
    content = '# -*- coding: latin-1 -*-\nname = "grün"\n'.encode("latin-1")
    assert counted(folder, content).tokens == 3


@pytest.mark.parametrize(
    "content",
    [b"print 1\n", b"\xff\xfe\x00", b"x = '\x00'\n", b"# coding: nonsense\n", b"if True:\n  1\n 2\n", b"("],
    ids=["another Python", "not UTF-8", "a zero byte", "unknown encoding", "indentation", "open bracket"],
)
def test_an_unreadable_file_is_counted_as_unreadable(folder: Path, content: bytes) -> None:
    assert counted(folder, content) == FileCounts(files=1, unreadable=1)


def test_a_file_that_is_gone_is_counted_as_unreadable(folder: Path) -> None:
    assert count_file(folder / "gone.py") == FileCounts(files=1, unreadable=1)


def test_a_file_with_doubtful_escapes_is_counted_without_a_warning(folder: Path) -> None:
    assert counted(folder, b'pattern = "\\d"\n').tokens == 3


def test_installed_packages_and_tests_are_left_out(folder: Path) -> None:
    for name in ("a.py", "json/b.py", "site-packages/c.py", "json/tests/d.py", "json/e.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    assert source_files(folder) == ["a.py", "json/b.py"]


def test_packages_add_up_to_everything() -> None:
    rows = [
        {"path": path, **FileCounts(files=1, tokens=tokens).to_json()}
        for path, tokens in (("a.py", 1), ("b.py", 2), ("json/c.py", 4))
    ]
    packages = [summarise.fn(name, rows) for name in ("(modules)", "json")]
    assert [row["tokens"] for row in packages] == [3, 4]
    assert added(packages) == FileCounts(files=3, tokens=7)
    assert [row["path"] for row in largest.fn(rows)] == ["json/c.py", "b.py", "a.py"]
    assert package_of("json/c.py") == "json"


def test_the_whole_pipeline_runs_in_this_process_on_some_files() -> None:
    run = run_pipeline(stdlib_report, input={"limit": 5})
    assert run.status == "completed"
    report = run.output
    assert report["totals"]["files"] == 5
    assert sum(row["tokens"] for row in report["packages"]) == report["totals"]["tokens"] > 0


def test_without_a_limit_every_file_is_listed() -> None:
    assert len(list_files.fn()["files"]) > 500
