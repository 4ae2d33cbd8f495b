"""States the order in which a transaction locks rows of several tables.

Two transactions that wait for each other's rows are a deadlock: PostgreSQL ends one of them, after a second
in which both stood still. So a transaction that waits for a row of one table holds no row of a later table:

    advisory locks        registrations of a tenant, migrations: first of all; nobody waits for the one of the
                          children of a run
    feed_consumers        what reads the event log: triggers and hooks, statistics, traces
    stats_place           the past is counted anew
    schedules             verbs of one schedule, and what the code of a registration declares; the tick
                          passes over those that are locked
    schedule_fires        the fires of a schedule; see below
    services              a registration, for its service
    triggers              verbs of one trigger; its deliveries come one by one
    trigger_fires         the deliveries of a trigger
    event_fires           the fires of a trigger of events, with the trigger
    hook_fires            the calls of a hook
    run_tokens            a trigger with a token, in the order of the tokens; a delivery that may start the
                          run of one has its advisory lock, with its trigger
    tenant_use            new runs that count for a quota (queueing/quotas.py)
    tenants               verbs that give run slots
    idempotency_claims    keys, in the order of task and key (engine/idempotency.py, engine/key_waiters.py)
    runs                  verbs that end or reopen a run, and then lock all of its task runs
    dead_letters          a retry, with its run locked
    task_runs             in the order of their ids
    signals               a doubled one waits for the first one, and has no wait then; those that a wait takes
                          are never waited for
    waits                 who ends a task run deletes its wait; who sends a signal wakes the waits for it
    temp_uploads          a new run, for the uploads of its input, in the order of their ids
    tasks                 limits (queueing/limits.py), in the order of their names
    pipelines             a new version, behind the tasks of the registration that brings it
    redrives              the progress of a redrive, after its retries
    bulk_changes          the progress of a bulk change, after the change of a run
    access_tokens         verbs of one token
    ui_links, ui_sessions of a token: the link is used, then the session begins
    run_stats, task_stats what was counted, last

Three rules keep the order short:

- A statement that picks rows for itself skips locked rows (SKIP LOCKED). It never waits, so it may come at
  any time.
- A reaction to a change that needs an earlier table runs after the commit, in a transaction of its own: by a
  fact (deployment/reactions.py) or `Transaction.afterwards`.
- A worker process locks its own row in `workers`, which no other process waits for. The mode
  (`orchestrator_state`) is read with KEY SHARE, which waits only for the moment in which maintenance begins.

Some pairs go both ways (BOTH_WAYS). A registration withdraws the fires of a schedule behind its pipeline; it
has had the schedule before, without which nobody waits for its fires. The transaction that completes the last
step of a run has the row of that step before the row of the run. Taking the run's row first would let all
steps of a run complete one after the other. A cancel of the same run may meet it there; PostgreSQL ends one
of the two, and `Database.run` does it again. tests/database/store/test_lock_order.py watches all this under
contention.
"""

from __future__ import annotations

LOCK_ORDER = (
    "feed_consumers",
    "stats_place",
    "schedules",
    "schedule_fires",
    "services",
    "triggers",
    "trigger_fires",
    "event_fires",
    "hook_fires",
    "run_tokens",
    "tenant_use",
    "tenants",
    "idempotency_claims",
    "runs",
    "dead_letters",
    "task_runs",
    "signals",
    "waits",
    "temp_uploads",
    "tasks",
    "pipelines",
    "redrives",
    "bulk_changes",
    "access_tokens",
    "ui_links",
    "ui_sessions",
    "run_stats",
    "task_stats",
)

BOTH_WAYS = frozenset(
    {
        ("task_runs", "runs"),
        ("services", "schedule_fires"),
        ("tasks", "schedule_fires"),
        ("pipelines", "schedule_fires"),
    }
)


def may_wait(held: str, wanted: str) -> bool:
    """Whether a transaction that holds rows of one table may wait for rows of another one."""
    if held not in LOCK_ORDER or wanted not in LOCK_ORDER or held == wanted:
        return True
    return LOCK_ORDER.index(held) < LOCK_ORDER.index(wanted) or (held, wanted) in BOTH_WAYS
