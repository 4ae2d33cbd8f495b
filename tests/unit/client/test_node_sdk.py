"""The SDK for Node: its own tests, and its types are those of the API."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from support import node_types
from support.pages import ROOT

SDK = ROOT / "sdk/node"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_its_own_tests_pass() -> None:
    done = subprocess.run(["node", "--test"], cwd=SDK, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "# pass 0" not in done.stdout


def test_the_types_of_documents_are_those_of_the_api() -> None:
    assert node_types.FILE.read_text() == node_types.text(), "run `make client`"


def test_the_package_depends_on_nothing_and_ships_its_sources_with_their_types() -> None:
    package = json.loads((SDK / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & package.keys()
    assert package["files"] == ["src"]
    assert (SDK / package["types"]).is_file()
    assert all((SDK / each).is_file() for each in package["exports"]["."].values())
