"""`pipeweave init` writes a project that runs, and never over anybody's work."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, version
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from packaging.requirements import Requirement
from support.pages import ROOT

from pipeweave.cli import main
from pipeweave.settings import env_file, load

FILES = {"tasks.py", "test_tasks.py", "README.md", ".env.example", ".gitignore"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def whole(here: Path) -> Path:
    """The folder of a project with everything."""
    assert init("Night.Shop", "--full").exit_code == 0
    return here / "Night.Shop"


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


# --- with --full ------------------------------------------------------------------------------------------


def test_a_whole_project_has_a_package_an_image_its_deployment_and_a_workflow(whole: Path) -> None:
    assert names(whole) == FILES | {
        *("pyproject.toml", "Dockerfile", ".dockerignore", "compose.yaml", "docker", ".github")
    }
    texts = [each.read_text() for each in whole.rglob("*") if each.is_file()]
    assert not any(re.search("@[A-Z]+@", each) for each in texts)


def test_the_package_of_a_project_takes_the_version_that_is_installed(whole: Path) -> None:
    project = tomllib.loads((whole / "pyproject.toml").read_text())["project"]
    (needed,) = map(Requirement, project["dependencies"])
    assert project["name"] == "night.shop"
    assert needed.specifier.contains(version("pipeweave"))
    known = set(metadata("pipeweave").get_all("Provides-Extra") or ())
    extras = [needed, *map(Requirement, project["optional-dependencies"]["dev"])]
    assert {extra for each in extras for extra in each.extras} <= known


def test_the_tests_of_a_whole_project_pass_as_its_workflow_runs_them(whole: Path) -> None:
    jobs = yaml.safe_load((whole / ".github/workflows/ci.yml").read_text())["jobs"]
    commands = [step["run"] for step in jobs["test"]["steps"] if "run" in step]
    assert commands == ["python -m pip install -e '.[dev]'", "python -m pytest"]
    assert jobs["image"]["needs"] in jobs
    done = subprocess.run(
        [sys.executable, *shlex.split(commands[1])[1:]],
        cwd=whole,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "3 passed" in done.stdout


def test_the_compose_file_of_a_project_is_that_of_the_repository_without_its_bucket(whole: Path) -> None:
    ours = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    made = yaml.safe_load((whole / "compose.yaml").read_text())
    assert made["name"] == "night-shop"
    assert ours.keys() - made["services"].keys() == {"bucket", "s3", "flower"}
    assert made["services"]["postgres"] == ours["postgres"]
    assert made["services"]["valkey"] == ours["valkey"]
    for name in ("migrate", "api", "worker", "beat"):
        service = made["services"][name]
        differing = {key for key in service if service[key] != ours[name].get(key)}
        assert differing <= {"image", "environment", "depends_on", "volumes", "command"}
        assert service["environment"].items() <= ours[name]["environment"].items()
        assert service["depends_on"].keys() <= made["services"].keys()
        assert service["volumes"] == ["data:/data"]
        assert service["command"][:2] == ours[name]["command"][:2]
    assert made["services"]["worker"]["command"][3] == "tasks"
    assert (whole / "docker/create-database.sh").is_file()


def test_the_image_of_a_project_is_that_of_the_repository_with_its_code(whole: Path) -> None:
    ours = (ROOT / "Dockerfile").read_text().splitlines()
    made = (whole / "Dockerfile").read_text().splitlines()
    own = [line for line in made if line not in ours and line[:1] != "#"]
    assert own == ["RUN /opt/pipeweave/bin/pip install ."]
    statements = [
        each for each in (ROOT / "docker/create-database.sh").read_text().splitlines() if each[:1] != "#"
    ]
    script = (whole / "docker/create-database.sh").read_text().splitlines()
    assert [each for each in script if each[:1] != "#"] == statements
