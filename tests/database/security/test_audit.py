"""The audit: who changed what, in the transaction of the change."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from support.plans import plans_of, rows_looked_at

from pipeweave import ids
from pipeweave.orchestrator.deployment.audited_objects import AUDITED
from pipeweave.orchestrator.queueing import pauses
from pipeweave.orchestrator.reading.audit_list import AuditFilter, audit_after
from pipeweave.orchestrator.reading.audit_list import audit as listed
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import A_MONTH, Policy
from pipeweave.orchestrator.security import audit
from pipeweave.orchestrator.security.audit import Actor, Note
from pipeweave.orchestrator.security.object_state import state_of
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest

TENANT = "audited"
ACTOR = Actor("token", "alice", UUID(int=1))


def note(verb: str = "queue.pause", kind: str = "tenant", **more: object) -> Note:
    return Note(ACTOR, verb, kind, **{"tenant": TENANT, **more})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def tenant(tx: Transaction) -> None:
    tenants.ensure_tenant(tx, TENANT)


def test_a_row_says_who_did_what_and_what_was_different(tx: Transaction) -> None:
    given = note(reason="the bank is down", request_id="req_1", body={"reason": "x"})
    audit.recorded(tx, given, lambda tx: pauses.pause(tx, TENANT, reason="x"), AUDITED)
    (row,) = listed(tx, [TENANT], PageRequest())["items"]
    assert (row["actor"], row["source"], row["verb"], row["kind"]) == (
        "alice",
        "token",
        "queue.pause",
        "tenant",
    )
    assert row["before"] == {"pausedAt": None, "pauseReason": None}
    assert row["after"]["pauseReason"] == "x" and row["after"]["pausedAt"]
    assert (row["reason"], row["requestId"], row["given"]) == ("the bank is down", "req_1", {"reason": "x"})
    assert row["tokenId"] == ids.show("tok", UUID(int=1)) and row["sessionId"] is None


def test_a_change_that_is_rolled_back_has_no_row(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:
        audit.recorded(tx, note(tenant="rolled-back"), lambda tx: 1 // 0, AUDITED)
    with database.reading() as tx:
        assert listed(tx, ["rolled-back"], PageRequest())["items"] == []


def test_the_row_commits_with_the_change_also_where_statements_commit_by_themselves(
    database: Database,
) -> None:
    with pytest.raises(ZeroDivisionError), database.statements() as tx:

        def verb(tx: Transaction) -> None:
            tenants.ensure_tenant(tx, "half-made")
            raise ZeroDivisionError

        audit.recorded(tx, note(tenant="half-made"), verb, AUDITED)
    with database.reading() as tx:
        assert tx.execute("SELECT 1 FROM tenants WHERE id = 'half-made'").first() is None


def test_a_change_of_nothing_has_a_row_without_differences(tx: Transaction) -> None:
    for _ in range(2):
        audit.recorded(tx, note(), lambda tx: pauses.pause(tx, TENANT, reason="x"), AUDITED)
    newest, _ = listed(tx, [TENANT], PageRequest())["items"]
    assert (newest["before"], newest["after"]) == (None, None)


def test_secrets_are_masked_and_a_large_body_is_told_by_its_size(tx: Transaction) -> None:
    body = {"secret": "s3cret", "nested": [{"apiToken": "pw_x", "name": "n\0"}], "runToken": None}
    audit.write(tx, note(body=body), {}, {})
    audit.write(tx, note(body={"spec": "x" * 10_000}), {}, {})
    large, small = listed(tx, [TENANT], PageRequest())["items"]
    assert small["given"] == {"secret": "***", "nested": [{"apiToken": "***", "name": "n"}], "runToken": None}
    assert set(large["given"]) == {"bytes"}


@pytest.mark.parametrize("hostile", ["'; DROP TABLE audit; --", "<script>", "\0\ud800", "x" * 5_000])
def test_hostile_texts_are_stored_as_text_within_bounds(tx: Transaction, hostile: str) -> None:
    audit.write(tx, note(object=hostile, reason=hostile), {}, {})
    (row,) = listed(tx, [TENANT], PageRequest())["items"]
    assert len(row["object"]) <= 500 and len(row["reason"] or "") <= audit.MAX_REASON


def test_a_verb_of_many_objects_has_one_row_with_numbers(database: Database) -> None:
    many = note("runs.change_runs", "runs", tenant="of-many")
    audit.begin_many(database, many)
    audit.end_many(database, many, audit.counts_of({"changed": 500, "matched": 500, "isDone": True}))
    with database.reading() as tx:
        (row,) = listed(tx, ["of-many"], PageRequest())["items"]
    assert row["after"] == {"changed": 500, "matched": 500}


def test_rows_are_filtered_and_paged(tx: Transaction) -> None:
    for number in range(4):
        verb = "tasks.pause" if number % 2 else "tasks.resume"
        audit.write(tx, note(verb, "task", object=f"task-{number}"), {}, {})
    assert [each["object"] for each in items(tx, AuditFilter(verb="tasks.pause"))] == ["task-3", "task-1"]
    assert [each["object"] for each in items(tx, AuditFilter(object="task-2", actor="alice"))] == ["task-2"]
    assert items(tx, AuditFilter(actor="bob")) == []
    assert items(tx, AuditFilter(until=tx.now)) == [] and len(items(tx, AuditFilter(since=tx.now))) == 4
    first = listed(tx, [TENANT], PageRequest(limit=3))
    second = listed(tx, [TENANT], PageRequest(limit=3, cursor=first["nextCursor"]))
    assert [each["object"] for each in second["items"]] == ["task-0"] and second["nextCursor"] is None


def test_an_export_is_handed_out_from_the_oldest_row_on(tx: Transaction) -> None:
    for number in range(3):
        audit.write(tx, note(object=f"task-{number}"), {}, {})
    rows = audit_after(tx, [TENANT], AuditFilter(), UUID(int=0), 2)
    assert [each["object"] for _, each in rows] == ["task-0", "task-1"]
    ((_, last),) = audit_after(tx, [TENANT], AuditFilter(), rows[-1][0], 2)
    assert last["object"] == "task-2"
    assert audit_after(tx, [TENANT], AuditFilter(until=tx.now), UUID(int=0), 2) == []


_HISTORY = """
INSERT INTO audit (id, tenant_id, at, source, actor, verb, kind, object)
SELECT CAST(lpad(to_hex(CAST(extract(epoch FROM CAST(:now AS timestamptz) - n * interval '1 hour') * 1000
    AS bigint)), 12, '0') || '7000800000000000' || lpad(to_hex(n), 4, '0') AS uuid),
    'long-audited', CAST(:now AS timestamptz) - n * interval '1 hour', 'token', 'alice', 'tasks.pause',
    'task', 'resize'
