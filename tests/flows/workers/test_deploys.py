"""Workers with different code on one service: two teams, and a rolling deploy under load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import LiveStack

from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.runs import task_removal


def write_app(path: Path, *tasks: str, answer: str = "first") -> str:
    """An app whose tasks return `answer`; the code of each holds it."""
    lines = ["from pipeweave import task", ""]
    for each in tasks:
        lines += ["@task(retries=5)", f"def {each}():", f"    return '{answer}'", ""]
    path.write_text("\n".join(lines))
    return str(path)


def store(stack: LiveStack, *tasks: str, code: str = "any") -> None:
    """A pipeline for each task, with its name, and two steps of it."""
    for each in tasks:
        steps = [{"id": "one", "task": each, "needs": []}, {"id": "two", "task": each}]
        stack.store({"id": each, "steps": steps, "code": code})


def trigger_each(stack: LiveStack, tasks: Sequence[str], times: int) -> list[UUID]:
    return [stack.trigger(each) for _ in range(times) for each in tasks]


def check_untouched(stack: LiveStack, runs: Sequence[UUID]) -> None:
    """Each run completed, and no attempt of it was used up."""
    assert {stack.finished(each).status for each in runs} == {"completed"}
    assert {row.attempt for each in runs for row in stack.task_runs(each)} == {1}
    assert [row for each in runs for row in stack.dead_letters(each)] == []


def waiting(stack: LiveStack) -> int:
    """How many task runs wait for a worker that has their task."""
    found = stack.rows("SELECT queue FROM task_runs WHERE status = 'queued'")
    return sum(queue_names.is_parking(row.queue) for row in found)


def test_two_teams_on_one_service_do_not_disturb_each_other(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack = stack_with_beat
    mail = write_app(tmp_path / "mail.py", "mail", "mail_more")
    printing = write_app(tmp_path / "printing.py", "printing")
    first = stack.start_worker(mail, concurrency=1)
    store(stack, "mail", "mail_more")
    stack.stop(first)
    before = trigger_each(stack, ["mail", "mail_more"], 2)
    stack.start_worker(printing, concurrency=1)
    store(stack, "printing")
    assert {stack.run(each).status for each in before} == {"running"}, "nothing was cancelled"
    stack.start_worker(mail, concurrency=1)
    together = trigger_each(stack, ["mail", "printing", "mail_more"], 3)
    assert len(before + together) == 13
    check_untouched(stack, before + together)


def test_a_rolling_deploy_that_adds_removes_and_changes_tasks_loses_nothing(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack = stack_with_beat
    old_app = write_app(tmp_path / "old_app.py", "kept", "changed", "removed")
    new_code = write_app(tmp_path / "new_app.py", "changed", answer="second")
    Path(new_code).write_text(
        Path(new_code).read_text() + Path(write_app(tmp_path / "rest.py", "kept", "added")).read_text()
    )
    old = [stack.start_worker(old_app, concurrency=1) for _ in range(2)]
    store(stack, "kept", "changed", "removed")
    runs = trigger_each(stack, ["kept", "changed", "removed"], 5)
    new = [stack.start_worker(new_code, concurrency=1)]
    store(stack, "added")
    everything = ["kept", "changed", "removed", "added"]
    runs += trigger_each(stack, everything, 10)
    stack.stop(old[0])
    new.append(stack.start_worker(new_code, concurrency=1))
    runs += trigger_each(stack, everything, 10)
    check_untouched(stack, runs)
    stack.stop(old[1])

    late = trigger_each(stack, ["removed"], 5)
    runs = trigger_each(stack, ["kept", "changed", "added"], 5)
    check_untouched(stack, runs)
    assert {stack.output(row) for each in runs for row in stack.task_runs(each)} == {"first", "second"}
    stack.until(lambda: waiting(stack) == 5, "what nobody has loaded does not wait")
    assert {row.attempt for each in late for row in stack.task_runs(each)} == {1}

    stack.start_worker(old_app, concurrency=1)
    check_untouched(stack, late)


def test_what_waits_for_a_removed_task_is_cancelled_on_command_with_the_reason(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack = stack_with_beat
    old = stack.start_worker(write_app(tmp_path / "leaving.py", "leaving"), concurrency=1)
    store(stack, "leaving")
    stack.stop(old)
    stack.start_worker(write_app(tmp_path / "staying.py", "staying"), concurrency=1)
    run_id = stack.trigger("leaving")
    stack.until(lambda: waiting(stack) == 1, "it does not wait")
    with stack.deployment.database.transaction() as tx:
        assert task_removal.remove(tx, stack.settings.tenant, "leaving").cancelled == 2
    assert stack.finished(run_id).status == "failed"
    assert {row.error_code for row in stack.task_runs(run_id)} == {"TASK_REMOVED"}


@pytest.mark.parametrize(("code", "answers"), [("pinned", {"first"}), ("any", {"second"})])
def test_a_run_calls_the_code_that_it_began_with_if_it_is_pinned(
    stack_with_beat: LiveStack, tmp_path: Path, code: str, answers: set[str]
) -> None:
    stack = stack_with_beat
    name = f"code_{code}"
    first = write_app(tmp_path / "first.py", name)
    old = stack.start_worker(first, concurrency=1)
    store(stack, name, code=code)
    stack.stop(old)
    runs = trigger_each(stack, [name], 3)
    stack.start_worker(write_app(tmp_path / "second.py", name, answer="second"), concurrency=1)
    if code == "pinned":
        stack.until(lambda: waiting(stack) == 3, "a pinned run is called in other code")
        stack.start_worker(first, concurrency=1)
    check_untouched(stack, runs)
    assert {stack.output(row) for each in runs for row in stack.task_runs(each)} == answers
