"""Processes that die: nothing that was completed is lost or repeated, what was not begun goes to others."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.live_stack import LiveStack
from support.servers import away

from pipeweave.orchestrator import reading
from pipeweave.up.postgres import Postgres


@pytest.fixture
def stack(stack_with_beat: LiveStack) -> LiveStack:
    return stack_with_beat


def mapped(task: str, **params: Any) -> dict[str, Any]:
    """A list is mapped over, and a step follows."""
    return {
        "id": f"map-{task}",
        "steps": [
            {"id": "each", "task": task, "map": {"over": "${input.list}", "as": "number"}},
            {"id": "after", "task": "noop", "needs": ["each"]},
        ],
    }


def begun(stack: LiveStack, run_id: UUID) -> Counter[tuple[Any, Any]]:
    """How often each attempt of each item was begun."""
    return Counter((call.map_index, call.seen) for call in stack.calls(run_id) if call.step_id == "each")


def assert_each_once(stack: LiveStack, run_id: UUID, count: int) -> None:
    """Every item completed, and none was begun again without a record of the attempt before."""
    items = stack.items(run_id, "each")
    assert [row.status for row in items] == ["completed"] * count
    known = {(row.task_run_id, row.number): row.status for row in stack.attempts(run_id)}
    assert set(known.values()) <= {"lost"}
    for (index, attempt), times in begun(stack, run_id).items():
        assert times == 1, f"attempt {attempt} of item {index} was begun {times} times"
        assert attempt == 1 or (items[index].id, attempt - 1) in known
    assert stack.called(run_id)["after"] == 1


def test_a_child_that_dies_takes_one_attempt_with_it(stack: LiveStack) -> None:
    stack.start_worker("faulty.py", concurrency=2)
    run = stack.ran({"id": "dies", "steps": [{"id": "only", "task": "suicidal"}]}, {"times": 2})
    assert run.status == "completed"
    assert stack.steps(run.id)["only"].output == 3
    kept = [(row.number, row.status, row.error_code) for row in stack.attempts(run.id)]
    assert kept == [(1, "lost", "WORKER_LOST"), (2, "lost", "WORKER_LOST")]


def test_a_task_that_always_kills_its_process_becomes_a_dead_letter(stack: LiveStack) -> None:
    stack.start_worker("faulty.py", concurrency=2)
    run = stack.ran({"id": "poison", "steps": [{"id": "only", "task": "suicidal"}]}, {"times": 99})
    assert (run.status, stack.steps(run.id)["only"].error_code) == ("failed", "WORKER_LOST")
    [letter] = stack.dead_letters(run.id)
    assert [each["status"] for each in letter.history] == ["lost"] * 3


def test_a_child_that_dies_in_a_chunk_loses_that_item_alone(stack: LiveStack) -> None:
    stack.start_worker("faulty.py", concurrency=2)
    run = stack.ran(mapped("deadly_item"), {"list": list(range(300)), "deadly": 137})
    assert run.status == "completed"
    assert_each_once(stack, run.id, 300)
    lost = {row.task_run_id for row in stack.attempts(run.id)}
    # Those of its turn whose results it had not stored yet are lost with it, what it had not begun is not.
    assert stack.items(run.id, "each")[137].id in lost
    again = {index for (index, attempt) in begun(stack, run.id) if attempt > 1}
    assert len(again) == len(lost)


def test_a_worker_that_is_killed_in_a_chunk_repeats_nothing_that_was_completed(
    stack: LiveStack, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    doomed = stack.start_worker("faulty.py", concurrency=1)
    stack.store(mapped("held_item"))
    run_id = stack.trigger("map-held_item", {"list": list(range(300)), "held": 150, "gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no item is held")
    done = {row.id for row in stack.items(run_id, "each") if row.status == "completed"}
    stack.kill(doomed)
    stack.start_worker("faulty.py", concurrency=2)
    assert stack.finished(run_id).status == "completed"
    assert_each_once(stack, run_id, 300)
    assert done.isdisjoint(row.task_run_id for row in stack.attempts(run_id))


def test_a_worker_that_is_killed_in_a_chain_goes_on_elsewhere(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Path(f"{gate}.name").write_text("s7")
    steps = [{"id": f"s{n}", "task": "held_step", "needs": [f"s{n - 1}"] if n else []} for n in range(15)]
    doomed = stack.start_worker("faulty.py", concurrency=1)
    stack.store({"id": "chain", "steps": steps})
    run_id = stack.trigger("chain", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step is held")
    stack.start_worker("faulty.py", concurrency=1)
    stack.kill(doomed)
    assert stack.finished(run_id).status == "completed"
    assert stack.called(run_id) == {f"s{n}": 2 if n == 7 else 1 for n in range(15)}
    [attempt] = stack.attempts(run_id)
    assert (attempt.number, attempt.status) == (1, "lost")
    parent = attempt.worker.partition("#")[0]
    with stack.deployment.database.reading() as tx:
        [lost] = reading.worker(tx, stack.settings.tenant, parent)["lostAttempts"]
    assert (lost["stepId"], lost["attempt"], lost["status"]) == ("s7", 1, "completed")
    assert not lost["worker"].startswith(parent), "the other worker took it over"


def test_while_an_item_takes_long_others_do_the_rest_of_its_chunk(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stack.start_worker("faulty.py", concurrency=2)
    stack.store(mapped("held_item"))
    run_id = stack.trigger("map-held_item", {"list": list(range(300)), "held": 150, "gate": str(gate)})
    stack.until(
        lambda: [row.map_index for row in stack.items(run_id, "each") if row.status != "completed"] == [150],
        "the rest was not done",
    )
    gate.touch()
    assert stack.finished(run_id).status == "completed"
    assert_each_once(stack, run_id, 300)
    assert stack.attempts(run_id) == []


def test_an_item_of_a_chunk_that_raises_fails_alone(stack: LiveStack) -> None:
    stack.start_worker("faulty.py", concurrency=2)
    document = mapped("third_fails") | {"failureMode": "partial-merge"}
    run = stack.ran(document, {"list": list(range(200))})
    assert run.status == "partial"
    failed = [row.map_index for row in stack.items(run.id, "each") if row.status != "completed"]
    assert (failed, len(stack.dead_letters(run.id))) == ([2], 1)


def test_a_cancel_arrives_within_one_step_of_a_chain(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Path(f"{gate}.name").write_text("s3")
    steps = [{"id": f"s{n}", "task": "held_step", "needs": [f"s{n - 1}"] if n else []} for n in range(10)]
    stack.start_worker("faulty.py", concurrency=1)
    stack.store({"id": "chain", "steps": steps})
    run_id = stack.trigger("chain", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step is held")
    stack.cancel(run_id)
    gate.touch()
    stack.settle()
    assert stack.called(run_id) == {f"s{n}": 1 for n in range(4)}


def test_a_function_that_takes_over_the_alarm_costs_the_next_run_no_process(
    stack: LiveStack, tmp_path: Path
) -> None:
    stack.start_worker("faulty.py", concurrency=1)
    stack.ran({"id": "careless", "steps": [{"id": "a", "task": "careless"}]})
    late = {"id": "late", "steps": [{"id": "a", "task": "slow"}]}
    run = stack.ran(late, {"seconds": 60, "note": str(tmp_path / "note")})
    assert stack.steps(run.id)["a"].error_code == "TIMEOUT"
    assert (tmp_path / "note").read_text() == "cleaned up"


# --- PostgreSQL is away -----------------------------------------------------------------------------------


def test_a_function_that_asks_for_outputs_while_postgresql_is_away_waits_for_them(
    stack: LiveStack, postgres_server: Postgres, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    stack.start_worker("faulty.py", concurrency=1)
    first, asks = {"id": "first", "task": "noop"}, {"id": "asks", "task": "curious", "needs": ["first"]}
    stack.store({"id": "asking", "steps": [first, asks]})
    run_id = stack.trigger("asking", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the step is not held")
    with away(postgres_server, stack.deployment.database.url):
        gate.touch()
        stack.until(Path(f"{gate}.said").exists, "its word about its progress failed it")
        stack.until(lambda: "outputs.delayed" in stack.logs(), "it did not ask")
    stack.deployment.database.dispose()
    assert stack.finished(run_id).status == "completed"
    assert stack.steps(run_id)["asks"].output == {"first": "first"}
    assert stack.attempts(run_id) == []


# --- stopping ---------------------------------------------------------------------------------------------


def test_a_worker_that_is_told_to_stop_finishes_what_it_runs(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    pid = stack.start_worker("faulty.py", concurrency=1)
    stack.store(mapped("held_item"))
    run_id = stack.trigger("map-held_item", {"list": list(range(100)), "held": 10, "gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no item is held")
    os.kill(pid, signal.SIGTERM)
    # What it had claimed and not begun goes to others while it finishes.
    stack.start_worker("faulty.py", concurrency=1)
    stack.until(
        lambda: [row.map_index for row in stack.items(run_id, "each") if row.status != "completed"] == [10],
        "the rest was not done",
    )
    gate.touch()
    assert stack.ended(pid) == 0
    assert stack.finished(run_id).status == "completed"
    assert_each_once(stack, run_id, 100)
    assert stack.attempts(run_id) == []


def test_a_worker_that_cannot_wait_gives_back_what_it_runs(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Path(f"{gate}.name").write_text("only")
    pid = stack.start_worker("faulty.py", "--grace", "1", concurrency=1)
    stack.store({"id": "one", "steps": [{"id": "only", "task": "held_step"}]})
    run_id = stack.trigger("one", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the step is not held")
    stack.start_worker("faulty.py", concurrency=1)
    os.kill(pid, signal.SIGTERM)
    assert stack.ended(pid) == 0
    assert stack.finished(run_id).status == "completed"
    row = stack.steps(run_id)["only"]
    [attempt] = stack.attempts(run_id)
    assert (attempt.status, attempt.error_code, row.attempt) == ("interrupted", "WORKER_STOPPED", 2)
    assert row.max_attempts == 4, "it was not used up"


def held(stack: LiveStack, tmp_path: Path, *names: str) -> dict[str, UUID]:
    """Runs of one step, each held at a gate of its name."""
    stack.store({"id": "one", "steps": [{"id": "only", "task": "held_step"}]})
    runs: dict[str, UUID] = {}
    for name in names:
        (tmp_path / f"{name}.name").write_text("only")
        runs[name] = stack.trigger("one", {"gate": str(tmp_path / name)})
        stack.until((tmp_path / f"{name}.held").exists, f"{name} is not held")
    return runs


def test_a_term_to_all_processes_of_a_worker_leaves_what_runs_its_grace(
    stack: LiveStack, tmp_path: Path
) -> None:
    pid = stack.start_worker("faulty.py", "--grace", "3", concurrency=3)
    runs = held(stack, tmp_path, "quick", "slow")
    stack.start_worker("faulty.py", concurrency=1)
    os.killpg(pid, signal.SIGTERM)
    (tmp_path / "quick").touch()
    assert stack.ended(pid) == 0
    assert stack.finished(runs["quick"]).status == "completed"
    assert stack.attempts(runs["quick"]) == []
    assert stack.finished(runs["slow"]).status == "completed"
    [attempt] = stack.attempts(runs["slow"])
    assert (attempt.status, attempt.error_code) == ("interrupted", "WORKER_STOPPED")
    row = stack.steps(runs["slow"])["only"]
    assert (row.attempt, row.max_attempts) == (2, 4), "it was not used up"


def test_a_worker_that_is_told_to_quit_gives_back_at_once_what_it_runs(
    stack: LiveStack, tmp_path: Path
) -> None:
    pid = stack.start_worker("faulty.py", concurrency=2)
    [run_id] = held(stack, tmp_path, "gate").values()
    os.kill(pid, signal.SIGQUIT)
    assert stack.ended(pid) == 0
    [attempt] = stack.attempts(run_id)
    assert (attempt.status, attempt.error_code) == ("interrupted", "WORKER_STOPPED")


def test_a_child_that_is_told_to_end_finishes_what_it_runs(stack: LiveStack, tmp_path: Path) -> None:
    stack.start_worker("faulty.py", concurrency=1)
    runs = held(stack, tmp_path, "gate")
    [call] = stack.calls(runs["gate"])
    os.kill(call.pid, signal.SIGTERM)
    (tmp_path / "gate").touch()
    assert stack.finished(runs["gate"]).status == "completed"
    assert stack.attempts(runs["gate"]) == []
    stack.until(lambda: not Path(f"/proc/{call.pid}").exists(), "it is still there")
    assert stack.ran({"id": "other", "steps": [{"id": "a", "task": "noop"}]}).status == "completed"


def test_a_process_that_a_function_forked_ends_on_term(stack: LiveStack) -> None:
    stack.start_worker("faulty.py", concurrency=1)
    run = stack.ran({"id": "forks", "steps": [{"id": "a", "task": "forking"}]})
    assert stack.steps(run.id)["a"].output == signal.SIGTERM


def test_the_children_of_a_worker_that_was_killed_go_with_it(stack: LiveStack, tmp_path: Path) -> None:
    pid = stack.start_worker("faulty.py", concurrency=2)
    [run_id] = held(stack, tmp_path, "gate").values()
    [call] = stack.calls(run_id)
    os.kill(pid, signal.SIGKILL)
    stack.until(lambda: not Path(f"/proc/{call.pid}").exists(), "it is still there")
    assert stack.ended(pid) == -signal.SIGKILL


def test_a_rolling_restart_under_load_loses_and_repeats_nothing(stack: LiveStack) -> None:
    workers = [stack.start_worker("faulty.py", concurrency=2) for _ in range(2)]
    stack.store(
        {
            "id": "load",
            "steps": [
                {"id": "each", "task": "nap", "map": {"over": "${input.list}"}},
                {"id": "then", "task": "noop", "needs": ["each"]},
                {"id": "last", "task": "noop", "needs": ["then"]},
            ],
        }
    )
    runs: list[UUID] = []
    for _ in range(2):
        for pid in list(workers):
            fresh = [stack.trigger("load", {"list": list(range(20))}) for _ in range(4)]
            runs += fresh
            stack.until(lambda run_id=fresh[0]: stack.called(run_id) != {}, "nothing runs")  # type: ignore[misc]
            os.kill(pid, signal.SIGTERM)
            workers.append(stack.start_worker("faulty.py", concurrency=2))
            assert stack.ended(pid) == 0, stack.logs()
            workers.remove(pid)
    for run_id in runs:
        assert stack.finished(run_id).status == "completed"
        assert stack.called(run_id) == {"each": 20, "then": 1, "last": 1}
        assert stack.attempts(run_id) == []


def test_a_child_whose_result_nobody_counted_does_not_hold_up_the_end(stack: LiveStack) -> None:
    worker = stack.start_worker("uncounted.py", concurrency=2)
    assert stack.ran({"id": "one", "steps": [{"id": "a", "task": "noop"}]}).status == "completed"
    os.kill(worker, signal.SIGTERM)
    assert stack.ended(worker) == 0


def test_a_beat_that_is_told_to_stop_ends_well_and_another_takes_over(stack: LiveStack) -> None:
    first = stack.processes[0].pid
    stack.until(lambda: stack.rows("SELECT last_tick_at FROM orchestrator_state")[0][0], "no tick")
    stack.start_beat()
    os.kill(first, signal.SIGTERM)
    assert stack.ended(first) == 0
    stack.start_worker("faulty.py", concurrency=1)
    run = stack.ran({"id": "again", "steps": [{"id": "a", "task": "flaky"}]}, {"fails": 1})
    assert run.status == "completed"


def test_a_cancel_stops_a_function_that_runs(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Path(f"{gate}.name").write_text("only")
    stack.start_worker("faulty.py", concurrency=1)
    stack.store({"id": "one", "steps": [{"id": "only", "task": "held_step"}]})
    run_id = stack.trigger("one", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "the step is not held")
    stack.cancel(run_id)
    # Its only process is free again, though nobody opened the gate.
    assert stack.ran({"id": "other", "steps": [{"id": "a", "task": "noop"}]}).status == "completed"
    assert stack.steps(run_id)["only"].status == "cancelled"


def test_a_function_that_goes_on_after_a_cancel_is_ended_with_its_process(
    stack: LiveStack, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    stack.start_worker("faulty.py", concurrency=1)
    stack.store({"id": "one", "steps": [{"id": "only", "task": "tenacious"}]})
    run_id = stack.trigger("one", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "it does not run")
    stack.cancel(run_id)
    stack.until(Path(f"{gate}.told").exists, "it was not told to stop")
    assert stack.ran({"id": "other", "steps": [{"id": "a", "task": "noop"}]}).status == "completed"
    assert (stack.steps(run_id)["only"].status, stack.attempts(run_id)) == ("cancelled", [])
    assert "fenced" in stack.logs()
