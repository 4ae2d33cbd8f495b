"""The sum of what a tenant has in storage: page by page, by several processes, of its own rows alone."""

from __future__ import annotations

import pytest
from support.run_driver import RunDriver
from support.stored_values import VALUES
from support.uploads import an_upload

from pipeweave.orchestrator.objects import stored_bytes
from pipeweave.orchestrator.queueing import tenant_limits
from pipeweave.orchestrator.queueing.tenant_limits import TenantLimits
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import INLINE_BYTES

LARGE = "x" * (INLINE_BYTES + 1)
QUOTED = len(LARGE) + 2


@pytest.fixture
def alone(fresh_database: Database) -> RunDriver:
    """Alone in its database: the chore looks at all tenants."""
    driver = RunDriver(fresh_database)
    driver.store({"a": []}, id="one")
    return driver


def limit(driver: RunDriver) -> None:
    limits = TenantLimits(stored_bytes=10**9)
    driver.database.run(lambda tx: tenant_limits.set_limits(tx, driver.tenant, limits))


def trigger(driver: RunDriver, value: object) -> None:
    request = StartRequest("one", value)
    driver.database.run(lambda tx: triggering.trigger(tx, VALUES, driver.tenant, request), is_one=False)


def summed(driver: RunDriver) -> int | None:
    [row] = driver.rows(
        "SELECT stored_bytes, stored_at FROM tenant_use WHERE tenant_id = :id", id=driver.tenant
    )
    return None if row.stored_at is None else int(row.stored_bytes)


def test_inputs_in_storage_and_uploads_count_and_values_in_rows_do_not(alone: RunDriver) -> None:
    limit(alone)
    trigger(alone, LARGE)
    trigger(alone, "small")
    upload = an_upload(alone.database, alone.tenant)
    [size] = alone.rows("SELECT size_bytes FROM temp_uploads WHERE id = :id", id=upload)
    assert summed(alone) is None
    stored_bytes.run_once(alone.database)
    assert summed(alone) == QUOTED + size.size_bytes


def test_what_steps_have_stored_counts_outputs_and_files(alone: RunDriver) -> None:
    limit(alone)
    run_id = alone.trigger("one")
    with alone.database.transaction() as tx:
        tx.execute(
            """UPDATE task_runs SET output_path = 'local//artifacts/sha256/ab/x', output_size = 70,
            assets = '{"report": {"path": "local//runs/x/assets/report", "size": 5, "type": null}}'
            WHERE run_id = :id""",
            {"id": run_id},
        )
    stored_bytes.run_once(alone.database)
    assert summed(alone) == 75


def test_a_sum_goes_on_from_page_to_page_and_ends_after_the_last(
    alone: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_bytes, "PAGE", 2)
    limit(alone)
    for _ in range(5):
        trigger(alone, LARGE)
    counts = [stored_bytes.run_once(alone.database) for _ in range(3)]
    assert counts == [2, 2, 1]
    assert summed(alone) == 5 * QUOTED
    assert stored_bytes.run_once(alone.database) == 0, "the next sum is not due yet"


def test_a_tenant_without_this_quota_is_never_summed_up(alone: RunDriver) -> None:
    trigger(alone, LARGE)
    assert stored_bytes.run_once(alone.database) == 0
