"""Uploads are claimed by the runs whose inputs name them, and deleted when nobody can use them any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.run_driver import PERMANENT, RunDriver
from support.stored_values import VALUES
from support.uploads import an_upload

from pipeweave import ids
from pipeweave.errors import Conflict, LimitExceeded, NotFound, UploadDeleted, UploadNotUsable
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.objects import uploads
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.size_limits import INLINE_BYTES

DAY = timedelta(hours=25)


@pytest.fixture
def driver(database: Database) -> RunDriver:
    driver = RunDriver(database)
    driver.store({"a": []})
    return driver


@pytest.fixture
def alone(fresh_database: Database) -> Iterator[RunDriver]:
    """Alone in its database: for what looks at all tenants."""
    driver = RunDriver(fresh_database)
    driver.store({"a": []})
    yield driver


def shown(upload_id: UUID) -> str:
    return ids.show(ids.UPLOAD, upload_id)


def of_run(driver: RunDriver, run_id: UUID) -> dict[str, Any]:
    with driver.database.reading() as tx:
        return uploads.of_run(tx, run_id)


def claimed_by(driver: RunDriver, upload_id: UUID) -> UUID | None:
    found: UUID | None = driver.rows(
        "SELECT claimed_by_run_id FROM temp_uploads WHERE id = :id", id=upload_id
    )[0][0]
    return found


def enqueue(driver: RunDriver, input: Any) -> UUID:
    with driver.database.transaction() as tx:
        (queued,) = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop", input)])
    return queued.task_run_id


def expire(driver: RunDriver, batch: int = 100) -> list[str]:
    with driver.database.transaction() as tx:
        return uploads.expire(tx, batch)


# --- claiming ---------------------------------------------------------------------------------------------


def test_a_run_claims_every_upload_that_its_input_names(driver: RunDriver) -> None:
    one, two, other = (an_upload(driver.database, driver.tenant) for _ in range(3))
    run_id = driver.trigger(input={"files": [shown(one), {"deep": shown(two)}], "again": shown(one)})
    assert [claimed_by(driver, each) for each in (one, two, other)] == [run_id, run_id, None]
    assert of_run(driver, run_id) == {
        shown(each): {
            "path": f"local//temp-uploads/{shown(each)}/a.csv",
            "filename": "a.csv",
            "mimeType": "text/csv",
            "size": 3,
        }
        for each in sorted((one, two))
    }


def test_a_standalone_task_and_a_large_input_claim_uploads_too(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    large = {"text": "x" * INLINE_BYTES, "file": shown(upload)}
    run_id = ids.run_id_of(enqueue(driver, large))
    assert list(of_run(driver, run_id)) == [shown(upload)]


def test_what_only_looks_like_an_upload_stays_a_text(driver: RunDriver) -> None:
    foreign = RunDriver(driver.database)
    theirs = an_upload(driver.database, foreign.tenant)
    mine = an_upload(driver.database, driver.tenant)
    run_id = driver.trigger(
        input={
            "unknown": shown(ids.new_id()),
            "foreign": shown(theirs),
            "inside": f'see "{shown(mine)}"',
            shown(mine): "a key",
            "short": "tmp_1",
        }
    )
    assert of_run(driver, run_id) == {}
    assert claimed_by(driver, theirs) is None


def test_a_second_run_uses_an_upload_beside_the_first(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    first, second = driver.trigger(input=shown(upload)), driver.trigger(input=shown(upload))
    assert claimed_by(driver, upload) == first
    assert list(of_run(driver, first)) == list(of_run(driver, second)) == [shown(upload)]


def test_an_upload_that_expired_unclaimed_or_was_deleted_refuses_the_run(driver: RunDriver) -> None:
    expired = an_upload(driver.database, driver.tenant, age=DAY)
    deleted = an_upload(driver.database, driver.tenant)
    with driver.database.transaction() as tx:
        uploads.delete(tx, driver.tenant, deleted)
    for upload, why in ((expired, "has expired"), (deleted, "was deleted")):
        with pytest.raises(UploadNotUsable, match=f"{shown(upload)} {why}"):
            driver.trigger(input=[shown(upload)])
    assert driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :id", id=driver.tenant)[0][0] == 0


def test_a_claimed_upload_does_not_expire(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    driver.trigger(input=shown(upload))
    driver.rows(
        "UPDATE temp_uploads SET expires_at = now() - interval '9 d' WHERE id = :id RETURNING 1", id=upload
    )
    assert list(of_run(driver, driver.trigger(input=shown(upload)))) == [shown(upload)]


def test_an_input_may_name_only_so_many_uploads(driver: RunDriver) -> None:
    with pytest.raises(LimitExceeded, match="at most 1,000"):
        driver.trigger(input=[shown(ids.new_id()) for _ in range(1_001)])


def test_the_retry_of_a_standalone_task_claims_its_uploads_again(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    run_id = ids.run_id_of(enqueue(driver, {"file": shown(upload)}))
    driver.finish(run_id, "noop", failure=PERMANENT)
    letter = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)[0][0]
    with driver.database.transaction() as tx:
        retried = dead_letters.retry(tx, driver.tenant, letter)
    assert retried.run_id != run_id
    assert list(of_run(driver, retried.run_id)) == [shown(upload)]


def test_a_trigger_that_claims_waits_for_one_that_deletes_and_is_refused(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    with driver.database.transaction() as tx:
        uploads.delete(tx, driver.tenant, upload)
        trigger = BackgroundCall(lambda: driver.trigger(input=shown(upload)))
        trigger.__enter__()
        wait_for_lock(driver.database)
    with pytest.raises(UploadNotUsable):
        _ = trigger.result


# --- deleting ---------------------------------------------------------------------------------------------


def test_a_claimed_upload_is_not_deleted(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    run_id = driver.trigger(input=shown(upload))
    with pytest.raises(Conflict) as refused, driver.database.transaction() as tx:
        uploads.delete(tx, driver.tenant, upload)
    assert refused.value.context["claimedByRunId"] == ids.show(ids.RUN, run_id)


def test_an_upload_is_deleted_once_and_only_by_its_tenant(driver: RunDriver) -> None:
    upload = an_upload(driver.database, driver.tenant)
    with pytest.raises(NotFound), driver.database.transaction() as tx:
        uploads.delete(tx, "somebody", upload)
    with driver.database.transaction() as tx:
        assert uploads.delete(tx, driver.tenant, upload) == f"local//temp-uploads/{shown(upload)}/a.csv"
    with pytest.raises(UploadDeleted), driver.database.transaction() as tx:
        uploads.delete(tx, driver.tenant, upload)


def test_unclaimed_uploads_expire_in_batches(alone: RunDriver) -> None:
    for _ in range(3):
        an_upload(alone.database, alone.tenant, age=DAY)
    young = an_upload(alone.database, alone.tenant)
    assert [len(expire(alone, batch=2)) for _ in range(3)] == [2, 1, 0]
    left = alone.rows("SELECT id FROM temp_uploads WHERE deleted_at IS NULL")
    assert [row.id for row in left] == [young]


def test_an_upload_that_is_being_claimed_does_not_expire(alone: RunDriver) -> None:
    upload = an_upload(alone.database, alone.tenant, age=DAY)
    with alone.database.transaction() as tx:
        tx.execute("SELECT 1 FROM temp_uploads WHERE id = :id FOR NO KEY UPDATE", {"id": upload})
        assert expire(alone) == []
    assert len(expire(alone)) == 1


def test_the_row_of_a_deleted_upload_goes_after_a_month(alone: RunDriver) -> None:
    upload = an_upload(alone.database, alone.tenant)
    run_id = alone.trigger(input=shown(upload))
    age = "UPDATE temp_uploads SET deleted_at = now() - CAST(:age AS interval) RETURNING 1"
    for days, left in ((29, 1), (31, 0)):
        alone.rows(age, age=f"{days} days")
        expiry.purge_all(alone.database, Policy())
        assert alone.rows("SELECT count(*) FROM temp_uploads")[0][0] == left
    assert alone.rows("SELECT count(*) FROM upload_claims WHERE run_id = :id", id=run_id)[0][0] == 0
