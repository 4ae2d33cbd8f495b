"""The wheel, built of the source distribution and installed into an environment of its own."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from support.pages import ROOT

DEADLINE_S = 300
_SOURCES = ("pipeweave", "orchestrator", "workers", "api", "migrations")
_FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def python_with_wheel(folder: Path) -> Path:
    """A Python that has the wheel, and of the checkout nothing but what the wheel depends on."""
    environment = folder / "environment"
    # Without pip: uv installs. A path in a .pth file brings packages, but not the editable one's own .pth.
    venv.EnvBuilder(with_pip=False, symlinks=True).create(environment)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    uv = Path(sys.executable).with_name("uv")
    _run(
        str(uv), "pip", "install", "--quiet", "--offline", "--no-deps", "--python", str(python), built(folder)
    )
    return python


def built(folder: Path) -> str:
    """The path of the wheel, built of the source distribution, as whoever has no wheel builds it."""
    with tarfile.open(source_distribution(folder)) as archive:
        archive.extractall(folder, filter="data")
        sources = folder / archive.getnames()[0].partition("/")[0]
    return _built("build_wheel", sources, folder)


def source_distribution(folder: Path) -> str:
    """Its path, built from a copy: a build leaves files beside the sources."""
    copy = folder / "sources"
    for name in _SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, copy)
    return _built("build_sdist", copy, folder)


def _built(what: str, sources: Path, folder: Path) -> str:
    done = _run(sys.executable, "-c", _BUILD, what, str(folder), cwd=sources)
    return str(folder / done.splitlines()[-1])


def _run(*argv: str, cwd: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
