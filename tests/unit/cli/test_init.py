"""`pipeweave init` writes a project that runs, and never over anybody's work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeweave.cli import main
from pipeweave.settings import env_file, load

FILES = {"tasks.py", "test_tasks.py", "README.md", ".env.example", ".gitignore"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_new_project_passes_its_own_tests(here: Path) -> None:
    assert init("hello").exit_code == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=here / "hello",
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_init_prints_the_next_commands(here: Path) -> None:
    lines = init("hello").stdout.splitlines()
    assert [line.strip() for line in lines[2:5]] == [
        "cd hello",
        "python -m pytest",
        "pipeweave up --app tasks.py --reload",
    ]


def test_the_pipeline_carries_the_project_s_name_everywhere(here: Path) -> None:
    init("nightly-report")
    folder = here / "nightly-report"
    assert '@pipeline(id="nightly-report")' in (folder / "tasks.py").read_text()
    assert "pipeweave trigger nightly-report" in (folder / "README.md").read_text()
    assert not any("@NAME@" in each.read_text() for each in folder.iterdir())


def test_without_a_name_the_folder_gives_it(here: Path) -> None:
    (here / "shop").mkdir()
    result = init("--dir", "shop", "--json")
    shown = json.loads(result.stdout)
    assert (shown["name"], set(shown["files"]), names(here / "shop")) == ("shop", FILES, FILES)


def test_nothing_is_overwritten_and_nothing_half_written(here: Path) -> None:
    (here / "tasks.py").write_text("precious")
    result = init("--dir", ".", "hello")
    assert result.exit_code == 1
    assert "tasks.py" in result.stderr
    assert names(here) == {"tasks.py"}
    assert (here / "tasks.py").read_text() == "precious"


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", "ä", "a b", "x" * 101])
def test_a_name_that_cannot_be_a_pipeline_s_id_is_refused(here: Path, name: str) -> None:
    result = init("--", name)
    assert result.exit_code != 0
    assert names(here) == set()


def test_a_place_that_cannot_be_written_is_one_clear_line(here: Path) -> None:
    (here / "file").write_text("")
    result = init("hello", "--dir", "file/inside")
    assert result.exit_code == 1
    assert result.stderr.startswith("pipeweave: UNAVAILABLE: file/inside cannot be written")


def test_the_example_of_a_dot_env_is_one_and_dot_env_is_ignored(here: Path) -> None:
    init("hello")
    folder = here / "hello"
    assert ".env" in (folder / ".gitignore").read_text().splitlines()
    example = folder / ".env.example"
    switched_on = example.with_name("on.env")
    switched_on.write_text(re.sub(r"^# (?=[A-Z_]+=)", "", example.read_text(), flags=re.MULTILINE))
    assert env_file.additions({"PIPEWEAVE_ENV_FILE": str(example)}) == {}
    settings = load(env_file.additions({"PIPEWEAVE_ENV_FILE": str(switched_on)}))
    assert settings.named >= {
        "max_concurrency",
        "log_level",
        "orchestrator_url",
        "database_url",
        "broker_url",
    }
