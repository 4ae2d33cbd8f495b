"""Restarts on request, with small stand-in commands: what replaces what, and what if it does not start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.servers import wait_until
from support.stand_in_processes import SLEEP, Stage, shell

from pipeweave.up import restarts
from pipeweave.up.leftovers import birth
from pipeweave.up.restarts import RestartRequest


class Answers:
    """A request that keeps its answers."""

    def __init__(self, *names: str) -> None:
        self.given: dict[str, str | None] = {}
        self._names = names

    def ask(self, stage: Stage) -> None:
        request = RestartRequest(self._names, self.given.__setitem__)
        stage.supervisor.take_requests = lambda: [request]
        stage.supervisor.look_for_requests()

    def wait(self) -> dict[str, str | None]:
        wait_until(lambda: len(self.given) == len(self._names), what="no answer")
        return self.given


def restart(stage: Stage, *names: str) -> dict[str, str | None]:
    answers = Answers(*names)
    answers.ask(stage)
    return answers.wait()


def test_a_process_that_cannot_run_twice_is_stopped_and_started(stage: Stage, tmp_path: Path) -> None:
    order = tmp_path / "order"
    stage.start(
        shell("api", f"echo begin >> {order}; trap 'echo end >> {order}; exit' TERM; {SLEEP[5:]} & wait")
    )
    stage.watch()
    first = stage.pid("api")
    assert restart(stage, "api") == {"api": None}
    assert stage.pid("api") != first
    wait_until(lambda: order.read_text().split() == ["begin", "end", "begin"])
    assert stage.rows["api"].restarts == 1


def test_a_worker_stops_when_its_successor_is_ready(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    first = stage.pid("worker-1")
    ready.unlink()
    answers = Answers("worker-1")
    answers.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    assert birth(first), "the old worker goes on while the new one starts"
    ready.touch()
    assert answers.wait() == {"worker-1": None}
    wait_until(lambda: birth(first) is None)
    assert stage.rows["worker-1"].state == "running"


def test_workers_are_replaced_one_after_another(stage: Stage, tmp_path: Path) -> None:
    order = tmp_path / "order"
    for name in ("worker-1", "worker-2"):
        stage.start(shell(name, f"echo {name} >> {order}; {SLEEP}", is_replaceable=True))
    stage.watch()
    assert restart(stage, "worker-1", "worker-2") == {"worker-1": None, "worker-2": None}
    wait_until(lambda: len(order.read_text().split()) == 4)
    assert order.read_text().split()[2:] == ["worker-1", "worker-2"]


def test_a_worker_whose_successor_does_not_start_goes_on(stage: Stage, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    script = f"test -e {broken} && echo 'pipeweave: INVALID_INPUT: tasks.py line 3' && exit 1; {SLEEP}"
    for name in ("worker-1", "worker-2"):
        stage.start(shell(name, script, is_replaceable=True, is_pid_ready=lambda pid: not broken.exists()))
    stage.watch()
    before = stage.pid("worker-1"), stage.pid("worker-2")
    broken.touch()
    answers = restart(stage, "worker-1", "worker-2")
    assert answers["worker-1"] == "ended with exit code 1: pipeweave: INVALID_INPUT: tasks.py line 3"
    assert answers["worker-2"] == "not restarted, because worker-1 did not start"
    assert (stage.pid("worker-1"), stage.pid("worker-2")) == before
    assert (
        stage.rows["worker-1"].last_exit == f"still runs the old code; the new process {answers['worker-1']}"
    )
    assert (
        "worker-1: the new process did not start (exit code 1); the old one keeps running"
        in stage.console.getvalue()
    )


def test_changed_files_restart_the_workers_alone(stage: Stage) -> None:
    stage.start(shell("api", SLEEP), shell("worker-1", SLEEP, is_replaceable=True))
    stage.watch()
    api, worker = stage.pid("api"), stage.pid("worker-1")
    stage.supervisor.files_changed(["tasks.py"])
    wait_until(lambda: stage.pid("worker-1") != worker and birth(worker) is None)
    assert stage.pid("api") == api
    assert "tasks.py changed: the workers restart" in stage.console.getvalue()


def test_a_change_during_a_restart_begins_a_new_one(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    ready.unlink()
    first = Answers("worker-1")
    first.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    early = [row.pid for row in stage.listed if row.state == "starting"]
    stage.supervisor.files_changed(["tasks.py"])
    wait_until(lambda: early[0] and birth(early[0]) is None)
    ready.touch()
    assert first.wait() == {"worker-1": None}
    wait_until(lambda: [row.state for row in stage.listed] == ["running"])


def test_a_successor_that_is_never_ready_is_given_up(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    first = stage.pid("worker-1")
    ready.unlink()
    monkeypatch.setattr(restarts, "READY_WITHIN_S", 0.2)
    assert restart(stage, "worker-1") == {"worker-1": "it was not ready within 0.2 s"}
    assert stage.pid("worker-1") == first


def test_a_change_does_not_end_restarts_that_wait(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True), shell("api", SLEEP))
    stage.watch()
    ready.unlink()
    first, second = Answers("worker-1", "api"), Answers("api")
    first.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    second.ask(stage)
    stage.supervisor.files_changed(["tasks.py"])
    ready.touch()
    assert first.wait() == {"worker-1": None, "api": None}
    assert second.wait() == {"api": None}


def test_a_worker_that_is_killed_while_its_successor_starts_is_replaced(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    first = stage.pid("worker-1")
    ready.unlink()
    answers = Answers("worker-1")
    answers.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "worker-1 ended with signal 9" in stage.console.getvalue())
    assert not answers.given
    ready.touch()
    assert answers.wait() == {"worker-1": None}
    wait_until(lambda: [row.state for row in stage.listed] == ["running"])


def test_what_a_process_said_before_it_was_killed_is_not_called_the_reason(
    stage: Stage, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    stage.start(shell("api", f"echo 'GET /api/info 200'; touch {said}; {SLEEP}"))
    stage.watch()
    wait_until(said.exists)
    os.kill(stage.pid("api"), signal.SIGKILL)
    wait_until(lambda: stage.rows["api"].last_exit is not None)
    assert stage.rows["api"].last_exit == "ended with signal 9 (SIGKILL)"


def test_a_stop_ends_successors_and_predecessors(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    ready.unlink()
    answers = Answers("worker-1")
    answers.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    pids = [row.pid for row in stage.listed if row.pid]
    assert len(pids) == 2
    stage.stop()
    assert answers.given == {"worker-1": "the stack stops"}
    assert not any(map(birth, pids))


@pytest.mark.parametrize(("script", "how"), [("exit 3", "exit code 3: bye"), ("kill -9 $$", "SIGKILL")])
def test_the_list_says_why_a_process_restarts(stage: Stage, tmp_path: Path, script: str, how: str) -> None:
    go = tmp_path / "go"
    stage.start(shell("one", f"test -e {go} && exec sleep 600; touch {go}; echo bye; sleep 0.2; {script}"))
    stage.watch()
    wait_until(lambda: stage.rows["one"].restarts == 1 and stage.rows["one"].state == "running")
    assert how in (stage.rows["one"].last_exit or "")