FROM generate_series(1, 20000) AS n
"""


def test_a_page_of_any_time_reads_about_as_many_rows_as_it_has(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database.transaction() as tx:
        tx.execute(_HISTORY, {"now": tx.now})
        tx.execute("ANALYZE audit")
        old = tx.now - timedelta(hours=15_000)
        chosen = AuditFilter(since=old - timedelta(days=2), until=old)
        for read in (
            lambda: listed(tx, ["long-audited"], PageRequest(limit=20)),
            lambda: listed(tx, ["long-audited"], PageRequest(limit=20), chosen),
            lambda: listed(tx, None, PageRequest(limit=20), AuditFilter(object="resize", until=old)),
            lambda: audit_after(tx, ["long-audited"], chosen, UUID(int=0), 100),
        ):
            assert read()
            assert rows_looked_at(plans_of(tx, read, monkeypatch)) <= 200


def items(tx: Transaction, chosen: AuditFilter) -> list[dict[str, object]]:
    return list(listed(tx, [TENANT], PageRequest(), chosen)["items"])


def test_a_tenant_sees_its_own_rows_and_not_those_of_the_deployment(tx: Transaction) -> None:
    audit.write(tx, note(tenant="other"), {}, {})
    audit.write(tx, note("maintenance.request", "deployment", tenant=None), {}, {})
    assert listed(tx, [TENANT], PageRequest())["items"] == []
    assert listed(tx, [TENANT], PageRequest(), sees_deployment=True)["items"][0]["tenant"] is None
    assert len(listed(tx, None, PageRequest())["items"]) >= 2


@pytest.mark.parametrize("kind", sorted(AUDITED))
@pytest.mark.parametrize("object", ["", "nothing", "prun_00000000000000000000000000", "a\0b"])
def test_an_object_that_is_not_there_has_no_state(tx: Transaction, kind: str, object: str) -> None:
    state = state_of(tx, AUDITED[kind], "nobody", object)
    assert state == {} or kind in {"deployment", "pipeline"}


@pytest.mark.parametrize("kind", sorted(kind for kind, each in AUDITED.items() if each.by_id))
def test_the_state_of_every_kind_with_an_id_can_be_read(tx: Transaction, kind: str) -> None:
    assert state_of(tx, AUDITED[kind], TENANT, ids.show(AUDITED[kind].prefix, ids.new_id())) == {}


@pytest.mark.parametrize("runs", [None, A_MONTH / 2, A_MONTH * 12])
def test_the_audit_may_have_a_time_of_its_own(tx: Transaction, runs: timedelta | None) -> None:
    audit.write(tx, note(), {}, {})
    kept = Policy(runs=runs, audit=A_MONTH * 3)
    tx.now += A_MONTH * 3
    # Earlier tests left older rows.
    expiry.run_once(tx, kept)
    assert len(listed(tx, None, PageRequest())["items"]) == 1
    tx.now += timedelta(seconds=1)
    assert expiry.run_once(tx, kept).audit == 1


def test_rows_are_purged_with_the_history_of_their_time(fresh_database: Database) -> None:
    with fresh_database.transaction() as tx:
        audit.write(tx, note(), {}, {})
        assert expiry.run_once(tx, Policy()).audit == 0
        kept = Policy(runs=A_MONTH)
        tx.now += A_MONTH
        assert expiry.run_once(tx, kept).audit == 0
        tx.now += A_MONTH * 2
        assert expiry.run_once(tx, kept).audit == 1
