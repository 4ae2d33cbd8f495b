"""Define what `pipeweave init --full` writes beside the tasks: package, image, deployment, workflow."""

from __future__ import annotations

import re
from importlib.metadata import version

from pipeweave.cli.support.scaffold_images import COMPOSE, CREATE_DATABASE, DOCKER_IGNORED, DOCKERFILE

PYPROJECT = """[build-system]
requires = ["setuptools>=80"]
build-backend = "setuptools.build_meta"

[project]
name = "@PACKAGE@"
version = "0.1.0"
requires-python = ">=3.11"
# Workers, beat and the API. A program that only starts runs needs `pipeweave` alone.
dependencies = ["pipeweave[server]@RANGE@"]

[project.optional-dependencies]
# `pipeweave up` on a developer's machine, and the tests.
dev = ["pipeweave[up]", "pytest>=9"]

[tool.setuptools]
py-modules = ["tasks"]

[tool.pytest.ini_options]
testpaths = ["."]
"""

WORKFLOW = """name: ci

on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.11", "3.12", "3.13", "3.14"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python }}
      # Tasks and pipelines run in the test's process: no server is needed.
      - run: python -m pip install -e '.[dev]'
      - run: python -m pytest

  image:
    needs: test
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: docker build .
"""

README = """
Deploy it on one Docker host; `compose.yaml` begins with the commands that make its secrets:

    docker compose up --build --wait
    docker compose exec api pipeweave token create me --scope admin

The dashboard is at http://127.0.0.1:3000, and asks for that token; commands take it from
`PIPEWEAVE_API_TOKEN`, with `PIPEWEAVE_ORCHESTRATOR_URL=http://127.0.0.1:3000`.

The `Dockerfile` makes one image for API, worker, beat and the migration. `.github/workflows/ci.yml` runs the
tests with each Python. On several hosts, put large values into a bucket (`STORAGE_BACKENDS`) instead of the
volume `data`.
"""


def files(name: str) -> dict[str, str]:
    """Return the further files of a whole project, and what its README.md has more: name -> content."""
    contents = {
        "pyproject.toml": PYPROJECT,
        "Dockerfile": DOCKERFILE,
        ".dockerignore": DOCKER_IGNORED,
        "compose.yaml": COMPOSE,
        "docker/create-database.sh": CREATE_DATABASE,
        ".github/workflows/ci.yml": WORKFLOW,
        "README.md": README,
    }
    # What names of packages and images may have.
    package = re.sub(r"[^a-z0-9]+$", "", name.lower())
    words = {
        "@NAME@": name,
        "@PACKAGE@": package,
        "@IMAGE@": re.sub(r"[._-]+", "-", package),
        "@RANGE@": _range(version("pipeweave")),
    }
    return {file: _filled(content, words) for file, content in contents.items()}


def _range(installed: str) -> str:
    """The versions that a project takes which begins with this one: those that break nothing."""
    major, minor = (int(each) for each in installed.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}"


def _filled(content: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        content = content.replace(word, value)
    return content
