"""Lists all checks of doctor, in the order in which they run, and checks the settings."""

from __future__ import annotations

import functools

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.diagnosis import (
    check_broker,
    check_broker_sharing,
    check_database,
    check_enqueued,
    check_event_log,
    check_keys,
    check_processes,
    check_replication,
    check_sandboxes,
    check_schedules,
    check_sentinels,
    check_services,
    check_storage,
    check_tasks,
    check_triggers,
)
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine
from pipeweave.settings import Settings, explain


def checks(problem: PipeWeaveError | None = None) -> tuple[Check, ...]:
    """All checks, in their order.

    Args:
        problem: why the settings could not be read, if so.
    """
    readable = Check("settings", functools.partial(settings_readable, problem))
    return (
        readable,
        *check_database.CHECKS,
        check_replication.CHECK,
        check_sentinels.CHECK,
        *check_broker.CHECKS,
        check_broker_sharing.CHECK,
        *check_processes.CHECKS,
        *check_services.CHECKS,
        *check_tasks.CHECKS,
        check_schedules.CHECK,
        check_triggers.CHECK,
        check_keys.CHECK,
        check_enqueued.CHECK,
        check_event_log.CHECK,
        check_storage.CHECK,
        check_sandboxes.CHECK,
    )


def settings_readable(problem: PipeWeaveError | None, _: Settings) -> Verdict:
    """Every PipeWeave variable is a known setting with a valid value."""
    if problem is not None:
        faults = "; ".join(f"{each.field} {each.message}" for each in problem.errors[:5])
        return error(faults or problem.detail, problem.hint)
    rows = [row for row in explain() if row.source != "default"]
    return fine(f"{len(rows)} given; `pipeweave config` shows them")
