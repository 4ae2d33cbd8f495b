"""Says where the import of an app failed: file, line and source, without the frames of the import system."""

from __future__ import annotations

import os
import site
import sysconfig
import traceback
from pathlib import Path

from pipeweave.safe_text import safe_text

# Frames of the import system and of PipeWeave itself, which say nothing about the user's mistake.
_OWN = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_LIBRARIES = tuple({*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")})

# At most so many lines of users' code lead to the mistake in the message, the innermost ones.
MOST_FRAMES = 3
MOST_CHARS = 2_000


def described(error: BaseException) -> str:
    """Describe an exception of an import: its type, its text, and the lines of users' code that led to it.

    ``KeyError: 'url' (conf.py:12: `url = os.environ["url"]`; called by tasks.py:3: `import conf`)``
    """
    text = safe_text(str, error)[:MOST_CHARS]
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, SyntaxError):
        line = f": `{error.text.strip()}`" if error.text else ""
        return f"{type(error).__name__}: {error.msg} ({_shown(error.filename or '?')}:{error.lineno}{line})"
    places = [f"{_shown(each.filename)}:{each.lineno}: `{each.line}`" for each in _frames(error)]
    return f"{what} ({'; called by '.join(places)})" if places else what


def place(error: BaseException) -> str:
    """The line of users' code that led to an exception, as `tasks.py:4`; empty if there is none."""
    frames = [each for each in _frames(error) if not each.filename.startswith(_LIBRARIES)]
    return f"{_shown(frames[0].filename)}:{frames[0].lineno}" if frames else ""


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of users' code, innermost first; those of libraries if there are no others."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if _is_written_by_somebody(each.filename)
    ]
    mine = [each for each in frames if not each.filename.startswith(_LIBRARIES)]
    return (mine or frames[-1:])[::-1][:MOST_FRAMES]


def _is_written_by_somebody(path: str) -> bool:
    # `<frozen …>` is the import system, `<string>` what dataclasses generate: the __init__ of a TaskSpec.
    is_made = path.startswith("<") or f"{os.sep}importlib{os.sep}" in path
    return not is_made and not path.startswith(_OWN)


def _shown(path: str) -> str:
    """The path, relative to the current folder if it lies below."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return path
