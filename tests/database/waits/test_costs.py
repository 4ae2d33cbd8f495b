"""What waits cost: rows. What a look and an idle tick send does not depend on how many runs sleep."""

from __future__ import annotations

from datetime import timedelta

from support.due_waits import is_due
from support.run_driver import Clock
from support.sent_statements import sent_statements
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.recovery import stuck_joins
from pipeweave.orchestrator.runs import deadlines
from pipeweave.orchestrator.waits import due
from pipeweave.spec.wait_steps import SignalWait, Sleep

DAY_MS = 86_400_000

# Ten thousand more runs like one that sleeps.
COPIES = """
WITH copied AS (
    INSERT INTO runs SELECT (jsonb_populate_record(CAST(NULL AS runs), to_jsonb(r) || jsonb_build_object('id',
        CAST(overlay(CAST(r.id AS text) placing lpad(to_hex(n), 4, '0') from 20 for 4) AS uuid)))).*
    FROM runs AS r, generate_series(1, 10000) AS n WHERE r.id = :run RETURNING id
)
INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, due_at, timeout_at, data,
    created_at)
SELECT c.id, c.id, w.tenant_id, c.id, 1, 'timer', w.due_at, w.timeout_at, '{}', w.created_at
FROM copied AS c, waits AS w WHERE w.run_id = :run
"""


def test_ten_thousand_sleepers_are_ten_thousand_rows_that_nobody_looks_at(
    isolated_runs: WaitingRuns, clock: Clock
) -> None:
    driver = isolated_runs.driver
    run_id = isolated_runs.begin({"sleep": Sleep(ms=30 * DAY_MS)})
    with driver.database.transaction() as tx:
        tx.execute(COPIES, {"run": run_id})
    clock.ahead = timedelta(hours=1)
    with sent_statements() as sent:
        assert not is_due(driver.database)
        assert stuck_joins._next_runs(driver.database) == []
    assert len(sent) == 2
    with driver.database.transaction() as tx:
        plan = "\n".join(row[0] for row in tx.execute(f"EXPLAIN SELECT {due.MAY_BE_LOOKED_AT}"))
        assert "waits_due" in plan
        assert tx.execute(f"SELECT {due.IS_DUE}").scalar_one() is False
        assert tx.execute(deadlines._IDLE, {"batch": 1}).first() is None


def test_a_sleep_costs_one_transaction_to_begin_and_one_to_end(
    isolated_runs: WaitingRuns, clock: Clock
) -> None:
    run_id = isolated_runs.begin({"sleep": Sleep(ms=DAY_MS)}, look=False)
    isolated_runs.task_run(run_id, "sleep")
    # Read the wait; lock and look at the run, and mark it.
    with sent_statements() as sent:
        isolated_runs.look(run_id, "sleep")
    assert sent.cost == (4, 1), sent
    clock.ahead = timedelta(days=1, seconds=1)
    with sent_statements() as sent:
        isolated_runs.look(run_id, "sleep")
    # Read the wait; wake the run; complete and delete; release the step behind it.
    assert len(sent) <= 10, sent
    assert isolated_runs.driver.statuses(run_id)["end"] == "queued"


def test_many_timers_that_are_due_together_share_transactions(isolated_runs: WaitingRuns) -> None:
    driver = isolated_runs.driver
    runs = [isolated_runs.begin({"sleep": Sleep(ms=DAY_MS)}) for _ in range(10)]
    with driver.database.transaction() as tx:
        tx.execute("UPDATE waits SET due_at = now() - interval '1 second', timeout_at = now()")
    with sent_statements() as sent:
        assert due.run_once(driver.database) == 10
    # The mode, the lease and its end, what is due, and all timers.
    assert sent.commits == 5
    assert {driver.statuses(each)["sleep"] for each in runs} == {"completed"}


def test_a_signal_costs_one_transaction_and_a_look(isolated_runs: WaitingRuns) -> None:
    run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
    with sent_statements() as sent:
        isolated_runs.send(run_id, "paid", 1)
    assert sent.commits == 2
    assert isolated_runs.driver.statuses(run_id)["paid"] == "completed"
