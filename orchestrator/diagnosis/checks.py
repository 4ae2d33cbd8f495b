"""All checks of a deployment, in the order in which they are made."""

from __future__ import annotations

import functools

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.diagnosis import check_broker, check_database, check_processes
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine, warning
from pipeweave.settings import Settings, explain


def checks(problem: PipeWeaveError | None = None) -> tuple[Check, ...]:
    """Every check.

    Args:
        problem: with the settings, when they could not be read.
    """
    readable = Check("settings", functools.partial(settings_readable, problem))
    return (readable, *check_database.CHECKS, *check_broker.CHECKS, *check_processes.CHECKS)


def settings_readable(problem: PipeWeaveError | None, _: Settings) -> Verdict:
    """Every variable is a setting, with a value that can be used and has an effect."""
    if problem is not None:
        faults = "; ".join(f"{each.field} {each.message}" for each in problem.errors[:5])
        return error(faults or problem.detail, problem.hint)
    given = [row for row in explain() if row.source != "default"]
    idle = [row.source for row in given if not row.is_used]
    if idle:
        return warning(
            f"{', '.join(idle)}: given, and without effect in this version", "remove them, or wait"
        )
    return fine(f"{len(given)} given; `pipeweave config` shows them")
