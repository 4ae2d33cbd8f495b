"""docs/tutorial.md can be followed: its files are written, its commands run, and they show what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_stack import COMMAND_DEADLINE_S, StackFolder
from support.pages import text_of

from pipeweave.settings import environment

# Here the page shows a failure; every other command ends well.
FAILING = """pipeweave trigger close_day -i '{"day": "friday"}' --wait"""
# The test may not take the ports that somebody uses.
OF_TESTS = {"pipeweave up": "pipeweave up --port 0 --no-flower"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    StackFolder(tmp_path).down()


def test_the_tutorial_can_be_followed(folder: Path) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text_of("docs/tutorial.md"), re.MULTILINE | re.DOTALL)
    for language, content in blocks:
        if language == "python":
            name, _, _ = content.removeprefix("# ").partition("\n")
            (folder / name).write_text(content)
        else:
            _follow(content, folder)
    assert [name for name in ("shop.py", "test_shop.py") if not (folder / name).exists()] == []


def _follow(console: str, folder: Path) -> None:
    for command, shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE):
        done = _run(command, folder)
        output = _plain(done.stdout + done.stderr)
        assert (done.returncode != 0) == (command == FAILING), f"{command}: {output}"
        for line in shown.splitlines():
            assert _plain(line).removesuffix("…").strip() in output, f"{command}: {output}"


def _run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    for said, meant in OF_TESTS.items():
        command = re.sub(rf"^{said}\b", meant, command)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment() | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=COMMAND_DEADLINE_S,
    )


def _plain(text: str) -> str:
    return " ".join(text.split())
