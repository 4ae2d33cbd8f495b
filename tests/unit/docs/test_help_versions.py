"""`make docs-versions` commits the pages of a version beside those of others, with a list to choose from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.pages import ROOT


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with our builder and configuration, and with a single page."""
    shutil.copytree(ROOT / "help_pages", tmp_path / "help_pages")
    for name in ("mkdocs-versions.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\nnav:\n  - index.md\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# A page\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "a")
    git(tmp_path, "config", "user.email", "a@example.com")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    return tmp_path


def deploy(repository: Path, version: str) -> None:
    argv = [Path(sys.executable).with_name("mike"), "deploy", "--config-file", "mkdocs-versions.yml"]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(repository),
        "HOME": str(repository),
    }
    done = subprocess.run(
        [*argv, "--update-aliases", version, "latest"],
        cwd=repository, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_version_stays_and_its_pages_offer_the_others(repository: Path) -> None:
    deploy(repository, "1.0")
    deploy(repository, "1.1")
    listed = json.loads(git(repository, "show", "gh-pages:versions.json"))
    assert [(each["version"], each["aliases"]) for each in listed] == [("1.1", ["latest"]), ("1.0", [])]
    page = git(repository, "show", "gh-pages:1.0/index.html")
    assert '"provider": "mike"' in page
    assert "assets/own/trusted-types.js" in page


def test_the_pages_of_an_installation_ask_for_no_list_of_versions() -> None:
    settings, _, _ = (ROOT / "mkdocs.yml").read_text().partition("\nmarkdown_extensions:\n")
    assert "version" not in yaml.safe_load(settings)["extra"]
