"""A standby of PostgreSQL takes over while workers, beats and the API are under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from support.promoted_stack import PromotedStack, promoted_stack, uuid_of
from support.servers import BrokerDatabases

from pipeweave.errors import NotFound
from pipeweave.orchestrator.store import leases

# How long (s) a step takes: some are in the middle of it when the primary dies.
STEP_S = 0.2
# Runs that are accepted before the primary dies, and while the standby is primary.
SOME = 6


@pytest.fixture
def broker_url(broker_databases: BrokerDatabases) -> Iterator[str]:
    with broker_databases.one() as url:
        yield url


@contextmanager
def runs_under_way(stack: PromotedStack) -> Iterator[None]:
    """A client triggers runs all the time; the block begins when some have ended and others have not."""
    with stack.asking(STEP_S):
        stack.live.until(lambda: completed(stack) >= SOME, f"no run ends: {stack.live.logs()}")
        yield


def completed(stack: PromotedStack) -> int:
    [row] = stack.live.rows(
        "SELECT count(*) FROM runs WHERE pipeline_id = 'watched' AND status = 'completed'"
    )
    return int(row.count)


def test_with_a_synchronous_standby_nothing_is_lost_and_nothing_is_done_twice(
    tmp_path: Path, broker_url: str
) -> None:
    with promoted_stack(tmp_path, broker_url, is_synchronous=True) as stack:
        with runs_under_way(stack):
            stack.fail_over()
            before = completed(stack)
            stack.live.until(lambda: completed(stack) >= before + SOME, f"runs stopped: {stack.live.logs()}")
        stack.all_ended()

        rows = stack.live.rows("SELECT id, run_token, status FROM runs WHERE pipeline_id = 'watched'")
        assert {each.run_token: each.id for each in rows} == {
            token: uuid_of(run_id) for token, run_id in stack.accepted.items()
        }
        assert {each.status for each in rows} == {"completed"}
        assert len(rows) == len(stack.accepted)
        ends = stack.live.rows(
            "SELECT task_run_id FROM events WHERE type = 'task_run.completed' GROUP BY 1 HAVING count(*) > 1"
        )
        assert ends == []
        calls = Counter((each.run_id, each.step_id) for each in stack.live.every_call())
        assert set(calls.values()) == {1}, "a step was called twice"
        assert stack.live.rows("SELECT * FROM attempts") == []
        stack.check_consequences()
        assert stack.differences() == []

        stack.live.until(lambda: len(audited(stack)) == 1, "the promotion is not in the audit")
        assert audited(stack) == [("timeline 2", {"timeline": 1}, {"timeline": 2})]
        noticed = stack.noticed()
        assert {noticed[name] for name in noticed if name.startswith("beat")} == {1}
        assert all(noticed[name] for name in noticed if name.startswith(("w", "api")))


def audited(stack: PromotedStack) -> list[tuple[object, ...]]:
    rows = stack.live.rows("SELECT object, before, after FROM audit WHERE verb = 'database.promoted'")
    return [tuple(each) for each in rows]


def test_with_an_asynchronous_standby_what_vanished_is_known_and_all_else_goes_on(
    tmp_path: Path, broker_url: str
) -> None:
    with promoted_stack(tmp_path, broker_url, is_synchronous=False) as stack:
        for number in range(SOME):
            stack.ask(f"kept-{number}", STEP_S)
        stack.live.until(lambda: bool(stack.live.every_call()), "nothing begins")
        stack.pair.catch_up()
        stack.pair.cut()
        lost = leases.take(stack.live.deployment.database, "probe", timedelta(minutes=5), "one")
        done = completed(stack)
        for number in range(SOME):
            stack.ask(f"vanishing-{number}", STEP_S)
        stack.live.until(lambda: completed(stack) >= max(done + 1, SOME // 2), "nothing ends after the cut")
        stack.fail_over()

        first = dict(stack.accepted)
        vanished = {token for token, run_id in first.items() if not stack.is_stored(run_id)}
        assert vanished == {token for token in first if token.startswith("vanishing")}
        for token in vanished:
            with pytest.raises(NotFound):
                stack.client.run(first[token])
        again = {token: stack.ask(token, STEP_S) for token in first}
        assert {token for token in first if again[token] != first[token]} == vanished
        stack.all_ended()

        rows = stack.live.rows("SELECT id, status FROM runs WHERE pipeline_id = 'watched'")
        assert {each.id: each.status for each in rows} == {
            uuid_of(run_id): "completed" for run_id in again.values()
        }
        assert stack.overlaps() == []
        stack.check_consequences()
        assert stack.differences() == []

        database = stack.live.deployment.database
        held = leases.take(database, "probe", timedelta(minutes=5), "other")
        assert lost is not None and held is not None
        assert (lost.number, held.number) == (1, 1)
        assert (leases.renew(database, lost), leases.renew(database, held)) == (False, True)


@pytest.mark.parametrize("task", ["held", "held_beside_others"])
def test_a_call_whose_claim_alone_was_lost_is_not_repeated(
    tmp_path: Path, broker_url: str, task: str
) -> None:
    with promoted_stack(tmp_path, broker_url, is_synchronous=False, concurrency=(1,)) as stack:
        live = stack.live
        live.store({"id": "first", "steps": [{"id": "only", "task": "held"}]})
        live.store({"id": "second", "steps": [{"id": "only", "task": task}]})
        gates = [tmp_path / "first", tmp_path / "second"]
        first = live.trigger("first", {"gate": str(gates[0])})
        live.until(Path(f"{gates[0]}.held").exists, "the first call does not begin")
        second = live.trigger("second", {"gate": str(gates[1])})
        stack.pair.catch_up()
        stack.pair.cut()
        # What the standby does not learn: the first call ends, and the second is claimed and begins.
        gates[0].touch()
        live.until(Path(f"{gates[1]}.held").exists, "the second call does not begin")
        stack.fail_over()
        assert live.run(first).status == "running"
        live.until(
            lambda: live.steps(second)["only"].status == "running", f"not claimed again: {live.logs()}"
        )
        gates[1].touch()
        assert live.finished(second).status == "completed"
        assert live.called(second) == {"only": 1}
        # The end of the first call was lost, so it is called again, later.
        assert live.finished(first).status == "completed"
        assert live.called(first) == {"only": 2}
        assert stack.overlaps() == []
        assert stack.differences() == []
