"""The site of the pages of docs/, built for a test as `make docs` builds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.pages import ROOT

DEADLINE_S = 300


def built_help(folder: Path) -> Path:
    """Build it into the folder. What the builder complains about fails the test."""
    argv = [sys.executable, "-m", "help_pages", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder
