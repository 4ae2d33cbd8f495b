"""Whether every link of a deployment holds, and how to mend the one that does not.

Each check is one small function in a file by what it looks at. It looks for itself, for a limited time, and
what goes wrong in it is its finding: no check stops another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pipeweave.errors import PipeWeaveError
from pipeweave.settings import Settings
from pipeweave.settings.readers import MASK

# Longer than every timeout within a check (s).
LIMIT_S = 15.0
# A shorter secret would be found in every second word.
_SHORTEST_SECRET = 4


class Level(StrEnum):
    """How bad it is: with a warning it works, with an error something does not."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found, in one line, and what to do about it."""

    level: Level
    line: str
    hint: str | None = None


def fine(line: str) -> Verdict:
    """Nothing to do."""
    return Verdict(Level.OK, line)


def warning(line: str, hint: str) -> Verdict:
    """It works, for now or with a limp."""
    return Verdict(Level.WARNING, line, hint)


def error(line: str, hint: str | None) -> Verdict:
    """It does not work."""
    return Verdict(Level.ERROR, line, hint)


@dataclass(frozen=True, slots=True)
class Check:
    """A check and what it cannot do without.

    Args:
        name: one word.
        look: may raise; a PipeWeaveError says itself what is wrong and what to do.
        needs: the checks without whose success this one is not made.
    """

    name: str
    look: Callable[[Settings], Verdict]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a check."""

    name: str
    verdict: Verdict

    @property
    def level(self) -> Level:
        return self.verdict.level


def examine(settings: Settings, checks: Sequence[Check], *, limit_s: float = LIMIT_S) -> Iterator[Finding]:
    """Make the checks, one after the other. No secret of the settings is in a finding.

    Args:
        limit_s: a check that takes longer (s) is given up.
    """
    secrets = _secrets(settings)
    failed: set[str] = set()
    for check in checks:
        lacking = next((each for each in check.needs if each in failed), None)
        if lacking is None:
            verdict = _run_with_limit(check, settings, limit_s)
        else:
            verdict = warning("not checked", f"mend `{lacking}` first")
        # What could not be checked is not there for others to rely upon.
        if verdict.level is Level.ERROR or lacking is not None:
            failed.add(check.name)
        yield Finding(check.name, _without_secrets(secrets, verdict))


def _run_with_limit(check: Check, settings: Settings, limit_s: float) -> Verdict:
    found: list[Verdict] = []
    # A thread that hangs all the same ends with the process.
    thread = threading.Thread(target=lambda: found.append(_run(check, settings)), daemon=True)
    thread.start()
    thread.join(limit_s)
    if not found:
        return error(f"no answer within {limit_s:g} s", "something between here and there swallows packets")
    return found[0]


def _run(check: Check, settings: Settings) -> Verdict:
    try:
        return check.look(settings)
    except PipeWeaveError as problem:
        return error(problem.detail, problem.hint)
    except Exception as problem:
        text = " ".join(str(problem).split())
        return error(f"{type(problem).__name__}: {text}", None)


# --- secrets ----------------------------------------------------------------------------------------------


def _secrets(settings: Settings) -> list[str]:
    """Everything that no finding may show, the longest first."""
    found = {settings.secret_key, settings.api_token}
    for url in (settings.database_url, settings.broker_url, settings.orchestrator_url):
        found |= set(_secrets_of(url or ""))
    for backend in settings.storage_backends:
        found |= _texts(backend.get("credentials"))
    return sorted((each for each in found if each and len(each) >= _SHORTEST_SECRET), key=len, reverse=True)


def _secrets_of(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.password:
        yield from (parts.password, unquote(parts.password))
    yield from (value for name, value in parse_qsl(parts.query) if "password" in name.lower())


def _texts(credentials: Any) -> set[str]:
    if not isinstance(credentials, dict):
        return set()
    # A folder is not a secret, and its name says what is wrong.
    return {value for name, value in credentials.items() if isinstance(value, str) and name != "basePath"}


def _without_secrets(secrets: Sequence[str], verdict: Verdict) -> Verdict:
    line, hint = verdict.line, verdict.hint
    for secret in secrets:
        line = line.replace(secret, MASK)
        hint = hint and hint.replace(secret, MASK)
    return Verdict(verdict.level, line, hint)
