"""Run one fault test: from its plan to its evidence."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg2
from redis.exceptions import RedisError

from chaos import databases, messages, records, schedules
from chaos.aim import Aim
from chaos.causes import Causes
from chaos.changes import Changes
from chaos.evidence import Evidence
from chaos.faults import Injected, inject
from chaos.notes import Reading
from chaos.plan import Plan
from chaos.stack import NotUp, Stack, stack
from chaos.triggering import Triggers
from chaos.waiting import waited
from chaos.waits.waiters import Waiters
from chaos.watching import Watcher

# After a fault, the servers have this long (s) to answer before the next one.
SERVERS_S = 30.0
# When all runs are final, messages that are left over have this long (s) to be dropped.
QUIET_S = 15.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """The events of a trial.

    Args:
        faults: in the order of the plan.
        refused: the number of refused triggers by status; 0 stands for no answer.
        settled_s: the time between the last fault and the end of the last run.
        repeated: runs that were triggered again, because their first answer was lost.
        restarts: the number of restarts by process.
    """

    evidence: Evidence
    faults: list[Injected]
    refused: Mapping[int, int]
    settled_s: float
    repeated: int
    restarts: Mapping[str, int]


def run(plan: Plan, folder: Path, *, settle_s: float, within_s: float, say: Say) -> Trial:
    """Start a stack, carry out the plan, and wait until every run ends.

    Args:
        settle_s: how long (s) the last runs may take after the last fault.
        within_s: how long (s) a run may stand still after a fault.

    Raises:
        NotUp: the stack did not start, so nothing was tested.
    """
    with stack(folder, broker=plan.broker, has_standby=plan.database == databases.PAIR) as up:
        reading = Reading(up.notes)
        watcher = Watcher(up)
        watcher.start()
        triggers = Triggers(up, plan.runs)
        triggers.store()
        changes = Changes(up, plan.changes, plan.runs)
        counted = f"{len(plan.runs)} runs, {len(plan.faults)} faults and {len(plan.changes)} changes"
        say(f"up, PostgreSQL {plan.database}, broker {plan.broker}; {counted} in {plan.seconds:g} s")
        scheduled = schedules.store(up, plan.seconds)
        causes = Causes(up, up.listener, plan.seed)
        causes.store()
        waiters = Waiters(up, plan.seed)
        waiters.store()
        triggers.start()
        changes.start()
        causes.start()
        waiters.start()
        faults = _inject(plan, Aim(up, reading, lambda: triggers.open > 0), say)
        calm = time.monotonic()
        changes.finish(settle_s)
        causes.finish(settle_s)
        waiters.finish(settle_s)
        settled_s = _settle(up, triggers, settle_s, say) - calm
        waiters.close()
        watcher.finish(QUIET_S)
        _stop_workers(up)
        records.keep(up, folder)
        (folder / "faults.jsonl").write_text("".join(f"{json.dumps(asdict(each))}\n" for each in faults))
        rows = records.read(up)
        found = rows, reading.catch_up(), faults
        planned_runs = [*plan.runs, *changes.reruns.values(), *schedules.planned_runs(rows)]
        planned_runs += causes.planned_runs(rows)
        accepted = {
            **triggers.accepted,
            **changes.accepted,
            **schedules.accepted(rows),
            **causes.accepted(rows),
        }
        evidence = Evidence(
            planned_runs,
            accepted,
            *found,
            within_s,
            changes.done,
            scheduled,
            watcher.watched,
            dict(up.listener.calls),
            waiters.waited,
        )
        restarts = {name: each.starts - 1 for name, each in up.processes.items()}
        return Trial(evidence, faults, triggers.refused, settled_s, triggers.repeated, restarts)


def _inject(plan: Plan, aim: Aim, say: Say) -> list[Injected]:
    began, faults = time.monotonic(), []
    for fault in plan.faults:
        time.sleep(max(0.0, began + fault.at - time.monotonic()))
        if not aim.up.wait_for_servers(SERVERS_S):
            raise NotUp(f"the servers did not come back before {fault.kind} at {fault.at:.1f} s")
        done = inject(aim, fault)
        faults.append(done)
        more = done.missed or ", ".join(f"{count} {name}" for name, count in done.more.items())
        options = ", ".join(f"{name} {value}" for name, value in fault.options.items())
        say(f"{time.monotonic() - began:6.1f} s  {fault.kind} ({options}) {more}")
    time.sleep(max(0.0, began + plan.seconds - time.monotonic()))
    return faults


def _settle(up: Stack, triggers: Triggers, seconds: float, say: Say) -> float:
    """Wait until every run is accepted and final, and no message waits. Returns when the runs were final."""
    until = time.monotonic() + seconds
    is_accepted = triggers.finish(seconds)
    say("every run is accepted" if is_accepted else "not every run was accepted")
    if not waited(lambda: _open_runs(up) == 0, max(0.0, until - time.monotonic()), 0.2):
        say(f"{_open_runs(up)} runs are unfinished after {seconds:g} s")
    final = time.monotonic()
    if not waited(lambda: _depth(up) == 0, QUIET_S, 0.2):
        say(f"{_depth(up)} messages are left over")
    return final


# A schedule without a next time has decided about all its times; the end of an enqueued run is noted later.
# A hook that nobody answered is called again after a minute: that is not waited for.
_OPEN = """
SELECT (SELECT count(*) FROM runs WHERE finished_at IS NULL)
    + (SELECT count(*) FROM schedules WHERE next_fire_at IS NOT NULL)
    + (SELECT count(*) FROM schedule_fires WHERE outcome = 'waiting')
    + (SELECT count(*) FROM enqueued_runs WHERE settled_at IS NULL)
    + (SELECT count(*) FROM event_fires WHERE outcome = 'waiting')
    + (SELECT count(*) FROM hook_fires WHERE outcome = 'waiting' AND attempts = 0)
    + (SELECT count(*) FROM runs WHERE pipeline_id = 'enqueued') - (SELECT count(*) FROM hook_fires)
"""


def _open_runs(up: Stack) -> int:
    try:
        return int(up.rows(_OPEN)[0][0])
    except psycopg2.Error:
        return -1


def _depth(up: Stack) -> int:
    try:
        return messages.depth(up)
    except RedisError:
        return -1


def _stop_workers(up: Stack) -> None:
    """Stop the workers, so that rows and notes no longer change."""
    for name, process in up.processes.items():
        if name not in up.servers:
            process.stop()
