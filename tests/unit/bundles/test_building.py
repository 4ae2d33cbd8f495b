"""`pipeweave bundle build | keygen | sign | verify`, in a shell: no server, and the same bytes each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipeweave.bundles import bundle as bundles
from pipeweave.bundles.bundle import Bundle

TASKS = """
from pipeweave import pipeline, task
from prices import price

@task(retries=2)
def charge(amount: int) -> int:
    return amount + price()

@pipeline
def checkout(amount: int):
    return charge(amount=amount)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__pycache__/tasks.pyc").write_bytes(b"old")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("secret")
    (folder / "tasks.py").write_text(TASKS)
    (folder / "prices.py").write_text("def price():\n    return 5\n")
    (folder / "rates").mkdir()
    (folder / "rates/today.json").write_text("{}")
    return folder


def run(*arguments: object, at: Path) -> subprocess.CompletedProcess[str]:
    # A user's shell is in a folder of its own, and writes no file of it anew.
    return subprocess.run(
        [sys.executable, "-m", "pipeweave.cli", "bundle", *map(str, arguments)],
        cwd=at,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "80"},
    )


def built(shop: Path, *options: object) -> Bundle:
    done = run(
        "build", shop, "--id", "shop", "--version", "1.4.0", *options, "--out", "made.pwb", at=shop.parent
    )
    assert done.returncode == 0, done.stderr
    return bundles.read((shop.parent / "made.pwb").read_bytes())


def test_a_bundle_holds_the_sources_the_tasks_and_the_pipelines(shop: Path) -> None:
    made = built(shop)
    assert sorted(made.files) == ["src/prices.py", "src/rates/today.json", "src/tasks.py"]
    (task,) = made.manifest.tasks
    assert (task.id, task.module, task.function) == ("charge", "tasks", "charge")
    assert task.registration["retries"] == 2
    assert [each["id"] for each in made.manifest.pipelines] == ["checkout"]
    assert not list(shop.rglob("*.pyc"))[1:], "building leaves nothing behind"


def test_the_same_sources_give_the_same_bytes(shop: Path) -> None:
    first = built(shop).to_bytes()
    for file in shop.glob("*.py"):
        os.utime(file, (1, 1))
        file.chmod(0o755)
    assert built(shop).to_bytes() == first


def test_a_bundle_is_signed_and_verified_without_a_server(shop: Path) -> None:
    built(shop)
    at = shop.parent
    assert run("verify", "made.pwb", "--key", "made.pwb", at=at).returncode == 1
    made = json.loads(run("keygen", "release.key", "--json", at=at).stdout)
    assert run("sign", "made.pwb", "--key", "release.key", at=at).returncode == 0
    verified = json.loads(run("verify", "made.pwb", "--key", "release.key.pub", "--json", at=at).stdout)
    assert verified["verified"] is True
    assert verified["keyIds"] == [made["keyId"]]
    run("keygen", "other.key", at=at)
    refused = run("verify", "made.pwb", "--key", "other.key.pub", at=at)
    assert refused.returncode == 1
    assert refused.stderr.startswith("pipeweave: BUNDLE_KEY_UNKNOWN: ")
    assert refused.stderr.count("\n") == 1


def test_name_and_version_come_from_the_project(shop: Path) -> None:
    (shop / "pyproject.toml").write_text(
        '[project]\nname = "till"\nversion = "2.1"\nrequires-python = ">=3.11"\n'
    )
    done = run("build", shop, "--json", at=shop.parent)
    described = json.loads(done.stdout)
    assert (described["id"], described["version"], described["python"]) == ("till", "2.1", ">=3.11")
    assert (shop.parent / "till-2.1.pwb").exists()


def test_a_wheel_goes_along_and_is_imported(shop: Path) -> None:
    (shop / "prices.py").write_text("from calc import price\n")
    wheel = shop.parent / "calc-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("calc.py", "def price():\n    return 7\n")
    made = built(shop, "--wheel", wheel)
    assert made.manifest.requires == ["wheels/calc-1.0-py3-none-any.whl"]


def test_what_does_not_go_into_a_bundle_is_refused_in_one_line(shop: Path) -> None:
    task = "from pipeweave import task\n"
    refused = {
        f"{task}@task(idempotency_key=lambda given: 'k')\ndef charge(): ...\n": "idempotency key",
        f"{task}def make():\n    @task\n    def charge(): ...\nmake()\n": "is not the attribute",
        "x = 1\n": "no tasks found",
        "import nowhere\n": "cannot be loaded",
    }
    for source, reason in refused.items():
        (shop / "tasks.py").write_text(source)
        done = run("build", shop, "--id", "shop", "--version", "1", at=shop.parent)
        assert done.returncode == 1
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    assert not list(shop.parent.glob("*.pwb"))


def test_a_link_to_elsewhere_is_no_source(shop: Path) -> None:
    (shop / "passwd.py").symlink_to("/etc/passwd")
    assert "is a link" in run("build", shop, "--id", "s", "--version", "1", at=shop.parent).stderr


def test_a_bundle_without_a_version_is_refused(shop: Path) -> None:
    assert "--version" in run("build", shop, "--id", "shop", at=shop.parent).stderr
