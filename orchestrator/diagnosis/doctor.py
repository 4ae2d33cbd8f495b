"""Runs the checks of `pipeweave doctor`: each gives a verdict and, where something is wrong, a hint.

The checks are small functions in check_database.py, check_broker.py and check_processes.py. Each opens its
own connections and has a time limit. An error in a check becomes its finding and does not stop the next
check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.key_ring import keys_of
from pipeweave.settings import Settings
from pipeweave.settings.readers import MASK, passwords_of

# Time limit of a check (s), longer than every timeout within a check.
LIMIT_S = 15.0
# A shorter secret is not masked: it would be found in ordinary words.
_SHORTEST_SECRET = 4


class Severity(StrEnum):
    """How serious a finding is. WARNING: the deployment works, for now. ERROR: something does not work."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check in one line, and what to do about it."""

    level: Severity
    line: str
    hint: str | None = None


def fine(line: str) -> Verdict:
    """A verdict at level OK: there is nothing to do."""
    return Verdict(Severity.OK, line)


def warning(line: str, hint: str) -> Verdict:
    """A verdict at level WARNING: the deployment works, for now or in part."""
    return Verdict(Severity.WARNING, line, hint)


def error(line: str, hint: str | None) -> Verdict:
    """A verdict at level ERROR: something does not work."""
    return Verdict(Severity.ERROR, line, hint)


@dataclass(frozen=True, slots=True)
class Check:
    """A check and the checks that it needs.

    Args:
        name: shown before the verdict, and used in `needs`.
        run: the check; it may raise, and a PipeWeaveError then gives the verdict's line and hint.
        needs: names of checks; if one of them failed, this check does not run.
    """

    name: str
    run: Callable[[Settings], Verdict]
    needs: tuple[str, ...] = ()


# What a check says that needs another one, which has failed.
NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's name and verdict."""

    name: str
    verdict: Verdict

    @property
    def level(self) -> Severity:
        return self.verdict.level


def examine(settings: Settings, checks: Sequence[Check], *, limit_s: float = LIMIT_S) -> Iterator[Finding]:
    """Run the checks, one after the other. Secrets of the settings are masked in every finding.

    Args:
        limit_s: a check that takes longer (s) is abandoned and is an error.
    """
    secrets = _secrets(settings)
    failed: set[str] = set()
    for check in checks:
        lacking = next((each for each in check.needs if each in failed), None)
        if lacking is None:
            verdict = _run_with_limit(check, settings, limit_s)
        else:
            verdict = warning(NOT_CHECKED, f"fix `{lacking}` first")
        # A check that did not run counts as failed for the checks that need it.
        if verdict.level is Severity.ERROR or lacking is not None:
            failed.add(check.name)
        yield Finding(check.name, _without_secrets(secrets, verdict))


def _run_with_limit(check: Check, settings: Settings, limit_s: float) -> Verdict:
    verdicts: list[Verdict] = []
    # A daemon thread: if it hangs, it ends with the process.
    thread = threading.Thread(target=lambda: verdicts.append(_run(check, settings)), daemon=True)
    thread.start()
    thread.join(limit_s)
    if not verdicts:
        return error(f"no answer within {limit_s:g} s", "check whether a firewall drops packets on the way")
    return verdicts[0]


def _run(check: Check, settings: Settings) -> Verdict:
    try:
        return check.run(settings)
    except PipeWeaveError as problem:
        return error(problem.detail, problem.hint)
    except Exception as problem:
        text = " ".join(str(problem).split())
        return error(f"{type(problem).__name__}: {text}", None)


# --- secrets ----------------------------------------------------------------------------------------------


def _secrets(settings: Settings) -> list[str]:
    """Every text that no finding may show, the longest first."""
    secrets = {settings.api_token, *keys_of(settings.secret_key or "")}
    for url in (settings.database_url, settings.broker_url, settings.orchestrator_url):
        secrets |= set(passwords_of(url or ""))
    for backend in settings.storage_backends:
        secrets |= _texts(backend.get("credentials"))
    return sorted((each for each in secrets if each and len(each) >= _SHORTEST_SECRET), key=len, reverse=True)


def _texts(credentials: Any) -> set[str]:
    if not isinstance(credentials, dict):
        return set()
    # `basePath` is a folder, not a secret; its name helps to see what is wrong.
    return {value for name, value in credentials.items() if isinstance(value, str) and name != "basePath"}


def _without_secrets(secrets: Sequence[str], verdict: Verdict) -> Verdict:
    line, hint = verdict.line, verdict.hint
    for secret in secrets:
        line = line.replace(secret, MASK)
        hint = hint and hint.replace(secret, MASK)
    return Verdict(verdict.level, line, hint)
